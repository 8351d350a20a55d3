"""AlterClientQuotas and DescribeClientQuotas: the quotas of users, client ids and IP addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.alter_client_quotas import (
    ALTER_CLIENT_QUOTAS_MESSAGES,
    AlterClientQuotasResponse,
    ResponseEntryData,
)
from purgatory_broker._wire.protocol.alter_client_quotas import EntityData as AlteredEntity
from purgatory_broker._wire.protocol.describe_client_quotas import (
    DESCRIBE_CLIENT_QUOTAS_MESSAGES,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.client_quotas import (
    CLIENT_ID,
    IP,
    USER,
    QuotaAlteration,
    QuotaFilter,
    quota_entity,
)
from purgatory_broker.metadata.metadata_file import QuotaEntity
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.request_context import RequestContext


@dataclass(frozen=True, slots=True)
class _AlterClientQuotas:
    alterations: tuple[QuotaAlteration, ...]
    validate_only: bool


def _decode_alter_client_quotas(message: Any, context: RequestContext) -> _AlterClientQuotas:
    alterations = tuple(
        QuotaAlteration(
            quota_entity(
                {component.entity_type: component.entity_name for component in entry.entity}
            ),
            tuple((op.key, None if op.remove else op.value) for op in entry.ops),
        )
        for entry in message.entries
    )
    return _AlterClientQuotas(alterations, bool(message.validate_only))


def _alter_client_quotas(
    broker: BrokerApi, context: RequestContext, request: _AlterClientQuotas
) -> Any:
    results = broker.controller.quotas.alter(
        request.alterations, validate_only=request.validate_only
    )
    return AlterClientQuotasResponse(
        entries=[
            _altered(
                entity, ErrorCode.NONE if refusal is None else ErrorCode.INVALID_REQUEST, refusal
            )
            for entity, refusal in results.items()
        ]
    )


def _altered(entity: QuotaEntity, code: ErrorCode, message: str | None = None) -> Any:
    return ResponseEntryData(
        error_code=int(code),
        error_message=truncate_message(message),
        entity=[AlteredEntity(entity_type=kind, entity_name=name) for kind, name in entity],
    )


def _refuse_alter_client_quotas(request: _AlterClientQuotas, code: ErrorCode) -> Any:
    return AlterClientQuotasResponse(
        entries=[_altered(alteration.entity, code) for alteration in request.alterations]
    )


ALTER_CLIENT_QUOTAS = ServedApi(
    messages=ALTER_CLIENT_QUOTAS_MESSAGES,
    versions=(0, 1),
    needs_controller=True,
    decode=_decode_alter_client_quotas,
    answer=_alter_client_quotas,
    refuse=_refuse_alter_client_quotas,
)


#: How a component of the request selects entities: by name, by the default, or by the type alone.
_EXACT, _DEFAULT, _SPECIFIED = range(3)


@dataclass(frozen=True, slots=True)
class _Component:
    kind: str
    how: int
    match: str | None


@dataclass(frozen=True, slots=True)
class _DescribeClientQuotas:
    components: tuple[_Component, ...]
    is_strict: bool


def _decode_describe_client_quotas(message: Any, context: RequestContext) -> _DescribeClientQuotas:
    return _DescribeClientQuotas(
        tuple(
            _Component(component.entity_type, component.match_type, component.match)
            for component in message.components
        ),
        bool(message.strict),
    )


def _filter(request: _DescribeClientQuotas) -> QuotaFilter:
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for component in request.components:
        kind, how, match = component.kind, component.how, component.match
        error = None
        if not kind:
            error = "Invalid empty entity type."
        elif kind in exact or kind in types:
            error = f"Entity type {kind} cannot appear more than once in the filter."
        elif kind not in (USER, CLIENT_ID, IP):
            raise ControllerError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        elif how not in (_EXACT, _DEFAULT, _SPECIFIED):
            error = f"Unknown match type {how}"
        elif (match is None) == (how == _EXACT):
            error = f"Match type {how} does not go with match {match!r}."
        if error is not None:
            raise ControllerError(ErrorCode.INVALID_REQUEST, error)
        if how == _SPECIFIED:
            types.add(kind)
        else:
            exact[kind] = match
    if IP in (types | exact.keys()) and len(types) + len(exact) > 1:
        raise ControllerError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component.",
        )
    return QuotaFilter(exact, frozenset(types), request.is_strict)


def _describe_client_quotas(
    broker: BrokerApi, context: RequestContext, request: _DescribeClientQuotas
) -> Any:
    try:
        wanted = _filter(request)
    except ControllerError as error:
        return _refuse_describe_client_quotas(request, error.code, str(error))
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in broker.metadata.client_quotas.items()
            if wanted.matches(entity)
        ]
    )


def _refuse_describe_client_quotas(
    request: _DescribeClientQuotas, code: ErrorCode, message: str | None = None
) -> Any:
    return DescribeClientQuotasResponse(
        error_code=int(code), error_message=truncate_message(message), entries=None
    )


DESCRIBE_CLIENT_QUOTAS = ServedApi(
    messages=DESCRIBE_CLIENT_QUOTAS_MESSAGES,
    versions=(0, 1),
    decode=_decode_describe_client_quotas,
    answer=_describe_client_quotas,
    refuse=_refuse_describe_client_quotas,
)
