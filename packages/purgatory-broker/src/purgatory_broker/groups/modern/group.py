"""A group whose assignments the coordinator makes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.groups.modern.partitions import NO_PARTITIONS, Assignment
from purgatory_broker.groups.modern.record_values import GroupEpoch
from purgatory_broker.groups.modern.records import ModernKey, RecordKind
from request_purgatory.purgatory.operation import DelayedOperation


class ModernGroup(ABC):
    """A group that is the sum of its records: `apply` is the only way to change it.

    The coordinator applies records when it makes them, and again when it loads them. So a change
    that could not be appended is undone by the values that `value_of` has told before.

    Attributes:
        epoch: Incremented by each change of members, subscriptions or topics.
        target_epoch: The epoch that the target assignment was made for; -1 if none was made.
        targets: The partitions that each member is to have.
        is_stored: The log has a record of the group, and no tombstone.
        has_offsets: The log has a record of an offset that the group has committed.
        timers: What waits for a member, by the member's id and the kind of the wait.
        needs_refresh: The topics' metadata is to be looked at with the next heartbeat.
        writes: For each append that is not replicated yet, what to do then.
    """

    #: The name of the type in requests of admin clients.
    group_type: ClassVar[str]
    #: The protocol type in such requests.
    protocol_type: ClassVar[str]
    #: The members by id.
    members: Mapping[str, Any]
    #: The kinds of the records that all such groups have.
    epoch_kind: ClassVar[RecordKind]
    target_epoch_kind: ClassVar[RecordKind]
    target_kind: ClassVar[RecordKind]

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = -1
        self.targets: dict[str, Assignment] = {}
        self.is_stored = False
        self.has_offsets = False
        self.timers: dict[tuple[str, str], DelayedOperation] = {}
        self.needs_refresh = False
        self.writes: deque[list[Callable[[ErrorCode], object]]] = deque()

    # -- what the kinds of groups have in common for the coordinator

    @property
    def has_record(self) -> bool:
        return self.is_stored or self.has_offsets

    @property
    @abstractmethod
    def state_name(self) -> str:
        """Kafka's name of the group's state."""

    @property
    @abstractmethod
    def subscribed_topics(self) -> frozenset[str]: ...

    @property
    def generation(self) -> int:
        """The group's epoch, where groups of all kinds are shown."""
        return self.epoch

    @property
    def is_empty(self) -> bool:
        return not self.members

    # -- records

    def key(self, kind: RecordKind, item: str = "") -> ModernKey:
        return ModernKey(kind, self.group_id, item)

    def apply(self, key: ModernKey, value: Any | None) -> None:
        """Apply a record; None is a tombstone."""
        if key.kind == self.epoch_kind:
            self.is_stored = value is not None
            stored = GroupEpoch(0) if value is None else value
            self.epoch, self.metadata_hash = stored.epoch, stored.metadata_hash
        elif key.kind == self.target_epoch_kind:
            self.target_epoch = -1 if value is None else value
        elif key.kind == self.target_kind:
            if value is None:
                self.targets.pop(key.item, None)
            else:
                self.targets[key.item] = value
        else:
            self.apply_own(key, value)

    def value_of(self, key: ModernKey) -> Any | None:
        """Return the value of the last record of a key; None if there is none."""
        if key.kind == self.epoch_kind:
            return GroupEpoch(self.epoch, self.metadata_hash) if self.is_stored else None
        if key.kind == self.target_epoch_kind:
            return None if self.target_epoch == -1 else self.target_epoch
        if key.kind == self.target_kind:
            return self.targets.get(key.item)
        return self.own_value_of(key)

    @abstractmethod
    def apply_own(self, key: ModernKey, value: Any | None) -> None:
        """Apply a record of a kind that only this kind of group has."""

    @abstractmethod
    def own_value_of(self, key: ModernKey) -> Any | None: ...

    @abstractmethod
    def tombstone_keys(self) -> list[ModernKey]:
        """Return the keys of all records of the group, in the order of their removal."""

    @property
    def has_values(self) -> bool:
        """Whether the last record of some key is no tombstone."""
        return any(self.value_of(key) is not None for key in reversed(self.tombstone_keys()))

    def target_of(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NO_PARTITIONS)

    @abstractmethod
    def check(self) -> None:
        """Assert what always holds between two requests."""
