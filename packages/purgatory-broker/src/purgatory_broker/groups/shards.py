"""The groups and offsets of a node: those whose offsets topic partition the node leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.groups.group import Group
from purgatory_broker.groups.group_messages import GroupError
from purgatory_broker.groups.group_records import (
    GroupKey,
    Key,
    OffsetKey,
    OffsetValue,
    RecordFormatError,
    Value,
    decode_group,
    decode_key,
    decode_offset,
    encode_key,
    encode_value,
)
from purgatory_broker.metadata.topics import java_partition
from request_purgatory.error_log import ErrorLog


class CommittedOffsets:
    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetValue]]] = {}

    def put(self, key: OffsetKey, value: OffsetValue) -> None:
        self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = value

    def get(self, group_id: str, topic: str, partition: int) -> OffsetValue | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def remove(self, key: OffsetKey) -> None:
        topics = self._by_group.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._by_group.pop(key.group_id, None)

    def of_group(self, group_id: str) -> dict[str, dict[int, OffsetValue]]:
        """Return a group's committed offsets: topic -> partition -> offset."""
        return self._by_group.get(group_id, {})

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        return [
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        ]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        return [
            OffsetKey(group_id, topic, partition)
            for group_id, topics in self._by_group.items()
            for partition in topics.get(topic, {})
        ]


logger = logging.getLogger(__name__)

#: A key and its value; None for a tombstone.
Record = tuple[Key, Value | None]


class OffsetsStore(Protocol):
    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Append records with acks=all; a value of None is a tombstone.

        Appends to a partition are completed in the order of the calls. `done` is called once,
        unless this method raises: with NONE when all in-sync replicas have the records, or with an
        error. It may be called before this method returns.
        """


class Shard:
    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.offsets = CommittedOffsets()

    def add_group(self, group_id: str, now_ms: int) -> Group:
        group = self.groups[group_id] = Group(group_id, now_ms)
        return group

    def put_offset(self, key: OffsetKey, value: OffsetValue, now_ms: int) -> None:
        """Add the group if need be: a consumer that assigns itself commits without members."""
        self.offsets.put(key, value)
        group = self.groups.get(key.group_id) or self.add_group(key.group_id, now_ms)
        group.has_record = True

    def replay(self, records: Iterable[tuple[bytes, bytes | None]], now_ms: int) -> None:
        """Build groups and offsets; a record that cannot be decoded is logged and skipped."""
        for raw_key, raw_value in records:
            try:
                self._replay(raw_key, raw_value, now_ms)
            except RecordFormatError as error:
                logger.error(
                    "skipped a record of partition %d of the offsets topic: %s",
                    self.partition,
                    error,
                )

    def _replay(self, raw_key: bytes, raw_value: bytes | None, now_ms: int) -> None:
        key = decode_key(raw_key)
        if isinstance(key, GroupKey):
            if raw_value is None:
                self.groups.pop(key.group_id, None)
            else:
                self.groups[key.group_id] = Group.from_record(
                    key.group_id, decode_group(raw_value), now_ms
                )
        elif isinstance(key, OffsetKey):
            if raw_value is None:
                self.offsets.remove(key)
            else:
                self.put_offset(key, decode_offset(raw_value), now_ms)


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
        self, shard: Shard, records: list[Record], done: Callable[[ErrorCode], None]
    ) -> None:
        """Append to the shard's partition, as a deferred action.

        `done` is called inside a block of the action queue: with NONE when the records are
        replicated, or with an error. The error is NOT_LEADER_OR_FOLLOWER if another node has the
        shard by then, whether the records were replicated or not.
        """
        self._actions.add(partial(self._append, shard, records, done))

    def _append(
        self, shard: Shard, records: list[Record], done: Callable[[ErrorCode], None]
    ) -> None:
        appended = partial(self._append_completed, shard, done)
        try:
            raw = [
                (encode_key(key), None if value is None else encode_value(value))
                for key, value in records
            ]
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
            self._store.append(shard.partition, raw, appended)
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
