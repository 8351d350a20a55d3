"""What moves a group from one generation to the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.consumer import JoinGroupResponse, SyncGroupResponse

from request_purgatory.aio import Purgatory
from request_purgatory.broker.groups.deferred_actions import ActionQueue
from request_purgatory.broker.groups.delayed import (
    DelayedHeartbeat,
    DelayedJoin,
    DelayedSync,
    InitialDelayedJoin,
)
from request_purgatory.broker.groups.group import Group, GroupState
from request_purgatory.broker.groups.member import Member, Reply
from request_purgatory.broker.groups.records import GroupKey
from request_purgatory.broker.groups.shards import Shards
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)


class GroupPurgatories(NamedTuple):
    """The purgatories of a coordinator, one for each kind of operation."""

    join: Purgatory
    sync: Purgatory
    heartbeat: Purgatory


def join_response(error: ErrorCode = ErrorCode.NONE, **fields: Any) -> Any:
    """A JoinGroupResponse, with what an error's has unless `fields` say otherwise."""
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


def sync_response(error: ErrorCode = ErrorCode.NONE, **fields: Any) -> Any:
    """A SyncGroupResponse, with what an error's has unless `fields` say otherwise."""
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


class Rebalancer:
    """Answers and removes members, and leads groups through rebalances.

    The way of a rebalance, as in Kafka's GroupMetadataManager:

    1. `prepare`: a member came, changed or went. A group that was empty waits for the initial
       delay, any other one until all its members have sent JoinGroup, for as long as its rebalance
       timeout (`DelayedJoin`).
    2. `complete_join`: dynamic members that have not are removed, static ones stay until their
       session ends. The others are answered with the next generation, its leader with what they
       want, and SyncGroup of all is waited for (`DelayedSync`).
    3. The leader's SyncGroup is stored, then everybody who has sent one is answered (`assign`),
       later ones at once.

    Every method is called inside a block of the action queue, or opens one; answers go out when
    that ends.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        purgatories: GroupPurgatories,
        shards: Shards,
        actions: ActionQueue,
        now_ms: Callable[[], int],
    ) -> None:
        self.settings = settings
        self.actions = actions
        self.shards = shards
        self.now_ms = now_ms
        self._purgatories = purgatories

    # -- answers

    def answer_join(self, group: Group, member: Member, response: Any) -> None:
        """Answer a member's JoinGroup, if one waits."""
        if member.join_reply is not None:
            self.reply(member.join_reply, response)
            group.await_join(member, None)

    def answer_sync(self, member: Member, response: Any) -> bool:
        """Answer a member's SyncGroup; False if none waits."""
        if member.sync_reply is None:
            return False
        self.reply(member.sync_reply, response)
        member.sync_reply = None
        return True

    def await_join(self, group: Group, member: Member, reply: Reply) -> None:
        """Let a member's JoinGroup wait.

        One that waits already has lost its client, which has sent this one instead.
        """
        self.answer_join(
            group,
            member,
            join_response(ErrorCode.REBALANCE_IN_PROGRESS, member_id=member.member_id),
        )
        group.await_join(member, reply)

    def await_sync(self, member: Member, reply: Reply) -> None:
        """Let a member's SyncGroup wait, instead of one that waits already."""
        self.answer_sync(member, sync_response(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_reply = reply

    def reply(self, reply: Reply, response: Any) -> None:
        """Answer when the present block of actions is over."""
        self.actions.add(partial(reply, response))

    def generation_response(self, group: Group, member: Member, *, with_members: bool) -> Any:
        """What a member is told of the group's generation; the leader, of its members too."""
        return join_response(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            leader=group.leader_id,
            member_id=member.member_id,
            members=current_members(group) if with_members else [],
        )

    # -- heartbeats

    def expect_heartbeat(self, group: Group, member_id: str, timeout_ms: int) -> None:
        """A sign of a member's life has come, and the next one must within `timeout_ms`."""
        operation = DelayedHeartbeat(self, group, member_id, timeout_ms)
        self.void_heartbeat(group, member_id)
        group.heartbeats[member_id] = operation
        self.actions.add(
            partial(
                self._purgatories.heartbeat.try_complete_else_watch,
                operation,
                [(group.group_id, member_id)],
            )
        )

    def heartbeat_expired(self, group: Group, member_id: str) -> None:
        """No sign of a member's life has come in time."""
        with self.actions:
            self.void_heartbeat(group, member_id)
            if member_id in group.pending_join:
                logger.info(
                    "member %r of group %r was given its id and has not come back",
                    member_id,
                    group.group_id,
                )
                group.remove(member_id)
                self.try_join(group)
                return
            member = group.members[member_id]
            if member.is_awaited_in_vain:
                logger.info("member %r of group %r has failed", member_id, group.group_id)
                self.remove(group, member)
                self.prepare_or_try_join(group, f"member {member_id} has failed")
            # Else it waits for others, and heartbeats are expected again as soon as it is answered.

    def void_heartbeat(self, group: Group, member_id: str) -> None:
        """No sign of a member's life is expected any more."""
        if group.heartbeats.pop(member_id, None) is not None:
            self.actions.add(
                partial(self._purgatories.heartbeat.notify, (group.group_id, member_id))
            )

    # -- members that go

    def remove(
        self, group: Group, member: Member, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID
    ) -> None:
        """Let a member go.

        What waits for it is answered, so that a client that is alive joins anew.
        """
        self.answer_join(group, member, join_response(error))
        self.answer_sync(member, sync_response(error))
        self.forget(group, member.member_id)

    def forget(self, group: Group, member_id: str) -> None:
        """Let a member go of which nothing waits, or one that was expected."""
        self.void_heartbeat(group, member_id)
        group.remove(member_id)

    def discard(self, group: Group, error: ErrorCode) -> None:
        """The group is gone: deleted, or another node's from now on.

        What waits for it is answered with the error.
        """
        for member in group.members.values():
            self.answer_join(group, member, join_response(error, member_id=member.member_id))
            self.answer_sync(member, sync_response(error))
        for member_id in list(group.heartbeats):
            self.void_heartbeat(group, member_id)
        group.pending_join.clear()
        self._void_join(group)
        self.void_sync(group)
        group.transition(GroupState.DEAD, self.now_ms())

    # -- joining

    def prepare_or_try_join(self, group: Group, reason: str) -> None:
        """Begin a rebalance, or, where one is being prepared, look whether it can go on."""
        if group.can_rebalance:
            self.prepare(group, reason)
        else:
            self.try_join(group)

    def try_join(self, group: Group) -> None:
        """Who has joined, or is no longer expected to, may have been the last one."""
        if group.delayed_join is not None:
            self.actions.add(partial(self._purgatories.join.notify, group.group_id))

    def prepare(self, group: Group, reason: str) -> None:
        """Begin a rebalance."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._reset_assignment(group, ErrorCode.REBALANCE_IN_PROGRESS)
        self.void_sync(group)
        is_first = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, self.now_ms())
        logger.info(
            "group %r rebalances after generation %d: %s", group.group_id, group.generation, reason
        )
        if is_first:
            group.new_member_added = False
            delay_ms = self.settings.group_initial_rebalance_delay_ms
            remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
            self._watch_join(group, InitialDelayedJoin(self, group, delay_ms, remaining_ms))
        else:
            self._watch_join(group, DelayedJoin(self, group, group.rebalance_timeout_ms))

    def initial_delay_over(self, group: Group, operation: InitialDelayedJoin) -> None:
        """Wait a little longer if members have come meanwhile and the rebalance timeout allows it.

        Else go on with those.
        """
        if not group.new_member_added or operation.remaining_ms == 0:
            self.complete_join(group)
            return
        with self.actions:
            group.new_member_added = False
            delay_ms = min(self.settings.group_initial_rebalance_delay_ms, operation.remaining_ms)
            remaining_ms = max(operation.remaining_ms - operation.delay_ms, 0)
            self._watch_join(group, InitialDelayedJoin(self, group, delay_ms, remaining_ms))

    def complete_join(self, group: Group) -> None:
        """The next generation begins, with those who have joined."""
        with self.actions:
            self._void_join(group)
            late = [
                each
                for each in group.members.values()
                if each.join_reply is None and not each.is_static
            ]
            for member in late:
                logger.info(
                    "member %r of group %r has not joined in time", member.member_id, group.group_id
                )
                self.remove(group, member)
            if not group.elect_joined_leader() and group.members:
                # Static members, all of which may still come back; those whose session ends are
                # removed by that.
                logger.warning(
                    "no member of group %r has joined in time; it waits on", group.group_id
                )
                self._watch_join(
                    group, DelayedJoin(self, group, max(group.rebalance_timeout_ms, 1))
                )
                return
            group.next_generation(self.now_ms())
            if group.state is GroupState.EMPTY:
                logger.info("group %r is empty at generation %d", group.group_id, group.generation)
                self.store(group, {}, partial(self._empty_stored, group))
                return
            logger.info(
                "group %r has %d members at generation %d",
                group.group_id,
                len(group.members),
                group.generation,
            )
            for member in group.members.values():
                is_leader = member.member_id == group.leader_id
                self.answer_join(
                    group, member, self.generation_response(group, member, with_members=is_leader)
                )
                self.expect_heartbeat(group, member.member_id, member.session_timeout_ms)
                member.is_new = False
                group.pending_sync.add(member.member_id)
            group.delayed_sync = DelayedSync(self, group, group.rebalance_timeout_ms)
            self.actions.add(
                partial(
                    self._purgatories.sync.try_complete_else_watch,
                    group.delayed_sync,
                    [group.group_id],
                )
            )

    def _watch_join(self, group: Group, operation: DelayedJoin) -> None:
        group.delayed_join = operation
        self.actions.add(
            partial(self._purgatories.join.try_complete_else_watch, operation, [group.group_id])
        )

    def _void_join(self, group: Group) -> None:
        if group.delayed_join is not None:
            group.delayed_join = None
            self.actions.add(partial(self._purgatories.join.notify, group.group_id))

    # -- syncing

    def synced(self, group: Group, member_id: str) -> None:
        """A member has sent SyncGroup, perhaps the last one to do so."""
        group.pending_sync.discard(member_id)
        if not group.pending_sync:
            self.void_sync(group)

    def sync_expired(self, group: Group) -> None:
        """Remove the members that have not sent SyncGroup in time, and rebalance without them."""
        with self.actions:
            late = sorted(group.pending_sync)
            logger.info("members %s of group %r have not synced in time", late, group.group_id)
            for member_id in late:
                self.remove(group, group.members[member_id])
            self.prepare(group, f"members {late} have not synced")

    def assign(self, group: Group, assignment: Mapping[str, bytes]) -> None:
        """The assignment is stored: tell those who wait for it."""
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, b"")
        self._propagate_assignment(group, ErrorCode.NONE)
        group.transition(GroupState.STABLE, self.now_ms())

    def assignment_failed(self, group: Group, error: ErrorCode) -> None:
        """The assignment could not be stored: tell those who wait for it, and begin anew."""
        self._reset_assignment(group, error)
        self.prepare(group, f"{error.name} while the assignment was stored")

    def void_sync(self, group: Group) -> None:
        """Nobody's SyncGroup is waited for any more."""
        group.pending_sync.clear()
        if group.delayed_sync is not None:
            group.delayed_sync = None
            self.actions.add(partial(self._purgatories.sync.notify, group.group_id))

    def _reset_assignment(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            member.assignment = b""
        self._propagate_assignment(group, error)

    def _propagate_assignment(self, group: Group, error: ErrorCode) -> None:
        for member in group.members.values():
            if self.answer_sync(member, assignment_response(group, member, error)):
                # Its session may have ended while it could not send heartbeats, and nothing would
                # tell from then on if it failed.
                self.expect_heartbeat(group, member.member_id, member.session_timeout_ms)

    # -- storing

    def store(
        self, group: Group, assignment: Mapping[str, bytes], done: Callable[[ErrorCode], None]
    ) -> None:
        """Append a record of the group as it is now; `done` is told how that ended."""

        def stored(error: ErrorCode) -> None:
            group.was_stored |= error is ErrorCode.NONE
            done(error)

        shard = self.shards.shard_of(group.group_id)
        self.shards.append(shard, [(GroupKey(group.group_id), group.stored(assignment))], stored)

    def _empty_stored(self, group: Group, error: ErrorCode) -> None:
        if error is not ErrorCode.NONE:
            # A coordinator that loads the group finds an older generation, whose members' sessions
            # end soon.
            logger.warning("empty group %r can't be stored: %s", group.group_id, error.name)


def assignment_response(group: Group, member: Member, error: ErrorCode = ErrorCode.NONE) -> Any:
    """What a member is told of its assignment."""
    if error is not ErrorCode.NONE:
        return sync_response(error)
    return sync_response(
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        assignment=member.assignment,
    )


def current_members(group: Group) -> list[Any]:
    """The members of the generation, for its leader."""
    return [
        JoinGroupResponse.JoinGroupResponseMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            metadata=member.metadata(str(group.protocol)),
        )
        for member in group.members.values()
    ]
