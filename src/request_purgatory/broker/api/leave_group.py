"""LeaveGroup: stop being a member of a group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import LeaveGroupRequest, LeaveGroupResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode


def leave_group(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a LeaveGroup request."""
    context.reply(broker.groups.leave_group(request))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error."""
    return LeaveGroupResponse(error_code=int(code), members=[])


API = ServedApi(
    key=13,
    name="LeaveGroup",
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    min_version=0,
    max_version=5,
    handle=leave_group,
    error_response=error_response,
)
