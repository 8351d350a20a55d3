"""The replies to the pending requests of members."""

from __future__ import annotations

from functools import partial

from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.results import JoinReply, JoinResult, SyncReply, SyncResult
from purgatory_broker.wire.error_code import ErrorCode


class MemberReplies:
    """Answers members' pending JoinGroup and SyncGroup requests, at most one of each.

    Replies are called when the outermost block of the action queue ends.
    """

    def __init__(self, actions: ActionQueue) -> None:
        self._actions = actions

    def reply_to_join(self, group: Group, member: Member, result: JoinResult) -> None:
        """Answer a member's pending JoinGroup; no-op if none is pending."""
        if member.join_reply is not None:
            self._actions.add(partial(member.join_reply, result))
            group.set_join_reply(member, None)

    def reply_to_sync(self, member: Member, result: SyncResult) -> bool:
        """Answer a member's pending SyncGroup; return False if none is pending."""
        if member.sync_reply is None:
            return False
        self._actions.add(partial(member.sync_reply, result))
        member.sync_reply = None
        return True

    def await_join(self, group: Group, member: Member, reply: JoinReply) -> None:
        """Make a JoinGroup request the member's pending one.

        An earlier pending request gets REBALANCE_IN_PROGRESS: its client has given up on it and
        sent this one.
        """
        self.reply_to_join(
            group,
            member,
            JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id),
        )
        group.set_join_reply(member, reply)

    def await_sync(self, member: Member, reply: SyncReply) -> None:
        """Make a SyncGroup request the member's pending one; an earlier one gets an error."""
        self.reply_to_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply
