"""The replies to the pending requests of members."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.group_messages import (
    JoinedMember,
    JoinReply,
    JoinResult,
    SyncReply,
    SyncResult,
)
from purgatory_broker.groups.member import Member


@dataclass(frozen=True, slots=True)
class MemberReplies:
    """Answers members' pending requests when the outermost block of the action queue ends."""

    actions: ActionQueue

    def reply_to_join(self, group: Group, member: Member, result: JoinResult) -> None:
        if member.join_reply is not None:
            self.actions.add(partial(member.join_reply, result))
            group.set_join_reply(member, None)

    def reply_to_sync(self, member: Member, result: SyncResult) -> bool:
        """Answer a member's pending SyncGroup; return False if none is pending."""
        if member.sync_reply is None:
            return False
        self.actions.add(partial(member.sync_reply, result))
        member.sync_reply = None
        return True

    def await_join(self, group: Group, member: Member, reply: JoinReply) -> None:
        # An earlier request, which its client has given up, gets REBALANCE_IN_PROGRESS.
        self.reply_to_join(
            group, member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        )
        group.set_join_reply(member, reply)

    def await_sync(self, member: Member, reply: SyncReply) -> None:
        """Make a SyncGroup request the member's pending one; an earlier one gets an error."""
        self.reply_to_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply


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
    if error is not ErrorCode.NONE:
        return SyncResult(error)
    return SyncResult(error, group.protocol_type, group.protocol, member.assignment)
