"""ListGroups: list the broker's groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import ListGroupsRequest, ListGroupsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode

_Listed = ListGroupsResponse.ListedGroup


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for the groups of some states and types; empty is all."""

    states: tuple[str, ...]
    types: tuple[str, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(tuple(message.states_filter or ()), tuple(message.types_filter or ()))


def _list_groups(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    listed = broker.groups.list_groups(request.states, request.types)
    context.reply(
        ListGroupsResponse(
            throttle_time_ms=0,
            error_code=int(listed.error),
            groups=[
                _Listed(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.group_type,
                )
                for group in listed.groups
            ],
        )
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return ListGroupsResponse(error_code=int(code), groups=[])


API = ServedApi(
    key=16,
    name="ListGroups",
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    min_version=0,
    max_version=5,
    decode=_decode,
    handle=_list_groups,
    error_response=_error_response,
    subjects=no_subjects,
)
