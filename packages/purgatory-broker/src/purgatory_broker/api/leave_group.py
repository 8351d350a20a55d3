"""LeaveGroup: stop being a member of a group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import LeaveGroupRequest, LeaveGroupResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.groups.group_requests import LeavingMember
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Member = LeaveGroupResponse.MemberResponse

#: The first version with a list of members.
MEMBER_LIST_SINCE = 3


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to remove members from a group.

    Attributes:
        has_member_list: The response has the results of the members; otherwise there is one member.
    """

    group_id: str
    members: tuple[LeavingMember, ...]
    has_member_list: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    """Return what the handler needs of a request.

    Old versions are about their sender. Later ones list members, which may be named by their
    instance id alone.
    """
    has_member_list = context.version >= MEMBER_LIST_SINCE
    members = (
        tuple(
            LeavingMember(member.member_id, member.group_instance_id) for member in message.members
        )
        if has_member_list
        else (LeavingMember(message.member_id),)
    )
    return _Request(message.group_id, members, has_member_list)


def _leave_group(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    left = broker.groups.leave_group(request.group_id, request.members)
    if not request.has_member_list:
        code = left.members[0] if left.members else left.error
        context.reply(LeaveGroupResponse(throttle_time_ms=0, error_code=int(code), members=[]))
        return
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
                for member, error in zip(request.members, left.members, strict=False)
            ],
        )
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return LeaveGroupResponse(error_code=int(code), members=[])


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(groups=[request.group_id])


API = ServedApi(
    key=13,
    name="LeaveGroup",
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    min_version=0,
    max_version=5,
    decode=_decode,
    handle=_leave_group,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
