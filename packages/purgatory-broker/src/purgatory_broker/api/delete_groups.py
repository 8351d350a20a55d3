"""DeleteGroups: delete groups without members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Result = DeleteGroupsResponse.DeletableGroupResult


@dataclass(frozen=True, slots=True)
class _Request:
    group_ids: tuple[str, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(tuple(message.groups_names))


def _delete_groups(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    def reply(errors: dict[str, ErrorCode]) -> None:
        results = [
            _Result(group_id=group_id, error_code=int(error)) for group_id, error in errors.items()
        ]
        context.reply(DeleteGroupsResponse(throttle_time_ms=0, results=results))

    broker.groups.delete_groups(request.group_ids, reply)


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DeleteGroupsResponse(
        results=[_Result(group_id=group_id, error_code=int(code)) for group_id in request.group_ids]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(groups=request.group_ids)


API = ServedApi(
    key=42,
    name="DeleteGroups",
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    min_version=0,
    max_version=2,
    decode=_decode,
    handle=_delete_groups,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
