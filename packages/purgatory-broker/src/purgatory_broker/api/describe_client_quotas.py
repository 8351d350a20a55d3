"""DescribeClientQuotas: describe the stored quotas of users, client ids and IP addresses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeClientQuotasRequest, DescribeClientQuotasResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.metadata.client_quotas import CLIENT_ID, IP, USER, QuotaFilter
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Entry = DescribeClientQuotasResponse.EntryData

#: How a component of the request selects entities: by name, by the default, or by the type alone.
_EXACT, _DEFAULT, _SPECIFIED = range(3)


@dataclass(frozen=True, slots=True)
class _Component:
    """A part of the filter: a type of entities, how to select some, and the name to match."""

    kind: str
    how: int
    match: str | None


@dataclass(frozen=True, slots=True)
class _Request:
    components: tuple[_Component, ...]
    is_strict: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            _Component(component.entity_type, component.match_type, component.match)
            for component in message.components
        ),
        bool(message.strict),
    )


def _filter(request: _Request) -> QuotaFilter:
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
    return QuotaFilter(exact, frozenset(types), request.is_strict)


def _describe_client_quotas(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    try:
        wanted = _filter(request)
        wanted.check()
    except ControllerError as error:
        context.reply(_error_response(request, error.code, str(error)))
        return
    context.reply(
        DescribeClientQuotasResponse(
            error_code=0,
            entries=[
                _Entry(
                    entity=[
                        _Entry.EntityData(entity_type=kind, entity_name=name)
                        for kind, name in entity
                    ],
                    values=[
                        _Entry.ValueData(key=key, value=value) for key, value in values.items()
                    ],
                )
                for entity, values in broker.metadata.client_quotas.items()
                if wanted.matches(entity)
            ],
        )
    )


def _error_response(request: _Request, code: ErrorCode, message: str | None = None) -> Any:
    return DescribeClientQuotasResponse(
        error_code=int(code), error_message=truncate_message(message), entries=None
    )


API = ServedApi(
    key=48,
    name="DescribeClientQuotas",
    request=DescribeClientQuotasRequest,
    response=DescribeClientQuotasResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_describe_client_quotas,
    error_response=_error_response,
    subjects=no_subjects,
)
