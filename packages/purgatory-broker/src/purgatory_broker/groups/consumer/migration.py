"""How a group changes between the classic and the consumer protocol while it has members."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.change import Change
from purgatory_broker.groups.consumer.membership import (
    JOIN,
    REBALANCE,
    SESSION,
    SYNC,
    ConsumerMembership,
)
from purgatory_broker.groups.consumer_protocol import (
    assigned_partitions,
    decode_subscription,
    encode_assignment,
    has_user_data,
)
from purgatory_broker.groups.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.group_records import GroupKey
from purgatory_broker.groups.member import Member
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.partitions import Assignment, by_topic, of_topics
from purgatory_broker.groups.modern.record_values import (
    ClassicMember,
    ConsumerMemberValue,
    CurrentAssignment,
    GroupEpoch,
)
from purgatory_broker.groups.modern.records import RecordKind
from purgatory_broker.groups.modern.subscribed_topics import TopicsMetadata, metadata_hash
from purgatory_broker.groups.rebalancer import Rebalancer
from purgatory_broker.groups.shards import Shard

logger = logging.getLogger(__name__)

#: The policies that allow upgrades and downgrades.
_UPGRADES: Final = ("bidirectional", "upgrade")
_DOWNGRADES: Final = ("bidirectional", "downgrade")
#: What a member has not done when a wait of a kind ends.
_FAILURES: Final = {
    SESSION: "has sent no heartbeat",
    REBALANCE: "has not given up its partitions",
    JOIN: "has not joined again",
    SYNC: "has not synced",
}


@dataclass(slots=True, eq=False)
class Migration:
    """Finds consumer groups, and makes them of classic ones and the other way round.

    The first member of the consumer protocol upgrades a classic group of consumers. Its other
    members become classic members of the consumer group, with their assignments. When the last
    member of the consumer protocol leaves a group with classic members, the group is downgraded.
    """

    membership: ConsumerMembership
    rebalancer: Rebalancer
    policy: str
    max_size: int
    classic_max_size: int
    now_ms: Callable[[], int]

    @property
    def _metadata(self) -> TopicsMetadata:
        return self.membership.metadata

    # -- finding groups

    def present_group(self, group_id: str) -> ConsumerGroup:
        """Return a consumer group; refuse with GROUP_ID_NOT_FOUND if it is none."""
        shard = self.membership.shards.shard_of(group_id)
        if group_id not in shard.groups:
            raise _not_found(group_id, f"Group {group_id} not found.")
        group = shard.find(ConsumerGroup, group_id)
        if group is None:
            raise _not_found(group_id, f"Group {group_id} is not a consumer group.")
        return group

    def consumer_group(self, group_id: str, *, creates: bool) -> Change:
        """Begin a change of a consumer group, which is made if need be and `creates`."""
        shards = self.membership.shards
        shard = shards.shard_of(group_id)
        present = shard.groups.get(group_id)
        if isinstance(present, ConsumerGroup):
            return self.membership.change(present)
        if present is None:
            if not creates:
                raise _not_found(group_id, f"Consumer group {group_id} not found.")
        elif not creates or not isinstance(present, Group):
            raise _not_found(group_id, f"Group {group_id} is not a consumer group.")
        elif not present.is_empty:
            return self._upgrade(shard, present)
        group = ConsumerGroup(group_id)
        change = self.membership.change(group)
        if present is not None:
            change.replace(present, change.on_undone)
            if present.is_stored:
                change.records.append((GroupKey(group_id), None))
        shard.groups[group_id] = group
        group.has_offsets = shard.has_offsets(group_id)
        return change

    # -- upgrades

    def _upgrade(self, shard: Shard, classic: Group) -> Change:
        group_id = classic.group_id
        refusal = _not_found(group_id, f"Group {group_id} is not a consumer group.")
        is_consumer = classic.protocol_type == CONSUMER_PROTOCOL_TYPE
        if self.policy not in _UPGRADES or not is_consumer:
            raise refusal
        if len(classic.members) > self.max_size:
            raise refusal
        try:
            if any(has_user_data(member.assignment) for member in classic.members.values()):
                raise _not_found(
                    group_id,
                    f"Cannot upgrade classic group {group_id} to consumer group because an "
                    "unsupported custom assignor is in use. Please refer to the documentation or "
                    "switch to a default assignor before re-attempting the upgrade.",
                )
            members = {
                member_id: self._upgraded(classic, member)
                for member_id, member in classic.members.items()
            }
        except (ValueError, StopIteration) as error:
            raise _not_found(
                group_id,
                f"Cannot upgrade classic group {group_id} to consumer group because the embedded "
                f"consumer protocol is malformed: {error}.",
            ) from error
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        # Its own waits end with the upgrade; a copy takes its place if that can't be stored.
        former = Group.from_record(group_id, classic.to_record(assignments), self.now_ms())
        former.has_offsets, former.is_stored = classic.has_offsets, classic.is_stored
        self.rebalancer.mark_dead(classic, ErrorCode.REBALANCE_IN_PROGRESS)
        logger.info("group %r is upgraded to the consumer protocol", group_id)
        group = ConsumerGroup(group_id)
        change = Change(self.membership.shards, shard, group)

        def undone() -> None:
            self.membership.timers.cancel_group(group)
            self._expect_classic(former)

        change.replace(former, undone)
        change.records.append((GroupKey(group_id), None))
        shard.groups[group_id] = group
        group.has_offsets = classic.has_offsets
        self._put_members(change, members, former.generation)
        return change

    def _put_members(
        self,
        change: Change,
        members: Mapping[str, tuple[ConsumerMemberValue, Assignment]],
        generation: int,
    ) -> None:
        for member_id, (member, _) in members.items():
            change.put(RecordKind.CONSUMER_MEMBER, member, member_id)
        group = change.group
        found = metadata_hash(self._metadata, group.subscribed_topics)
        change.put(RecordKind.CONSUMER_GROUP, GroupEpoch(generation, found))
        for member_id, (_, assigned) in members.items():
            change.put(RecordKind.CONSUMER_TARGET, assigned, member_id)
        change.put(RecordKind.CONSUMER_TARGET_EPOCH, generation)
        for member_id, (member, assigned) in members.items():
            current = CurrentAssignment(generation, generation, assigned=assigned)
            change.put(RecordKind.CONSUMER_CURRENT, current, member_id)
            assert member.classic is not None
            timeout_ms = member.classic.session_timeout_ms
            self.membership.timers.schedule(group, member_id, SESSION, timeout_ms)

    def _upgraded(self, classic: Group, member: Member) -> tuple[ConsumerMemberValue, Assignment]:
        metadata = (
            member.protocols[0][1]
            if classic.protocol is None
            else member.metadata(classic.protocol)
        )
        subscription = decode_subscription(metadata)
        value = ConsumerMemberValue(
            client_id=member.client_id,
            client_host=member.client_host,
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            topics=subscription.topics,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic=ClassicMember(member.session_timeout_ms, member.protocols),
        )
        return value, self.by_id(assigned_partitions(member.assignment))

    def by_id(self, topics: Mapping[str, list[int]]) -> Assignment:
        """Return partitions by their topics' ids, without those of unknown topics."""
        known = self._metadata.topics
        return of_topics(
            (known[name].topic_id, numbers) for name, numbers in topics.items() if name in known
        )

    def _expect_classic(self, group: Group) -> None:
        for member in group.members.values():
            self.rebalancer.heartbeats.reschedule(
                group, member.member_id, member.session_timeout_ms
            )

    # -- downgrades

    def fence(self, group: ConsumerGroup, member_ids: Iterable[str]) -> Change:
        """Remove members; if only classic ones are left, the group becomes a classic one."""
        leaving = set(member_ids)
        remaining = {
            member_id: member
            for member_id, member in group.members.items()
            if member_id not in leaving
        }
        if not remaining or not self._may_downgrade(group, remaining):
            return self.membership.fence(group, leaving)
        return self._downgrade(group, remaining, group.targets, rebalances=True)

    def downgrade_for(
        self,
        change: Change,
        former_id: str,
        member_id: str,
        member: ConsumerMemberValue,
        *,
        rebalances: bool,
    ) -> Change | None:
        """Downgrade for a classic static member that takes the place of the last other one.

        Return None if the group stays as it is. The change must not have begun otherwise.
        """
        group = change.group
        assert isinstance(group, ConsumerGroup)
        is_consumer = group.members[former_id].classic is None
        remaining = {key: value for key, value in group.members.items() if key != former_id}
        remaining[member_id] = member
        if not is_consumer or not self._may_downgrade(group, remaining):
            return None
        targets = {**group.targets, member_id: group.target_of(former_id)}
        return self._downgrade(group, remaining, targets, rebalances=rebalances)

    # -- time

    def expire(self, group: ModernGroup, member_id: str, kind: str) -> None:
        """Remove a member that has not done in time what was waited for."""
        assert isinstance(group, ConsumerGroup)
        shards = self.membership.shards
        shard = shards.by_partition.get(shards.partition_for(group.group_id))
        is_current = shard is not None and shard.groups.get(group.group_id) is group
        if not is_current or member_id not in group.members:
            return
        logger.info("group %r: member %r %s in time", group.group_id, member_id, _FAILURES[kind])
        change = self.fence(group, [member_id])
        change.append(self.membership.actions, partial(self._fenced, group, member_id))

    def _fenced(self, group: ConsumerGroup, member_id: str, error: ErrorCode) -> None:
        if error is ErrorCode.NONE:
            self.membership.on_change(group.group_id)
            return
        logger.warning(
            "group %r: cannot remove member %r: %s", group.group_id, member_id, error.name
        )

    def _may_downgrade(
        self, group: ConsumerGroup, remaining: Mapping[str, ConsumerMemberValue]
    ) -> bool:
        has_consumers = group.num_classic < len(group.members)
        return (
            has_consumers
            and all(member.classic is not None for member in remaining.values())
            and self.policy in _DOWNGRADES
            and len(remaining) <= self.classic_max_size
        )

    def _downgrade(
        self,
        group: ConsumerGroup,
        remaining: Mapping[str, ConsumerMemberValue],
        targets: Mapping[str, Assignment],
        *,
        rebalances: bool,
    ) -> Change:
        shard = self.membership.shards.shard_of(group.group_id)
        classic = self._classic_group(group, remaining, targets)
        change = Change(self.membership.shards, shard, group)
        for key in group.tombstone_keys():
            change.put(key.kind, None, key.item)
        assignments = {member.member_id: member.assignment for member in classic.members.values()}
        change.records.append((GroupKey(group.group_id), classic.to_record(assignments)))
        shard.groups[group.group_id] = classic

        def undone() -> None:
            self.rebalancer.mark_dead(classic, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            shard.groups[group.group_id] = group
            self.membership.expect_members(group)

        change.on_undone = undone
        # The search for topics, which waits for no member, ends by itself.
        for waited in {waited for waited, _ in group.timers if waited}:
            self.membership.timers.cancel_member(group, waited)
        self._expect_classic(classic)
        logger.info("group %r is downgraded to the classic protocol", group.group_id)
        if rebalances:
            self.rebalancer.prepare_rebalance(classic, "the group was downgraded")
        return change

    def _classic_group(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMemberValue],
        targets: Mapping[str, Assignment],
    ) -> Group:
        classic = Group(group.group_id, self.now_ms(), GroupState.STABLE)
        classic.generation = group.epoch
        classic.is_stored, classic.has_offsets = True, group.has_offsets
        for member_id, value in members.items():
            assert value.classic is not None
            classic.add(
                Member(
                    member_id=member_id,
                    instance_id=value.instance_id,
                    client_id=value.client_id,
                    client_host=value.client_host,
                    rebalance_timeout_ms=value.rebalance_timeout_ms,
                    session_timeout_ms=value.classic.session_timeout_ms,
                    protocol_type=CONSUMER_PROTOCOL_TYPE,
                    protocols=value.classic.protocols,
                )
            )
        classic.protocol = classic.select_protocol()
        for member in classic.members.values():
            version = decode_subscription(member.metadata(classic.protocol)).version
            target = targets.get(member.member_id, frozenset())
            member.assignment = encode_assignment(version, self.by_name(target))
        return classic

    def by_name(self, partitions: Assignment) -> dict[str, list[int]]:
        """Return partitions by their topics' names, without those of deleted topics."""
        named = (
            (self._metadata.topic_name(topic_id), numbers)
            for topic_id, numbers in by_topic(partitions).items()
        )
        return {name: numbers for name, numbers in named if name is not None}


def _not_found(group_id: str, message: str) -> GroupError:
    return GroupError(ErrorCode.GROUP_ID_NOT_FOUND, group_id, message)
