"""DescribeGroups: describe groups and their members."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, DescribeGroupsResponse

from purgatory_broker.api.authorized_operations import ON_GROUPS
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.groups.group_results import GroupDescription
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Group = DescribeGroupsResponse.DescribedGroup

_Member = _Group.DescribedGroupMember

#: The first version whose response has GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 6


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for groups, with the operations that the client may do on them or without."""

    group_ids: tuple[str, ...]
    include_authorized_operations: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(tuple(message.groups), message.include_authorized_operations)


def _describe_groups(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    operations = ON_GROUPS if request.include_authorized_operations else None
    groups = [
        _encode(broker.groups.describe_group(group_id), operations, context.version)
        for group_id in dict.fromkeys(request.group_ids)
    ]
    context.reply(DescribeGroupsResponse(throttle_time_ms=0, groups=groups))


def _encode(group: GroupDescription, operations: frozenset[int] | None, version: int) -> Any:
    """Return a group of the response; old versions report a group that is not found as dead."""
    error, message = group.error, None
    if error is ErrorCode.GROUP_ID_NOT_FOUND:
        if version >= GROUP_ID_NOT_FOUND_SINCE:
            message = f"Group {group.group_id} not found."
        else:
            error = ErrorCode.NONE
    return _Group(
        error_code=int(error),
        error_message=message,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[
            _Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in group.members
        ],
        authorized_operations=operations if error is ErrorCode.NONE else None,
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DescribeGroupsResponse(
        groups=[
            _Group(
                error_code=int(code),
                group_id=group_id,
                group_state="",
                protocol_type="",
                protocol_data="",
                members=[],
            )
            for group_id in request.group_ids
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(groups=request.group_ids)


API = ServedApi(
    key=15,
    name="DescribeGroups",
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    min_version=0,
    max_version=6,
    decode=_decode,
    handle=_describe_groups,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.GROUP}),
)
