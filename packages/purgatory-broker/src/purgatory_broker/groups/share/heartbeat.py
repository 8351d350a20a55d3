"""The handler of ShareGroupHeartbeat."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.partitions import Assignment
from purgatory_broker.groups.modern.record_values import (
    CurrentAssignment,
    GroupEpoch,
    ShareMemberValue,
)
from purgatory_broker.groups.modern.records import RecordKind
from purgatory_broker.groups.modern.share_group import JOIN_EPOCH, LEAVE_EPOCH, ShareGroup
from purgatory_broker.groups.modern.subscribed_topics import (
    TopicsMetadata,
    metadata_hash,
    topic_partitions,
)
from purgatory_broker.groups.modern.timers import MemberTimers
from purgatory_broker.groups.shards import Shards
from purgatory_broker.groups.share.assignor import assign
from purgatory_broker.groups.share.messages import (
    ShareHeartbeat,
    ShareHeartbeatReply,
    ShareHeartbeatResult,
)
from purgatory_broker.groups.share.share_states import ShareGroupStates

logger = logging.getLogger(__name__)

SESSION = "session"


@dataclass(slots=True, kw_only=True, eq=False)
class ShareHeartbeatHandler:
    """Handles the only request of a group's members: they join, leave and are told of changes.

    Members are assigned the partitions alone whose state is initialized, so that a leader knows
    where to begin. The first member of a group learns of its partitions in its second heartbeat.
    """

    shards: Shards
    actions: ActionQueue
    timers: MemberTimers
    metadata: TopicsMetadata
    states: ShareGroupStates
    max_size: int
    session_timeout_ms: Callable[[str], int]
    interval_ms: Callable[[str], int]
    on_change: Callable[[str], object]

    def heartbeat(self, request: ShareHeartbeat, reply: ShareHeartbeatReply) -> None:
        """Handle a request; if it raises GroupError, `reply` has not been called."""
        _validate(request)
        if request.member_epoch == LEAVE_EPOCH:
            self._leave(request, reply)
            return
        change = self._change(request.group_id, creates=request.member_epoch == JOIN_EPOCH)
        try:
            result = self._heartbeat(change, request)
        except GroupError:
            change.undo()
            raise
        group = _share_group(change)
        timeout_ms = self.session_timeout_ms(group.group_id)
        self.timers.schedule(group, request.member_id, SESSION, timeout_ms)
        missing = self.states.begin(
            change, topic_partitions(self.metadata, group.subscribed_topics)
        )

        def stored(error: ErrorCode) -> None:
            if error is ErrorCode.NONE:
                self.states.initialize(group, missing)
            else:
                group.requested -= missing
            self._done(group, change, result, reply, error)

        change.append(self.actions, stored)

    def _done(
        self,
        group: ShareGroup,
        change: Change,
        result: ShareHeartbeatResult,
        reply: ShareHeartbeatReply,
        error: ErrorCode,
    ) -> None:
        if error is not ErrorCode.NONE:
            result = ShareHeartbeatResult(error)
        elif change.records:
            self.on_change(group.group_id)
        reply(result)

    # -- groups

    def present_group(self, group_id: str) -> ShareGroup:
        """Return a share group; GROUP_ID_NOT_FOUND if there is none of that id."""
        shard = self.shards.shard_of(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id, f"Group {group_id} not found.")
        if not isinstance(group, ShareGroup):
            raise GroupError(
                ErrorCode.GROUP_ID_NOT_FOUND, group_id, f"Group {group_id} is not a share group."
            )
        return group

    def create_group(self, group_id: str) -> None:
        """Create a share group, unless there is a group of that id."""
        groups = self.shards.shard_of(group_id).groups
        if group_id not in groups:
            groups[group_id] = ShareGroup(group_id)

    def _change(self, group_id: str, *, creates: bool) -> Change:
        if creates:
            self.create_group(group_id)
        return self._begin(self.present_group(group_id))

    def _begin(self, group: ShareGroup) -> Change:
        shard = self.shards.shard_of(group.group_id)
        return Change(self.shards, shard, group, partial(self._mend_timers, group))

    # -- joining, and being told

    def _heartbeat(self, change: Change, request: ShareHeartbeat) -> ShareHeartbeatResult:
        group, member_id = _share_group(change), request.member_id
        if len(group.members) >= self.max_size and member_id not in group.members:
            raise GroupError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                group.group_id,
                f"The share group has reached its maximum capacity of {self.max_size} members.",
            )
        if member_id not in group.members and request.member_epoch != JOIN_EPOCH:
            raise _unknown(group, member_id)
        before = group.current_of(member_id)
        _require_epoch(group, before, request)
        former = group.members.get(member_id, ShareMemberValue())
        member = replace(
            former,
            client_id=request.client.client_id,
            client_host=request.client.client_host,
            rack_id=former.rack_id if request.rack_id is None else request.rack_id,
            topics=former.topics if request.topics is None else request.topics,
        )
        is_new = member_id not in group.members
        if is_new:
            logger.info("group %r: member %r joins", group.group_id, member_id)
        change.put(RecordKind.SHARE_MEMBER, member, member_id)
        is_pending = group.states.initialized_partitions != group.assigned
        bump = is_new or member.topics != former.topics or is_pending
        self.put_epoch(change, bump=bump)
        self._put_target(change)
        after = before
        if before.epoch != group.target_epoch:
            after = CurrentAssignment(
                group.target_epoch, before.epoch, assigned=group.target_of(member_id)
            )
            change.put(RecordKind.SHARE_CURRENT, after, member_id)
        tells_assignment = request.topics is not None or after.assigned != before.assigned
        return ShareHeartbeatResult(
            member_id=member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.interval_ms(group.group_id),
            assignment=after.assigned if tells_assignment else None,
        )

    def put_epoch(self, change: Change, *, bump: bool) -> None:
        """Begin another epoch if `bump`, or if the subscribed topics have changed."""
        group = change.group
        found = metadata_hash(self.metadata, group.subscribed_topics)
        if bump or found != group.metadata_hash:
            change.put(group.epoch_kind, GroupEpoch(group.epoch + 1, found))
            logger.info("group %r is at epoch %d", group.group_id, group.epoch)

    def _put_target(self, change: Change) -> None:
        """Make the target assignment of the group's epoch, unless there is one."""
        group = _share_group(change)
        if group.epoch <= group.target_epoch:
            return
        ready = group.states.initialized_partitions
        subscribed: dict[str, Assignment] = {
            member_id: topic_partitions(self.metadata, member.topics) & ready
            for member_id, member in group.members.items()
        }
        for member_id, target in assign(subscribed, group.targets).items():
            change.put(RecordKind.SHARE_TARGET, target, member_id)
        change.put(RecordKind.SHARE_TARGET_EPOCH, group.epoch)

    def begin_epoch(self, group: ShareGroup, done: Callable[[ErrorCode], object]) -> None:
        """Begin another epoch of a group that an administrator changes."""
        change = self._begin(group)
        self.put_epoch(change, bump=True)
        change.append(self.actions, done)

    # -- leaving

    def _leave(self, request: ShareHeartbeat, reply: ShareHeartbeatReply) -> None:
        group, member_id = self.present_group(request.group_id), request.member_id
        if member_id not in group.members:
            raise _unknown(group, member_id)
        logger.info("group %r: member %r leaves", group.group_id, member_id)
        change = self.fence(group, [member_id])
        result = ShareHeartbeatResult(member_id=member_id, member_epoch=LEAVE_EPOCH)
        change.append(self.actions, partial(self._done, group, change, result, reply))

    def fence(self, group: ShareGroup, member_ids: Iterable[str]) -> Change:
        """Remove members; the others get their partitions with their next heartbeats."""
        change = self._begin(group)
        for member_id in member_ids:
            for kind in (
                RecordKind.SHARE_CURRENT,
                RecordKind.SHARE_TARGET,
                RecordKind.SHARE_MEMBER,
            ):
                change.put(kind, None, member_id)
            self.timers.cancel_member(group, member_id)
        self.put_epoch(change, bump=True)
        return change

    # -- time

    def expire(self, group: ShareGroup, member_id: str) -> None:
        """Remove a member that has sent no heartbeat in time."""
        shard = self.shards.by_partition.get(self.shards.partition_for(group.group_id))
        is_current = shard is not None and shard.groups.get(group.group_id) is group
        if not is_current or member_id not in group.members:
            return
        logger.info("group %r: member %r has sent no heartbeat in time", group.group_id, member_id)
        change = self.fence(group, [member_id])
        change.append(self.actions, partial(self._fenced, group, member_id))

    def _fenced(self, group: ShareGroup, member_id: str, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.on_change(group.group_id)
            return
        logger.warning(
            "group %r: cannot remove member %r: %s", group.group_id, member_id, error.name
        )

    def _mend_timers(self, group: ShareGroup) -> None:
        """Wait for the members that there are again, since a change was undone."""
        for member_id in {member_id for member_id, _ in group.timers} - group.members.keys():
            self.timers.cancel_member(group, member_id)
        for member_id in group.members:
            if (member_id, SESSION) not in group.timers:
                self.expect(group, member_id)

    def expect(self, group: ShareGroup, member_id: str) -> None:
        """Wait for a heartbeat of a member."""
        timeout_ms = self.session_timeout_ms(group.group_id)
        self.timers.schedule(group, member_id, SESSION, timeout_ms)


def _validate(request: ShareHeartbeat) -> None:
    refused = None
    if not request.member_id.strip():
        refused = "MemberId can't be empty."
    elif not request.group_id.strip():
        refused = "GroupId can't be empty."
    elif request.rack_id is not None and not request.rack_id.strip():
        refused = "RackId can't be empty."
    elif request.member_epoch < LEAVE_EPOCH:
        refused = "MemberEpoch is invalid."
    elif request.member_epoch == JOIN_EPOCH and not request.topics:
        refused = "SubscribedTopicNames must be set in first request."
    if refused is not None:
        raise GroupError(ErrorCode.INVALID_REQUEST, request.group_id, refused)


def _require_epoch(group: ShareGroup, current: CurrentAssignment, request: ShareHeartbeat) -> None:
    """Refuse another epoch than the member's, but for the one before: its answer may be lost."""
    epoch = request.member_epoch
    if epoch == current.epoch or (epoch < current.epoch and epoch == current.previous_epoch):
        return
    raise GroupError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        group.group_id,
        f"The share group member has a {'greater' if epoch > current.epoch else 'smaller'} "
        f"member epoch ({epoch}) than the one known by the group coordinator "
        f"({current.epoch}). The member must abandon all its partitions and rejoin.",
    )


def _unknown(group: ShareGroup, member_id: str) -> GroupError:
    return GroupError(
        ErrorCode.UNKNOWN_MEMBER_ID,
        group.group_id,
        f"Member {member_id} is not a member of group {group.group_id}.",
    )


def _share_group(change: Change) -> ShareGroup:
    assert isinstance(change.group, ShareGroup)
    return change.group
