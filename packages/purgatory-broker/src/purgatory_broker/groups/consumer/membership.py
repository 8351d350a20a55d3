"""How the members of consumer groups change, and with them the epochs and assignments."""

from __future__ import annotations

import base64
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.consumer.assignors import ASSIGNORS, AssignedMember
from purgatory_broker.groups.consumer.reconciliation import next_assignment
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.partitions import Assignment
from purgatory_broker.groups.modern.record_values import (
    ConsumerMemberValue,
    CurrentAssignment,
    GroupEpoch,
    MemberState,
)
from purgatory_broker.groups.modern.records import RecordKind
from purgatory_broker.groups.modern.subscribed_topics import (
    TopicsMetadata,
    metadata_hash,
    topic_partitions,
)
from purgatory_broker.groups.modern.timers import MemberTimers
from purgatory_broker.groups.shards import Shards

logger = logging.getLogger(__name__)

#: The kinds of waits for a member.
SESSION, REBALANCE, JOIN, SYNC = "session", "rebalance", "join", "sync"


def new_member_id() -> str:
    """Return a random id as Kafka writes it, in 22 characters."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


@dataclass(slots=True, eq=False)
class ConsumerMembership:
    """Changes members, subscriptions and assignments within a `Change`, as Kafka does.

    1. `put_member` or `remove_member` changes the members.
    2. `put_epoch` begins another epoch of the group if subscriptions or topics have changed.
    3. `put_target` makes the target assignment of that epoch.
    4. `reconcile` brings one member nearer to it, in that member's own heartbeat.
    """

    shards: Shards
    actions: ActionQueue
    timers: MemberTimers
    metadata: TopicsMetadata
    #: Names of the assignors, the default one first.
    assignors: tuple[str, ...]
    #: Returns the session timeout of a group, in milliseconds.
    session_timeout_ms: Callable[[str], int]
    on_change: Callable[[str], object]

    def change(self, group: ConsumerGroup) -> Change:
        """Begin a change of a group that the node coordinates."""
        shard = self.shards.shard_of(group.group_id)
        return Change(self.shards, shard, group, partial(self._mend_timers, group))

    # -- members

    def put_member(self, change: Change, member_id: str, member: ConsumerMemberValue) -> None:
        change.put(RecordKind.CONSUMER_MEMBER, member, member_id)

    def remove_member(self, change: Change, member_id: str) -> None:
        group = change.group
        assert isinstance(group, ConsumerGroup)
        change.put(RecordKind.CONSUMER_CURRENT, None, member_id)
        change.put(RecordKind.CONSUMER_TARGET, None, member_id)
        change.put(RecordKind.CONSUMER_MEMBER, None, member_id)

    def replace_member(self, change: Change, former_id: str, member_id: str) -> None:
        """Give the place of a static member to another member id, which begins without an epoch."""
        group = change.group
        assert isinstance(group, ConsumerGroup)
        member, target = group.members[former_id], group.target_of(former_id)
        current = group.current_of(former_id)
        self.remove_member(change, former_id)
        change.put(RecordKind.CONSUMER_MEMBER, member, member_id)
        change.put(RecordKind.CONSUMER_TARGET, target, member_id)
        joined = replace(current, epoch=0, previous_epoch=0)
        change.put(RecordKind.CONSUMER_CURRENT, joined, member_id)

    def forget_regexes(self, change: Change) -> None:
        """Remove the regular expressions that no member has any more."""
        group = change.group
        assert isinstance(group, ConsumerGroup)
        for regex in [each for each in group.regexes if not group.num_regex_subscribers(each)]:
            change.put(RecordKind.CONSUMER_REGEX, None, regex)

    def fence(self, group: ConsumerGroup, member_ids: Iterable[str]) -> Change:
        """Remove members; the others get their partitions with their next heartbeats."""
        change = self.change(group)
        for member_id in member_ids:
            self.remove_member(change, member_id)
            self.timers.cancel_member(group, member_id)
        self.forget_regexes(change)
        self.put_epoch(change, bump=True)
        return change

    # -- epochs

    def put_epoch(self, change: Change, *, bump: bool) -> None:
        """Begin another epoch if `bump`, or if the subscribed topics have changed."""
        group = change.group
        names = group.subscribed_topics
        found = metadata_hash(self.metadata, names)
        if bump or found != group.metadata_hash:
            change.put(group.epoch_kind, GroupEpoch(group.epoch + 1, found))
            logger.info("group %r is at epoch %d", group.group_id, group.epoch)
        group.needs_refresh = False

    def put_target(self, change: Change) -> None:
        """Make the target assignment of the group's epoch, unless there is one."""
        group = change.group
        assert isinstance(group, ConsumerGroup)
        if group.epoch <= group.target_epoch:
            return
        name = self.preferred_assignor(group)
        subscribed: dict[frozenset[str], Assignment] = {}
        members = []
        for member_id, member in group.members.items():
            topics = group.topics_of(member)
            if topics not in subscribed:
                subscribed[topics] = topic_partitions(self.metadata, topics)
            previous = group.target_of(member_id)
            members.append(
                AssignedMember(member_id, member.instance_id, subscribed[topics], previous)
            )
        for member_id, target in ASSIGNORS[name](members).items():
            change.put(RecordKind.CONSUMER_TARGET, target, member_id)
        change.put(RecordKind.CONSUMER_TARGET_EPOCH, group.epoch)
        logger.info("group %r has a target assignment by %s", group.group_id, name)

    def preferred_assignor(self, group: ConsumerGroup) -> str:
        """Return the assignor that most members name; the default one if none names any."""
        votes = Counter(each.assignor for each in group.members.values() if each.assignor)
        return votes.most_common(1)[0][0] if votes else self.assignors[0]

    # -- assignments

    def reconcile(
        self, change: Change, member_id: str, owned: Assignment | None
    ) -> CurrentAssignment:
        """Bring a member nearer to its target assignment; return what it is to have now."""
        group = change.group
        assert isinstance(group, ConsumerGroup)
        member, current = group.members[member_id], group.current_of(member_id)
        if current.state is MemberState.UNKNOWN and (owned is None or owned):
            raise GroupError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                group.group_id,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )
        after = next_assignment(
            current,
            group.target_epoch,
            group.target_of(member_id),
            owned,
            lambda partition: partition not in group.owners,
        )
        change.put(RecordKind.CONSUMER_CURRENT, after, member_id)
        if after != current and member.classic is None:
            if after.state is MemberState.UNREVOKED_PARTITIONS:
                self.timers.schedule(group, member_id, REBALANCE, member.rebalance_timeout_ms)
            else:
                self.timers.cancel(group, member_id, REBALANCE)
        return after

    # -- time

    def _mend_timers(self, group: ConsumerGroup) -> None:
        """Wait for the members that there are again, since a change was undone."""
        for member_id in {member_id for member_id, _ in group.timers} - {*group.members, ""}:
            self.timers.cancel_member(group, member_id)
        for member_id in group.members:
            if (member_id, SESSION) not in group.timers:
                self._expect_member(group, member_id)
            self._mend_revocation(group, member_id)

    def _mend_revocation(self, group: ConsumerGroup, member_id: str) -> None:
        if not group.current_of(member_id).pending_revocation:
            self.timers.cancel(group, member_id, REBALANCE)
        elif group.members[member_id].classic is None:
            timeout_ms = group.members[member_id].rebalance_timeout_ms
            self.timers.schedule_if_absent(group, member_id, REBALANCE, timeout_ms)

    def expect_members(self, group: ConsumerGroup) -> None:
        """Wait for the members of a group that was loaded."""
        for member_id in group.members:
            self._expect_member(group, member_id)

    def _expect_member(self, group: ConsumerGroup, member_id: str) -> None:
        member = group.members[member_id]
        timeout_ms = (
            self.session_timeout_ms(group.group_id)
            if member.classic is None
            else member.classic.session_timeout_ms
        )
        self.timers.schedule(group, member_id, SESSION, timeout_ms)
        if group.current_of(member_id).pending_revocation:
            self.timers.schedule(group, member_id, REBALANCE, member.rebalance_timeout_ms)
