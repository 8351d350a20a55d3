"""JoinGroup and SyncGroup responses."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import JoinGroupResponse, SyncGroupResponse

from request_purgatory.broker.groups.group import Group
from request_purgatory.broker.groups.member import Member
from request_purgatory.broker.wire.error_code import ErrorCode


def join_response(error: ErrorCode = ErrorCode.NONE, **fields: Any) -> Any:
    """Return a JoinGroupResponse; fields not given have the values of an error response."""
    return JoinGroupResponse(
        **{
            "throttle_time_ms": 0,
            "error_code": error,
            "generation_id": -1,
            "protocol_type": None,
            "protocol_name": None,
            "leader": "",
            "skip_assignment": False,
            "member_id": "",
            "members": [],
        }
        | fields
    )


def generation_response(group: Group, member: Member, *, with_members: bool) -> Any:
    """Return the JoinGroupResponse with the group's generation.

    Args:
        group: The group.
        member: The member to answer.
        with_members: Include the list of members, which only the leader gets.

    Returns:
        The response.
    """
    return join_response(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id,
        member_id=member.member_id,
        members=_generation_members(group) if with_members else [],
    )


def _generation_members(group: Group) -> list[Any]:
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(str(group.protocol)),
        )
        for member in group.members.values()
    ]


def sync_response(error: ErrorCode = ErrorCode.NONE, **fields: Any) -> Any:
    """Return a SyncGroupResponse; fields not given have the values of an error response."""
    return SyncGroupResponse(
        **{
            "throttle_time_ms": 0,
            "error_code": error,
            "protocol_type": None,
            "protocol_name": None,
            "assignment": b"",
        }
        | fields
    )


def assignment_response(group: Group, member: Member, error: ErrorCode = ErrorCode.NONE) -> Any:
    """Return the SyncGroupResponse with a member's assignment, or with `error`."""
    if error is not ErrorCode.NONE:
        return sync_response(error)
    return sync_response(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )
