"""What members get of their group's generation."""

from __future__ import annotations

from purgatory_broker.groups.group import Group
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.results import JoinedMember, JoinResult, SyncResult
from purgatory_broker.wire.error_code import ErrorCode


def generation_result(group: Group, member: Member, *, with_members: bool) -> JoinResult:
    """Return the result of joining the generation; only the leader gets the list of members."""
    return JoinResult(
        member_id=member.member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        members=_members(group) if with_members else (),
    )


def _members(group: Group) -> tuple[JoinedMember, ...]:
    return tuple(
        JoinedMember(member.member_id, member.instance_id, member.metadata(str(group.protocol)))
        for member in group.members.values()
    )


def assignment_result(
    group: Group, member: Member, error: ErrorCode = ErrorCode.NONE
) -> SyncResult:
    """Return the result with a member's assignment, or with `error`."""
    if error is not ErrorCode.NONE:
        return SyncResult(error)
    return SyncResult(error, group.protocol_type, group.protocol, member.assignment)
