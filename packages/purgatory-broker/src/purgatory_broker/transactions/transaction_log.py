"""The transactional ids of a node: those whose partition of `__transaction_state` it leads."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.topics import java_partition
from purgatory_broker.transactions.transaction import Transaction, TransactionValue
from purgatory_broker.transactions.transaction_messages import TransactionError, coordinator_error
from purgatory_broker.transactions.transaction_records import (
    TransactionRecordError,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)


class StateStore(Protocol):
    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Append records with acks=all; a value of None is a tombstone.

        Appends to a partition are completed in the order of the calls. `done` is called once,
        unless this method raises: with NONE when all in-sync replicas have the records, or with an
        error. It may be called before this method returns.
        """


@dataclass(slots=True, eq=False)
class TransactionShard:
    partition: int
    #: The leader epoch of the partition, which markers carry.
    coordinator_epoch: int
    transactions: dict[str, Transaction] = field(default_factory=dict)

    def replay(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Build the transactions; a record that cannot be decoded is logged and skipped."""
        for raw_key, raw_value in records:
            try:
                transactional_id = decode_key(raw_key)
                if transactional_id is None:
                    continue
                if raw_value is None:
                    self.transactions.pop(transactional_id, None)
                else:
                    self.transactions[transactional_id] = Transaction(
                        transactional_id, decode_value(raw_value)
                    )
            except TransactionRecordError as error:
                logger.error(
                    "skipped a record of partition %d of the transaction state: %s",
                    self.partition,
                    error,
                )


class TransactionLog:
    """The shards of a node, and the appends of their transitions.

    A shard belongs to one leader epoch. What was begun in an earlier one finds that its shard is
    gone, and ends with NOT_COORDINATOR.
    """

    def __init__(
        self,
        num_partitions: int,
        transaction_version: int,
        store: StateStore,
        actions: ActionQueue,
        on_change: Callable[[TransactionShard, Transaction], None],
    ) -> None:
        """`on_change` is called after each transition that is completed."""
        self.by_partition: dict[int, TransactionShard] = {}
        self._num_partitions = num_partitions
        self._transaction_version = transaction_version
        self._store = store
        self._actions = actions
        self._on_change = on_change
        self._errors = ErrorLog(logger)

    def __iter__(self) -> Iterator[TransactionShard]:
        return iter(list(self.by_partition.values()))

    def abandon(self) -> None:
        """Forget all shards, and break the cycle, after the node's stop."""
        self.by_partition.clear()
        self._on_change = lambda _shard, _transaction: None

    def partition_for(self, transactional_id: str) -> int:
        return java_partition(transactional_id, self._num_partitions)

    def shard_of(self, transactional_id: str) -> TransactionShard:
        """Return an id's shard; NOT_COORDINATOR if another node has it."""
        shard = self.by_partition.get(self.partition_for(transactional_id))
        if shard is None:
            raise TransactionError(ErrorCode.NOT_COORDINATOR, transactional_id)
        return shard

    def find(self, transactional_id: str) -> tuple[TransactionShard, Transaction]:
        """Return an id's shard and state; INVALID_PRODUCER_ID_MAPPING if it is unknown."""
        shard = self.shard_of(transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, transactional_id)
        return shard, transaction

    def is_current(self, shard: TransactionShard) -> bool:
        return self.by_partition.get(shard.partition) is shard

    # -- appends

    def append(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        value: TransactionValue,
        done: Callable[[ErrorCode], object],
        *,
        is_retried: bool = False,
    ) -> None:
        """Append a prepared transition, as a deferred action, and complete it.

        `done` is called inside a block of the action queue: with NONE when the transition is
        completed, or with the coordinator's error when it was given up. With `is_retried` it stays
        pending then, for another append.
        """

        def stored(error: ErrorCode) -> None:
            if not self.is_current(shard):
                error = ErrorCode.NOT_COORDINATOR
            elif error is ErrorCode.NONE:
                transaction.complete(value)
                self._on_change(shard, transaction)
            elif not is_retried:
                transaction.cancel()
            done(error)

        def write() -> None:
            try:
                record = (
                    encode_key(transaction.transactional_id),
                    encode_value(value, self._transaction_version),
                )
            except Exception as error:  # Whatever it is, the request is answered.
                self._errors.log(error, "cannot encode %s", transaction)
                self._end(stored, ErrorCode.UNKNOWN_SERVER_ERROR)
                return
            self._write(shard, [record], value.timeout_ms, stored)

        self._actions.add(write)

    def remove(self, shard: TransactionShard, expired: list[Transaction], timeout_ms: int) -> None:
        """Remove ids that are prepared to die, once their tombstones are replicated."""

        def stored(error: ErrorCode) -> None:
            if not self.is_current(shard):
                return
            for transaction in expired:
                transaction.cancel()
                if error is ErrorCode.NONE:
                    del shard.transactions[transaction.transactional_id]
                else:
                    logger.warning(
                        "cannot remove expired %s: %s", transaction.transactional_id, error.name
                    )
                self._on_change(shard, transaction)

        records = [(encode_key(expired_one.transactional_id), None) for expired_one in expired]
        self._actions.add(partial(self._write, shard, [*records], timeout_ms, stored))

    def _write(
        self,
        shard: TransactionShard,
        records: list[tuple[bytes, bytes | None]],
        timeout_ms: int,
        stored: Callable[[ErrorCode], None],
    ) -> None:
        ended = partial(self._end, stored)
        if not self.is_current(shard):
            ended(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return
        try:
            self._store.append(shard.partition, records, timeout_ms, ended)
        except Exception as error:
            self._errors.log(
                error, "cannot append to partition %d of the transaction state", shard.partition
            )
            ended(ErrorCode.UNKNOWN_SERVER_ERROR)

    def _end(self, stored: Callable[[ErrorCode], None], error: ErrorCode) -> None:
        with self._actions:
            stored(coordinator_error(error))
