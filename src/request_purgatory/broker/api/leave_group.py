"""LeaveGroup: stop being a member of a group."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import LeaveGroupRequest, LeaveGroupResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.groups.requests import LeavingMember
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Member = LeaveGroupResponse.MemberResponse

#: The first version with a list of members.
MEMBER_LIST_SINCE = 3


def leave_group(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a LeaveGroup request.

    Old versions are about their sender. Later ones list members, which may be named by their
    instance id alone.
    """
    if context.version < MEMBER_LIST_SINCE:
        left = broker.groups.leave_group(request.group_id, [LeavingMember(request.member_id)])
        code = left.members[0] if left.members else left.error
        context.reply(LeaveGroupResponse(throttle_time_ms=0, error_code=int(code), members=[]))
        return
    leaving = [LeavingMember(each.member_id, each.group_instance_id) for each in request.members]
    left = broker.groups.leave_group(request.group_id, leaving)
    # Without results of the members, the whole request has an error.
    context.reply(
        LeaveGroupResponse(
            throttle_time_ms=0,
            error_code=int(left.error),
            members=[
                _Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    error_code=int(error),
                )
                for member, error in zip(leaving, left.members, strict=False)
            ],
        )
    )


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
