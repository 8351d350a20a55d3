"""The groups and offsets of this node: those whose partition of the offsets topic it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Protocol

from request_purgatory.broker.groups.deferred_actions import ActionQueue
from request_purgatory.broker.groups.errors import GroupError
from request_purgatory.broker.groups.group import Group
from request_purgatory.broker.groups.offsets import Offsets
from request_purgatory.broker.groups.records import (
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
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

Record = tuple[Key, Value | None]


class OffsetsStore(Protocol):
    """The offsets topic `__consumer_offsets`, as the coordinator writes to it."""

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Append keys and values, None for a tombstone, with acks=all; `done` is called once: when all in-sync replicas have them
        (NONE), or with an error. Appends to a partition are done in the order in which they were
        made. It may be called before this returns; not if this raises."""


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of the offsets topic, of so many, that has a group's records.

    By the absolute value of Java's `hashCode`.
    """
    code = 0
    raw = group_id.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(raw), 2):
        code = (31 * code + (raw[position] << 8 | raw[position + 1])) & 0xFFFFFFFF
    if code >= 0x8000_0000:
        code = (1 << 32) - code
    # The least number has no absolute value in Java; Kafka takes 0 for it.
    return (0 if code == 0x8000_0000 else code) % partitions


class Shard:
    """One partition's groups and committed offsets."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets()
        self.is_loading = True

    def add_group(self, group_id: str, now_ms: int) -> Group:
        """A new group, empty."""
        group = self.groups[group_id] = Group(group_id, now_ms)
        return group

    def put_offset(self, key: OffsetKey, value: OffsetValue, now_ms: int) -> None:
        """An offset is committed.

        By a group that may be no more than that, for a consumer that has none otherwise.
        """
        self.offsets.put(key, value)
        group = self.groups.get(key.group_id) or self.add_group(key.group_id, now_ms)
        group.was_stored = True

    def replay(self, records: Iterable[tuple[bytes, bytes | None]], now_ms: int) -> None:
        """Become what the partition's records say, oldest first.

        One that can't be read is logged and left out.
        """
        for raw_key, raw_value in records:
            try:
                self._replay(raw_key, raw_value, now_ms)
            except RecordFormatError:
                logger.exception(
                    "a record of partition %d of the offsets topic is left out", self.partition
                )
        self.is_loading = False

    def _replay(self, raw_key: bytes, raw_value: bytes | None, now_ms: int) -> None:
        key = decode_key(raw_key)
        if isinstance(key, GroupKey):
            if raw_value is None:
                self.groups.pop(key.group_id, None)
            else:
                self.groups[key.group_id] = Group.restored(
                    key.group_id, decode_group(raw_value), now_ms
                )
        elif isinstance(key, OffsetKey):
            if raw_value is None:
                self.offsets.remove(key)
            else:
                self.put_offset(key, decode_offset(raw_value), now_ms)


class Shards:
    """All shards of this node, by partition."""

    def __init__(self, partitions: int, store: OffsetsStore, actions: ActionQueue) -> None:
        self._partitions = partitions
        self._store = store
        self._actions = actions
        self._shards: dict[int, Shard] = {}

    def __iter__(self) -> Iterator[Shard]:
        return iter(list(self._shards.values()))

    def partition_for(self, group_id: str) -> int:
        """The partition of the offsets topic that a group's records are in."""
        return partition_of(group_id, self._partitions)

    def get(self, partition: int) -> Shard | None:
        """The shard, loaded or loading; None if another node has it."""
        return self._shards.get(partition)

    def begin(self, partition: int) -> Shard:
        """A new shard, loading."""
        shard = self._shards[partition] = Shard(partition)
        return shard

    def drop(self, shard: Shard) -> None:
        """Another node has it from now on."""
        del self._shards[shard.partition]

    def shard_of(self, group_id: str) -> Shard:
        """The shard that has a group, or would have it.

        GroupError if another node has it, or if it is loading.
        """
        shard = self._shards.get(self.partition_for(group_id))
        if shard is None:
            raise GroupError(ErrorCode.NOT_COORDINATOR, group_id)
        if shard.is_loading:
            raise GroupError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, group_id)
        return shard

    def append(
        self, shard: Shard, records: list[Record], done: Callable[[ErrorCode], None]
    ) -> None:
        """Append to the shard's partition, once the present block of actions is over.

        `done` is called inside a block of its own; with NOT_LEADER_OR_FOLLOWER, whatever became of
        the records, if another node has the shard by then.
        """
        self._actions.add(partial(self._append, shard, records, done))

    def _append(
        self, shard: Shard, records: list[Record], done: Callable[[ErrorCode], None]
    ) -> None:
        ended = partial(self._ended, shard, done)
        try:
            raw = [
                (encode_key(key), None if value is None else encode_value(value))
                for key, value in records
            ]
        except RecordFormatError as error:
            logger.warning(
                "partition %d of the offsets topic can't have a record: %s", shard.partition, error
            )
            ended(ErrorCode.UNKNOWN_SERVER_ERROR)
            return
        if self._shards.get(shard.partition) is not shard:
            ended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            self._store.append(shard.partition, raw, ended)
        except Exception:
            logger.exception(
                "%d records can't be appended to partition %d of the offsets topic",
                len(raw),
                shard.partition,
            )
            ended(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _ended(self, shard: Shard, done: Callable[[ErrorCode], None], error: ErrorCode) -> None:
        with self._actions:
            done(
                error
                if self._shards.get(shard.partition) is shard
                else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )
