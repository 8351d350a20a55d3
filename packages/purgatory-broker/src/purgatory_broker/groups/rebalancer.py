"""Rebalances: what moves a group from one generation to the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.delayed import DelayedJoin, DelayedSync, Heartbeats, InitialDelayedJoin
from purgatory_broker.groups.group import Group, GroupState
from purgatory_broker.groups.group_messages import (
    JoinedMember,
    JoinReply,
    JoinResult,
    SyncReply,
    SyncResult,
)
from purgatory_broker.groups.group_records import GroupKey
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.shards import Shards
from request_purgatory.aio import Purgatory
from request_purgatory.purgatory.operation import DelayedOperation

logger = logging.getLogger(__name__)


class GroupPurgatories(NamedTuple):
    join: Purgatory
    sync: Purgatory
    heartbeat: Purgatory


class Rebalancer:
    """Removes members, and runs the groups' rebalances.

    The steps of a rebalance, as in Kafka's GroupMetadataManager:

    1. `prepare_rebalance`: a member has joined, changed its protocols or left. A group that was
       empty waits for the initial rebalance delay. Any other group waits until all its members
       have sent JoinGroup, at most for the rebalance timeout (`DelayedJoin`).
    2. `complete_join`: dynamic members that have not joined are removed; static members stay until
       their session expires. The others receive the next generation, and its leader also their
       metadata. The group then waits for SyncGroup from all members (`DelayedSync`).
    3. `set_and_propagate_assignment`: the leader's assignment is stored, and the members that wait
       for it are answered. Later SyncGroup requests are answered immediately.

    Every method is called inside a block of the action queue, or opens one. Replies are called
    when the outermost block ends.
    """

    def __init__(
        self,
        purgatories: GroupPurgatories,
        shards: Shards,
        actions: ActionQueue,
        *,
        initial_delay_ms: int,
        now_ms: Callable[[], int],
        on_stable: Callable[[str], None],
    ) -> None:
        self.heartbeats = Heartbeats(purgatories.heartbeat, actions, now_ms, self._expire_heartbeat)
        self._purgatories = purgatories
        self._shards = shards
        self._actions = actions
        self._initial_delay_ms = initial_delay_ms
        self._now_ms = now_ms
        self._on_stable = on_stable

    # -- replies

    def reply_to_join(self, group: Group, member: Member, result: JoinResult) -> None:
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
        # An earlier request, which its client has given up, gets REBALANCE_IN_PROGRESS.
        self.reply_to_join(
            group, member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id)
        )
        group.set_join_reply(member, reply)

    def await_sync(self, member: Member, reply: SyncReply) -> None:
        """Make a SyncGroup request the member's pending one; an earlier one gets an error."""
        self.reply_to_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply

    # -- heartbeats

    def _expire_heartbeat(self, group: Group, member_id: str) -> None:
        with self._actions:
            self.heartbeats.cancel(group, member_id)
            if member_id in group.pending_join_members:
                logger.info(
                    "group %r: no JoinGroup with new member id %r in time",
                    group.group_id,
                    member_id,
                )
                group.remove(member_id)
                self.try_complete_join(group)
                return
            member = group.members[member_id]
            # A member with a pending request has not failed; its response reschedules heartbeats.
            if member.needs_heartbeat:
                logger.info("group %r: member %r has failed", group.group_id, member_id)
                self.remove_member(group, member)
                self.prepare_rebalance_or_complete_join(group, f"member {member_id} has failed")

    # -- removal

    def remove_member(
        self, group: Group, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    ) -> None:
        # The default error makes a live client join as a new member.
        self.reply_to_join(group, member, JoinResult(error))
        self.reply_to_sync(member, SyncResult(error))
        self.remove_member_id(group, member.member_id)

    def remove_member_id(self, group: Group, member_id: str) -> None:
        """Remove a member without pending requests, or a member id that is outstanding."""
        self.heartbeats.cancel(group, member_id)
        group.remove(member_id)

    def mark_dead(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            self.reply_to_join(group, member, JoinResult(error, member_id=member.member_id))
            self.reply_to_sync(member, SyncResult(error))
        for member_id in list(group.heartbeats):
            self.heartbeats.cancel(group, member_id)
        group.pending_join_members.clear()
        self._cancel_join(group)
        self._cancel_sync(group)
        group.transition_to(GroupState.DEAD, self._now_ms())

    # -- joining

    def prepare_rebalance_or_complete_join(self, group: Group, reason: str) -> None:
        """Start a rebalance or, if one is being prepared, check whether it can continue."""
        if group.can_rebalance:
            self.prepare_rebalance(group, reason)
        else:
            self.try_complete_join(group)

    def try_complete_join(self, group: Group) -> None:
        if group.delayed_join is not None:
            self._actions.add(partial(self._purgatories.join.notify, group.group_id))

    def prepare_rebalance(self, group: Group, reason: str) -> None:
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._reset_and_propagate_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self._cancel_sync(group)
        was_empty = group.state is GroupState.EMPTY
        group.transition_to(GroupState.PREPARING_REBALANCE, self._now_ms())
        logger.info(
            "group %r rebalances after generation %d: %s", group.group_id, group.generation, reason
        )
        if was_empty:
            delay_ms = self._initial_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._watch_initial_join(group, delay_ms, remaining_ms)
        else:
            self._watch_join(group, group.rebalance_timeout_ms)

    def _watch_initial_join(self, group: Group, delay_ms: int, remaining_ms: int) -> None:
        """Wait for members of a group that was empty; the delay may grow by `remaining_ms`."""
        group.new_member_added = False
        elapsed = partial(self._initial_delay_elapsed, delay_ms=delay_ms, remaining_ms=remaining_ms)
        group.delayed_join = InitialDelayedJoin(group, delay_ms, elapsed)
        self._watch(self._purgatories.join, group, group.delayed_join)

    def _initial_delay_elapsed(self, group: Group, *, delay_ms: int, remaining_ms: int) -> None:
        """Extend the initial delay if members have joined during it, or complete the join."""
        if not group.new_member_added or remaining_ms == 0:
            self.complete_join(group)
            return
        with self._actions:
            next_delay_ms = min(self._initial_delay_ms, remaining_ms)
            self._watch_initial_join(group, next_delay_ms, max(remaining_ms - delay_ms, 0))

    def complete_join(self, group: Group) -> None:
        with self._actions:
            self._cancel_join(group)
            late = [
                member
                for member in group.members.values()
                if member.join_reply is None and member.instance_id is None
            ]
            for member in late:
                logger.info(
                    "group %r: member %r has not joined in time", group.group_id, member.member_id
                )
                self.remove_member(group, member)
            if not group.elect_joined_leader() and group.members:
                # Only static members are left, which may all return. Those whose session expires
                # are removed by that.
                logger.warning("group %r: no member has joined in time", group.group_id)
                self._watch_join(group, max(group.rebalance_timeout_ms, 1))
                return
            group.init_next_generation(self._now_ms())
            if group.state is GroupState.EMPTY:
                logger.info("group %r is empty at generation %d", group.group_id, group.generation)
                self.store_group(group, {}, partial(self._empty_group_stored, group))
                return
            logger.info(
                "group %r has %d members at generation %d",
                group.group_id,
                len(group.members),
                group.generation,
            )
            for member in group.members.values():
                is_leader = member.member_id == group.leader_id
                self.reply_to_join(
                    group, member, generation_result(group, member, with_members=is_leader)
                )
                self.heartbeats.reschedule(group, member.member_id, member.session_timeout_ms)
                member.is_new = False
                group.pending_sync_members.add(member.member_id)
            group.delayed_sync = DelayedSync(
                group, group.rebalance_timeout_ms, self._expire_pending_sync
            )
            self._watch(self._purgatories.sync, group, group.delayed_sync)

    def _watch_join(self, group: Group, timeout_ms: int) -> None:
        group.delayed_join = DelayedJoin(group, timeout_ms, self.complete_join)
        self._watch(self._purgatories.join, group, group.delayed_join)

    def _watch(self, purgatory: Purgatory, group: Group, operation: DelayedOperation) -> None:
        self._actions.add(partial(purgatory.try_complete_else_watch, operation, [group.group_id]))

    def _cancel_join(self, group: Group) -> None:
        if group.delayed_join is not None:
            group.delayed_join = None
            self._actions.add(partial(self._purgatories.join.notify, group.group_id))

    # -- syncing

    def remove_pending_sync(self, group: Group, member_id: str) -> None:
        """Note that a member has sent SyncGroup; the last one ends the wait for them."""
        group.pending_sync_members.discard(member_id)
        if not group.pending_sync_members:
            self._cancel_sync(group)

    def _expire_pending_sync(self, group: Group) -> None:
        with self._actions:
            late = sorted(group.pending_sync_members)
            logger.info("group %r: members %s have not synced in time", group.group_id, late)
            for member_id in late:
                self.remove_member(group, group.members[member_id])
            self.prepare_rebalance(group, f"members {late} have not synced")

    def set_and_propagate_assignment(self, group: Group, assignment: Mapping[str, bytes]) -> None:
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
        self._propagate_assignment(group, ErrorCode.NONE)
        group.transition_to(GroupState.STABLE, self._now_ms())
        self._on_stable(group.group_id)

    def fail_assignment(self, group: Group, error: ErrorCode) -> None:
        self._reset_and_propagate_assignment(group, error)
        self.prepare_rebalance(group, f"{error.name} while the assignment was stored")

    def _cancel_sync(self, group: Group) -> None:
        group.pending_sync_members.clear()
        if group.delayed_sync is not None:
            group.delayed_sync = None
            self._actions.add(partial(self._purgatories.sync.notify, group.group_id))

    def _reset_and_propagate_assignment(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._propagate_assignment(group, error)

    def _propagate_assignment(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            if self.reply_to_sync(member, assignment_result(group, member, error)):
                # The heartbeat may have expired while the request was pending. Without another
                # one, a later failure of the member would go unnoticed.
                self.heartbeats.reschedule(group, member.member_id, member.session_timeout_ms)

    # -- storing

    def store_group(
        self, group: Group, assignment: Mapping[str, bytes], done: Callable[[ErrorCode], None]
    ) -> None:
        def stored(error: ErrorCode) -> None:
            group.is_stored |= error is ErrorCode.NONE
            done(error)

        shard = self._shards.shard_of(group.group_id)
        self._shards.append(
            shard, [(GroupKey(group.group_id), group.to_record(assignment))], stored
        )

    def _empty_group_stored(self, group: Group, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            # A coordinator that loads the group then finds an older generation, whose members'
            # sessions expire.
            logger.warning("cannot store empty group %r: %s", group.group_id, error.name)


def generation_result(group: Group, member: Member, *, with_members: bool) -> JoinResult:
    """Return the result of joining the generation; only the leader gets the list of members."""
    return JoinResult(
        member_id=member.member_id,
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader_id or "",
        members=tuple(
            JoinedMember(other.member_id, other.instance_id, other.metadata(str(group.protocol)))
            for other in (group.members.values() if with_members else ())
        ),
    )


def assignment_result(
    group: Group, member: Member, error: ErrorCode = ErrorCode.NONE
) -> SyncResult:
    if error is not ErrorCode.NONE:
        return SyncResult(error)
    return SyncResult(error, group.protocol_type, group.protocol, member.assignment)
