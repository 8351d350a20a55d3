"""A consumer group: its members, their assignments, and who owns each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import Enum
from typing import Any

from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.partitions import TopicIdPartition
from purgatory_broker.groups.modern.record_values import (
    ConsumerMemberValue,
    CurrentAssignment,
    MemberState,
    ResolvedRegex,
)
from purgatory_broker.groups.modern.records import ModernKey, RecordKind

#: The epoch of a member that joins, of one that leaves, and of a static member that will return.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2

_NOTHING = CurrentAssignment()


class ConsumerGroupState(Enum):
    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup(ModernGroup):
    """A group whose members come to their target assignments one by one.

    | state | when |
    |---|---|
    | Empty | there are no members |
    | Assigning | there is no target assignment of the group's epoch yet |
    | Reconciling | a member is not at the epoch of the target assignment |
    | Stable | all members are |

    Attributes:
        members: The subscription of each member.
        current: The current assignment of each member that has one.
        regexes: The topics that match each regular expression, once they were looked for.
        static_members: Member ids of the static members, by instance id.
        owners: The member that has each partition, or is to give it up.
    """

    group_type = "consumer"
    protocol_type = "consumer"
    epoch_kind = RecordKind.CONSUMER_GROUP
    target_epoch_kind = RecordKind.CONSUMER_TARGET_EPOCH
    target_kind = RecordKind.CONSUMER_TARGET

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members: dict[str, ConsumerMemberValue] = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.static_members: dict[str, str] = {}
        self.owners: dict[TopicIdPartition, str] = {}
        self._num_subscribers: Counter[str] = Counter()
        self._num_regex_subscribers: Counter[str] = Counter()
        #: For each classic protocol, the number of classic members that support it.
        self._num_supporters: Counter[str] = Counter()
        self.num_classic = 0

    # -- records

    def apply_own(self, key: ModernKey, value: Any | None) -> None:
        if key.kind is RecordKind.CONSUMER_MEMBER:
            self._set_member(key.item, value)
        elif key.kind is RecordKind.CONSUMER_CURRENT:
            self._set_current(key.item, value)
        elif value is None:
            self.regexes.pop(key.item, None)
        else:
            self.regexes[key.item] = value

    def own_value_of(self, key: ModernKey) -> Any | None:
        if key.kind is RecordKind.CONSUMER_MEMBER:
            return self.members.get(key.item)
        if key.kind is RecordKind.CONSUMER_CURRENT:
            return self.current.get(key.item)
        return self.regexes.get(key.item)

    def _set_member(self, member_id: str, member: ConsumerMemberValue | None) -> None:
        former = self.members.pop(member_id, None)
        if former is not None:
            self._count(former, -1)
            if self.static_members.get(former.instance_id or "") == member_id:
                del self.static_members[former.instance_id or ""]
        if member is not None:
            self.members[member_id] = member
            self._count(member, 1)
            if member.instance_id is not None:
                self.static_members[member.instance_id] = member_id

    def _count(self, member: ConsumerMemberValue, change: int) -> None:
        for topic in member.topics:
            self._num_subscribers[topic] += change
            if not self._num_subscribers[topic]:
                del self._num_subscribers[topic]
        if member.regex:
            self._num_regex_subscribers[member.regex] += change
            if not self._num_regex_subscribers[member.regex]:
                del self._num_regex_subscribers[member.regex]
        if member.classic is not None:
            self.num_classic += change
            for name, _ in member.classic.protocols:
                self._num_supporters[name] += change

    def _set_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        former = self.current.pop(member_id, _NOTHING)
        for partition in former.assigned | former.pending_revocation:
            # A log may give a partition to its next owner before the tombstone of the former.
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        if current is not None:
            self.current[member_id] = current
            for partition in current.assigned | current.pending_revocation:
                self.owners[partition] = member_id

    def tombstone_keys(self) -> list[ModernKey]:
        return [
            *(self.key(RecordKind.CONSUMER_CURRENT, member_id) for member_id in self.current),
            *(self.key(RecordKind.CONSUMER_TARGET, member_id) for member_id in self.targets),
            self.key(RecordKind.CONSUMER_TARGET_EPOCH),
            *(self.key(RecordKind.CONSUMER_MEMBER, member_id) for member_id in self.members),
            *(self.key(RecordKind.CONSUMER_REGEX, regex) for regex in self.regexes),
            self.key(RecordKind.CONSUMER_GROUP),
        ]

    # -- members

    def current_of(self, member_id: str) -> CurrentAssignment:
        return self.current.get(member_id, _NOTHING)

    def is_reconciled(self, member_id: str) -> bool:
        current = self.current_of(member_id)
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(map(self.is_reconciled, self.members)):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    @property
    def state_name(self) -> str:
        return self.state.value

    # -- subscriptions

    def topics_of(self, member: ConsumerMemberValue) -> frozenset[str]:
        """Return the topics that a member names, and those that match its regular expression."""
        resolved = self.regexes.get(member.regex or "")
        return member.topics if resolved is None else member.topics | resolved.topics

    @property
    def subscribed_topics(self) -> frozenset[str]:
        topics = frozenset(self._num_subscribers)
        return topics.union(*(resolved.topics for resolved in self.regexes.values()))

    @property
    def subscribed_regexes(self) -> frozenset[str]:
        return frozenset(self._num_regex_subscribers)

    def supports_protocols(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Return whether a classic member with these protocols can join those that there are."""
        return protocol_type == "consumer" and any(
            self._num_supporters[name] == self.num_classic for name in protocols
        )

    def is_waiting_for_others(self, member_id: str) -> bool:
        """Return whether others still have partitions of a member's target assignment."""
        missing = self.target_of(member_id) - self.current_of(member_id).assigned
        return any(partition in self.owners for partition in missing)

    def num_regex_subscribers(self, regex: str) -> int:
        return self._num_regex_subscribers[regex]

    # -- invariants

    def check(self) -> None:
        shown = vars(self)
        owned: dict[TopicIdPartition, str] = {}
        for member_id, current in self.current.items():
            assert member_id in self.members, shown
            assert not current.assigned & current.pending_revocation, shown
            assert (
                current.pending_revocation
                or current.state is not MemberState.UNREVOKED_PARTITIONS
                or current.epoch == STATIC_LEAVE_EPOCH
            ), shown
            for partition in current.assigned | current.pending_revocation:
                assert partition not in owned, (partition, shown)
                owned[partition] = member_id
        assert owned == self.owners, shown
        assert set(self.targets) <= set(self.members), shown
        targets = [partition for target in self.targets.values() for partition in target]
        assert len(targets) == len(set(targets)), shown
        assert self.target_epoch <= self.epoch, shown
        assert self.static_members == {
            member.instance_id: member_id
            for member_id, member in self.members.items()
            if member.instance_id is not None
        }, shown
        assert set(self.regexes) <= self.subscribed_regexes, shown
        assert self._num_subscribers == Counter(
            topic for member in self.members.values() for topic in member.topics
        ), shown
        assert {member_id for member_id, _ in self.timers} <= {*self.members, ""}, shown
