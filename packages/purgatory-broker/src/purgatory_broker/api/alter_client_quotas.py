"""AlterClientQuotas: change the quotas of users, client ids and IP addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, AlterClientQuotasResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.metadata.client_quotas import QuotaAlteration, quota_entity
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.metadata.metadata_file import QuotaEntity
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Entry = AlterClientQuotasResponse.EntryData


@dataclass(frozen=True, slots=True)
class _Request:
    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    alterations = tuple(
        QuotaAlteration(
            quota_entity(
                {component.entity_type: component.entity_name for component in entry.entity}
            ),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in message.entries
    )
    return _Request(alterations, bool(message.validate_only))


def _alter_client_quotas(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    try:
        results = broker.controller.quotas.alter(
            request.alterations, validate_only=request.validate_only
        )
    except ControllerError as error:
        context.reply(_error_response(request, error.code))
        return
    context.reply(
        AlterClientQuotasResponse(
            entries=[
                _result(
                    entity,
                    ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST,
                    refusal,
                )
                for entity, refusal in results.items()
            ]
        )
    )


def _result(entity: QuotaEntity, code: ErrorCode, message: str | None = None) -> Any:
    return _Entry(
        error_code=int(code),
        error_message=truncate_message(message),
        entity=[_Entry.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return AlterClientQuotasResponse(
        entries=[_result(alteration.entity, code) for alteration in request.alterations]
    )


API = ServedApi(
    key=49,
    name="AlterClientQuotas",
    request=AlterClientQuotasRequest,
    response=AlterClientQuotasResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_alter_client_quotas,
    error_response=_error_response,
    subjects=no_subjects,
)
