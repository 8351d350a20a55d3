"""DeleteGroups: delete groups without members."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteGroupsRequest, DeleteGroupsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Result = DeleteGroupsResponse.DeletableGroupResult


def delete_groups(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DeleteGroups request."""

    def reply(errors: dict[str, ErrorCode]) -> None:
        results = [
            _Result(group_id=group_id, error_code=int(error)) for group_id, error in errors.items()
        ]
        context.reply(DeleteGroupsResponse(throttle_time_ms=0, results=results))

    broker.groups.delete_groups(request.groups_names, reply)


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every group."""
    return DeleteGroupsResponse(
        results=[
            _Result(group_id=group_id, error_code=int(code)) for group_id in request.groups_names
        ]
    )


API = ServedApi(
    key=42,
    name="DeleteGroups",
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    min_version=0,
    max_version=2,
    handle=delete_groups,
    error_response=error_response,
)
