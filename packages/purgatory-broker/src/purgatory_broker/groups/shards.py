"""The groups and offsets of a node: those whose offsets topic partition the node leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.committed_offsets import CommittedOffsets, PendingOffsets
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.group_messages import GroupError, Producer, TransactionalCommit
from purgatory_broker.groups.group_records import (
    GroupKey,
    Key,
    OffsetKey,
    OffsetValue,
    RecordFormatError,
    Value,
    decode_group,
    decode_key,
    decode_modern,
    decode_offset,
    encode_record,
)
from purgatory_broker.groups.modern.consumer_group import ConsumerGroup
from purgatory_broker.groups.modern.group import ModernGroup
from purgatory_broker.groups.modern.record_values import ModernValue
from purgatory_broker.groups.modern.records import ModernKey, RecordKind
from purgatory_broker.groups.modern.share_group import ShareGroup
from purgatory_broker.log.verification import VerificationGuard
from purgatory_broker.metadata.topics import java_partition
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)

#: A key and its value; None for a tombstone.
Record = tuple[Key, Value | None]

AnyGroup: TypeAlias = Group | ModernGroup
G = TypeVar("G", bound=Group | ModernGroup)

#: The kind of group that each kind of record makes.
_GROUP_KINDS: Final[dict[RecordKind, type[ModernGroup]]] = {
    RecordKind.CONSUMER_GROUP: ConsumerGroup,
    RecordKind.CONSUMER_MEMBER: ConsumerGroup,
    RecordKind.CONSUMER_TARGET_EPOCH: ConsumerGroup,
    RecordKind.CONSUMER_TARGET: ConsumerGroup,
    RecordKind.CONSUMER_CURRENT: ConsumerGroup,
    RecordKind.CONSUMER_REGEX: ConsumerGroup,
    RecordKind.SHARE_GROUP: ShareGroup,
    RecordKind.SHARE_MEMBER: ShareGroup,
    RecordKind.SHARE_TARGET_EPOCH: ShareGroup,
    RecordKind.SHARE_TARGET: ShareGroup,
    RecordKind.SHARE_CURRENT: ShareGroup,
    RecordKind.SHARE_STATES: ShareGroup,
}


#: The producer id of records that belong to no transaction.
NO_PRODUCER_ID = -1


class StoredRecord(NamedTuple):
    """A record of the offsets topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None
    #: Of the transaction that the record belongs to.
    producer_id: int = NO_PRODUCER_ID


class StoredMarker(NamedTuple):
    """The end of a producer's transaction in the offsets topic."""

    producer_id: int
    is_commit: bool


class OffsetsStore(Protocol):
    def verify(
        self,
        partition: int,
        commit: TransactionalCommit,
        reply: Callable[[ErrorCode, VerificationGuard | None], None],
    ) -> None:
        """Have the partition in the transaction of a commit, or ask whether it is.

        `reply` is called once, with an error or what the append has to show.
        """

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
        producer: Producer | None,
    ) -> None:
        """Append records with acks=all, in a producer's transaction or in none.

        Appends to a partition are completed in the order of the calls. `done` is called once,
        unless this method raises: with NONE when all in-sync replicas have the records, or with an
        error. It may be called before this method returns.
        """


class Shard:
    """The groups of a partition of the offsets topic, of every kind, and what they committed."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self._num_records = 0

    def next_record_number(self) -> int:
        """Return the number of the next record, in the order of the partition."""
        self._num_records += 1
        return self._num_records

    def find(self, kind: type[G], group_id: str) -> G | None:
        """Return a group of a kind; None if there is none, or if it is of another kind."""
        group = self.groups.get(group_id)
        return group if isinstance(group, kind) else None

    def add_group(self, group_id: str, now_ms: int) -> Group:
        group = self.groups[group_id] = Group(group_id, now_ms)
        return group

    def put_offset(self, key: OffsetKey, value: OffsetValue, now_ms: int) -> None:
        """Commit an offset, unless a later record has committed another."""
        present = self.offsets.get(key.group_id, key.topic, key.partition)
        if present is None or value.record_number > present.record_number:
            self.offsets.put(key, value)
        self.note_record(key.group_id, now_ms)

    def note_record(self, group_id: str, now_ms: int) -> None:
        """Add the group if need be: a consumer that assigns itself commits without members."""
        group = self.groups.get(group_id) or self.add_group(group_id, now_ms)
        group.has_offsets = True

    def has_offsets(self, group_id: str) -> bool:
        """Return whether a group has committed offsets, or a transaction will commit some."""
        return bool(self.offsets.of_group(group_id)) or self.pending.has_group(group_id)

    def end_transaction(self, producer_id: int, now_ms: int, *, is_commit: bool) -> None:
        """Commit or drop the pending offsets of a producer, whose transaction has ended."""
        for key, value in self.pending.take(producer_id).items():
            if is_commit:
                self.put_offset(key, value, now_ms)

    def replay(self, entries: Iterable[StoredRecord | StoredMarker], now_ms: int) -> None:
        """Build groups and offsets; a record that cannot be decoded is logged and skipped."""
        for entry in entries:
            if isinstance(entry, StoredMarker):
                self.end_transaction(entry.producer_id, now_ms, is_commit=entry.is_commit)
                continue
            try:
                self._replay(entry, now_ms)
            except RecordFormatError as error:
                logger.error(
                    "skipped a record of partition %d of the offsets topic: %s",
                    self.partition,
                    error,
                )

    def _replay(self, record: StoredRecord, now_ms: int) -> None:
        key, raw_value = decode_key(record.key), record.value
        if isinstance(key, GroupKey):
            if raw_value is None:
                if self.find(Group, key.group_id) is not None:
                    del self.groups[key.group_id]
            else:
                self.groups[key.group_id] = Group.from_record(
                    key.group_id, decode_group(raw_value), now_ms
                )
        elif isinstance(key, OffsetKey):
            if raw_value is None:
                self.offsets.remove(key)
                self.pending.remove(key)
                return
            value = replace(decode_offset(raw_value), record_number=self.next_record_number())
            if record.producer_id == NO_PRODUCER_ID:
                self.put_offset(key, value, now_ms)
            else:
                self.pending.put(record.producer_id, key, value)
                self.pending.note_written(record.producer_id, key, value)
                self.note_record(key.group_id, now_ms)
        elif isinstance(key, ModernKey):
            self._replay_modern(key, None if raw_value is None else decode_modern(key, raw_value))

    def _replay_modern(self, key: ModernKey, value: ModernValue | None) -> None:
        kind = _GROUP_KINDS[key.kind]
        group: ModernGroup | None = self.find(kind, key.group_id)
        if group is None:
            if value is None:
                return
            # Offsets that were committed before stand for a group of the classic kind.
            group = kind(key.group_id)
            group.has_offsets = self.has_offsets(key.group_id)
            self.groups[key.group_id] = group
        group.apply(key, value)
        # In a compacted log, any record may be the first of its group.
        if value is None and group.is_empty and not (group.has_record or group.has_values):
            del self.groups[key.group_id]


class Shards:
    def __init__(self, num_partitions: int, store: OffsetsStore, actions: ActionQueue) -> None:
        self._num_partitions = num_partitions
        self._store = store
        self._actions = actions
        self.by_partition: dict[int, Shard] = {}
        self._errors = ErrorLog(logger)

    def __iter__(self) -> Iterator[Shard]:
        return iter(list(self.by_partition.values()))

    def partition_for(self, group_id: str) -> int:
        return java_partition(group_id, self._num_partitions)

    def shard_of(self, group_id: str) -> Shard:
        """Return a group's shard; NOT_COORDINATOR if another node has it."""
        shard = self.by_partition.get(self.partition_for(group_id))
        if shard is None:
            raise GroupError(ErrorCode.NOT_COORDINATOR, group_id)
        return shard

    def append(
        self,
        shard: Shard,
        records: list[Record],
        done: Callable[[ErrorCode], None],
        producer: Producer | None = None,
    ) -> None:
        """Append to the shard's partition, as a deferred action.

        `done` is called inside a block of the action queue: with NONE when the records are
        replicated, or with an error. The error is NOT_LEADER_OR_FOLLOWER if another node has the
        shard by then, whether the records were replicated or not.
        """
        self._actions.add(partial(self.append_now, shard, records, done, producer))

    def append_now(
        self,
        shard: Shard,
        records: list[Record],
        done: Callable[[ErrorCode], None],
        producer: Producer | None = None,
    ) -> None:
        """Append at once, for state that is consistent and has the records already.

        An error that comes before the records are in the log is told before this method returns.
        """
        appended = partial(self._append_completed, shard, done)
        try:
            raw = [encode_record(key, value) for key, value in records]
        except RecordFormatError as error:
            logger.warning(
                "cannot encode a record for partition %d of the offsets topic: %s",
                shard.partition,
                error,
            )
            appended(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if self.by_partition.get(shard.partition) is not shard:
            appended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            self._store.append(shard.partition, raw, appended, producer)
        except Exception as error:
            self._errors.log(
                error,
                "cannot append %d records to partition %d of the offsets topic",
                len(raw),
                shard.partition,
            )
            appended(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _append_completed(
        self, shard: Shard, done: Callable[[ErrorCode], None], error: ErrorCode
    ) -> None:
        with self._actions:
            done(
                error
                if self.by_partition.get(shard.partition) is shard
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
