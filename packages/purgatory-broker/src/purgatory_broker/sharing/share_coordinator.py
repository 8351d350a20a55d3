"""The share coordinator of a node: what is stored of the share partitions."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.topics import java_partition
from purgatory_broker.sharing.records import ShareError
from purgatory_broker.sharing.state import ShareKey, ShareState
from purgatory_broker.sharing.state_records import (
    SNAPSHOT,
    UPDATE,
    ShareRecordError,
    encode_key,
    encode_snapshot,
    encode_update,
)
from purgatory_broker.sharing.state_shard import StateShard
from purgatory_broker.transactions.transaction_messages import coordinator_error
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)

#: An epoch that is not compared and not changed.
_NO_EPOCH = -1


class ShareStateStore(Protocol):
    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        done: Callable[[ErrorCode, int], None],
    ) -> None:
        """Append records with acks=all; `done` is called once, unless this method raises.

        It gets the offset of the first record, too.
        """

    def delete_before(self, partition: int, offset: int, done: Callable[[], None]) -> None:
        """Delete records; `done` is called if they are deleted on all replicas."""


@dataclass(frozen=True, slots=True)
class StateResult:
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    state: ShareState = field(default_factory=ShareState)


StateReply: TypeAlias = Callable[[StateResult], object]
#: A record's key and value, and the state after it; None if the record deletes it.
_Change: TypeAlias = tuple[bytes, bytes | None, ShareState | None]


class ShareCoordinator:
    """Stores the states of the share partitions whose keys belong to this node.

    The state of a share partition is a snapshot and the updates since, in a partition of
    `__share_group_state`. Each method answers by `reply`, once, when all in-sync replicas have the
    record. It has no I/O beside the `ShareStateStore`.
    """

    def __init__(
        self,
        node_id: int,
        num_partitions: int,
        updates_per_snapshot: int,
        *,
        actions: ActionQueue,
        store: ShareStateStore,
        partition_exists: Callable[[uuid.UUID, int], bool],
        now_ms: Callable[[], int],
    ) -> None:
        self.node_id = node_id
        self._num_partitions = num_partitions
        self._updates_per_snapshot = updates_per_snapshot
        self._actions = actions
        self._store = store
        self._partition_exists = partition_exists
        self._now_ms = now_ms
        self._shards: dict[int, StateShard] = {}
        self._errors = ErrorLog(logger)

    # -- partitions

    def partition_for(self, key: str) -> int:
        """Return the partition of a share partition's `ShareKey.text`."""
        return java_partition(key, self._num_partitions)

    def load(self, partition: int, records: Iterable[tuple[int, bytes, bytes | None]]) -> None:
        """Load records, each with its offset."""
        shard = StateShard(partition)
        for offset, raw_key, raw_value in records:
            try:
                shard.replay(offset, raw_key, raw_value)
            except ShareRecordError as error:
                logger.error(
                    "skipped a record of partition %d of the share groups' state: %s",
                    partition,
                    error,
                )
        self._shards[partition] = shard
        logger.info(
            "node %d has loaded %d share partitions of partition %d of the share groups' state",
            self.node_id,
            len(shard.states),
            partition,
        )

    def unload(self, partition: int) -> None:
        if self._shards.pop(partition, None) is not None:
            logger.info(
                "node %d has unloaded partition %d of the share groups' state",
                self.node_id,
                partition,
            )

    def prune(self) -> None:
        """Delete the records that no state needs: those before its last snapshot, as Kafka does."""
        for shard in list(self._shards.values()):
            offset = shard.redundant_before
            if offset > shard.pruned:
                self._store.delete_before(
                    shard.partition, offset, partial(setattr, shard, "pruned", offset)
                )

    def forget_topic(self, topic_id: uuid.UUID) -> None:
        """Delete what is stored of a topic that was deleted."""
        for shard in self._shards.values():
            for key in [key for key in shard.states if key.topic_id == topic_id]:
                self._run(key, lambda _result: None, partial(_deletion, key))

    # -- requests of leaders and of the group coordinator

    def initialize(
        self, key: ShareKey, state_epoch: int, start_offset: int, reply: StateReply
    ) -> None:
        """Begin a state, or begin it anew in a later state epoch."""

        def change(shard: StateShard) -> _Change:
            before = shard.states.get(key)
            if before is not None and _NO_EPOCH != state_epoch < before.state_epoch:
                raise ShareError(ErrorCode.FENCED_STATE_EPOCH)
            self._require_partition(key)
            now_ms = self._now_ms()
            return _snapshot(
                key,
                ShareState(
                    snapshot_epoch=0 if before is None else before.snapshot_epoch + 1,
                    state_epoch=state_epoch,
                    start_offset=start_offset,
                    create_ms=now_ms,
                    write_ms=now_ms,
                ),
            )

        self._run(key, reply, change)

    def read(self, key: ShareKey, leader_epoch: int, reply: StateReply) -> None:
        """Answer a leader with the state; from then on those of earlier epochs are refused."""

        def change(shard: StateShard) -> _Change | None:
            self._require(shard, key, "Read", leader_epoch)
            if leader_epoch in (_NO_EPOCH, shard.leader_epochs[key]):
                return None
            state = shard.states[key]
            return self._update(
                shard, key, ShareState(leader_epoch=leader_epoch, state_epoch=state.state_epoch)
            )

        self._run(key, reply, change)

    def read_summary(self, key: ShareKey, reply: StateReply) -> None:
        """Answer with the state, or with an unknown start offset if there is none."""

        def check(_shard: StateShard) -> None:
            self._require_partition(key)

        self._run(key, reply, check)

    def write(self, key: ShareKey, update: ShareState, reply: StateReply) -> None:
        """Store what a leader has changed; its values of -1 stay as they are."""

        def change(shard: StateShard) -> _Change:
            self._require(shard, key, "Write", update.leader_epoch)
            if _NO_EPOCH != update.state_epoch < shard.states[key].state_epoch:
                raise ShareError(ErrorCode.FENCED_STATE_EPOCH)
            return self._update(shard, key, update)

        self._run(key, reply, change)

    def delete(self, key: ShareKey, reply: StateReply) -> None:
        def change(shard: StateShard) -> _Change | None:
            self._require_partition(key)
            return _deletion(key, shard) if key in shard.states else None

        self._run(key, reply, change)

    # -- changes

    def _require(self, shard: StateShard, key: ShareKey, operation: str, leader_epoch: int) -> None:
        if key not in shard.states:
            raise ShareError(
                ErrorCode.INVALID_REQUEST,
                f"{operation} operation on uninitialized share partition not allowed.",
            )
        if leader_epoch < shard.leader_epochs[key] and (
            operation == "Read" or leader_epoch != _NO_EPOCH
        ):
            raise ShareError(ErrorCode.FENCED_LEADER_EPOCH)
        self._require_partition(key)

    def _require_partition(self, key: ShareKey) -> None:
        if key.partition < 0:
            raise ShareError(
                ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number."
            )
        if not self._partition_exists(key.topic_id, key.partition):
            raise ShareError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _update(self, shard: StateShard, key: ShareKey, update: ShareState) -> _Change:
        before = shard.states[key]
        is_new_epoch = update.state_epoch > before.state_epoch
        if is_new_epoch or shard.num_updates[key] >= self._updates_per_snapshot:
            state = replace(
                before.updated(update),
                snapshot_epoch=before.snapshot_epoch + 1,
                state_epoch=max(before.state_epoch, update.state_epoch),
                write_ms=self._now_ms(),
            )
            return _snapshot(key, state)
        stored = replace(update, snapshot_epoch=before.snapshot_epoch)
        return encode_key(key, UPDATE), encode_update(stored), before.updated(update)

    def _run(
        self,
        key: ShareKey,
        reply: StateReply,
        change: Callable[[StateShard], _Change | None],
    ) -> None:
        """Make a change and store it, as a deferred action."""
        with self._actions:
            self._actions.add(partial(self._change, key, reply, change))

    def _change(
        self, key: ShareKey, reply: StateReply, change: Callable[[StateShard], _Change | None]
    ) -> None:
        shard = self._shards.get(self.partition_for(key.text))
        if shard is None:
            reply(StateResult(ErrorCode.NOT_COORDINATOR))
            return
        before = shard.states.get(key, ShareState())
        try:
            changed = change(shard)
        except ShareError as error:
            said = str(error)
            reply(StateResult(error.code, said if said != error.code.name else None))
            return
        if changed is None:
            reply(StateResult(state=before))
            return
        raw_key, raw_value, after = changed
        kind = SNAPSHOT if raw_key[:2] == encode_key(key, SNAPSHOT)[:2] else UPDATE
        result = StateResult(state=after or ShareState())
        answered: list[ErrorCode] = []

        def done(error: ErrorCode, offset: int) -> None:
            answered.append(error)
            if error is ErrorCode.NONE:
                shard.note_replicated(key, after, kind, offset)
            if self._shards.get(shard.partition) is not shard:
                error = ErrorCode.NOT_COORDINATOR
            error = coordinator_error(error)
            reply(result if error is ErrorCode.NONE else StateResult(error))

        try:
            self._store.append(shard.partition, [(raw_key, raw_value)], done)
        except Exception as error:
            self._errors.log(
                error, "cannot append to partition %d of the share groups' state", shard.partition
            )
            done(ErrorCode.UNKNOWN_SERVER_ERROR, -1)
        if not answered or answered == [ErrorCode.NONE]:
            # It is in the log, though perhaps not on all replicas yet: what follows builds on it.
            shard.apply(key, after, kind)

    # -- inspection

    def state_of(self, key: ShareKey) -> ShareState | None:
        shard = self._shards.get(self.partition_for(key.text))
        return None if shard is None else shard.states.get(key)


def _snapshot(key: ShareKey, state: ShareState) -> _Change:
    return encode_key(key, SNAPSHOT), encode_snapshot(state), state


def _deletion(key: ShareKey, _shard: StateShard) -> _Change:
    return encode_key(key, SNAPSHOT), None, None
