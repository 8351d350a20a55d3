"""A share group: its members, and the partitions whose states it has initialized."""

from __future__ import annotations

from typing import Any

from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.partitions import Assignment
from purgatory_broker.groups.modern.record_values import (
    CurrentAssignment,
    ShareMemberValue,
    ShareStates,
)
from purgatory_broker.groups.modern.records import ModernKey, RecordKind

#: The epoch of a member that joins, and of one that leaves.
JOIN_EPOCH = 0
LEAVE_EPOCH = -1

_NOTHING = CurrentAssignment()


class ShareGroup(ModernGroup):
    """A group whose members share partitions, which several of them may have.

    A member gets its target assignment at once: nobody has to give up anything before.

    Attributes:
        members: The subscription of each member.
        current: The current assignment of each member that has one.
        states: The topics whose share partitions have a state, or are to get or to lose one.
        requested: The partitions whose states this coordinator has asked for.
    """

    group_type = "share"
    protocol_type = "share"
    epoch_kind = RecordKind.SHARE_GROUP
    target_epoch_kind = RecordKind.SHARE_TARGET_EPOCH
    target_kind = RecordKind.SHARE_TARGET
    members: dict[str, ShareMemberValue]

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.members = {}
        self.current: dict[str, CurrentAssignment] = {}
        self.states = ShareStates()
        self.requested: set[Any] = set()

    # -- records

    def apply_own(self, key: ModernKey, value: Any | None) -> None:
        if key.kind is RecordKind.SHARE_STATES:
            self.states = ShareStates() if value is None else value
            return
        values: dict[str, Any] = (
            self.members if key.kind is RecordKind.SHARE_MEMBER else self.current
        )
        if value is None:
            values.pop(key.item, None)
        else:
            values[key.item] = value

    def own_value_of(self, key: ModernKey) -> Any | None:
        if key.kind is RecordKind.SHARE_STATES:
            return self.states if self.states != ShareStates() else None
        if key.kind is RecordKind.SHARE_MEMBER:
            return self.members.get(key.item)
        return self.current.get(key.item)

    def tombstone_keys(self) -> list[ModernKey]:
        return [
            *(self.key(RecordKind.SHARE_CURRENT, member_id) for member_id in self.current),
            *(self.key(RecordKind.SHARE_TARGET, member_id) for member_id in self.targets),
            self.key(RecordKind.SHARE_TARGET_EPOCH),
            *(self.key(RecordKind.SHARE_MEMBER, member_id) for member_id in self.members),
            self.key(RecordKind.SHARE_STATES),
            self.key(RecordKind.SHARE_GROUP),
        ]

    # -- members

    def current_of(self, member_id: str) -> CurrentAssignment:
        return self.current.get(member_id, _NOTHING)

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def subscribed_topics(self) -> frozenset[str]:
        return frozenset().union(*(member.topics for member in self.members.values()))

    @property
    def assigned(self) -> Assignment:
        """The partitions that members are to have."""
        return frozenset().union(*self.targets.values())

    # -- invariants

    def check(self) -> None:
        shown = vars(self)
        assert set(self.current) <= set(self.members), shown
        assert set(self.targets) <= set(self.members), shown
        assert self.target_epoch <= self.epoch, shown
        assert {member_id for member_id, _ in self.timers} <= set(self.members), shown
        for current in self.current.values():
            assert current.epoch <= self.target_epoch, shown
