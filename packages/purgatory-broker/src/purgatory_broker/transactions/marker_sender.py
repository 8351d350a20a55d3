"""Sends the markers of transactions to the leaders of their partitions."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.log.transaction_marker import TransactionMarker
from purgatory_broker.metadata.topics import NO_LEADER, TopicPartition
from purgatory_broker.transactions.transaction import (
    Transaction,
    TransactionState,
    TransactionValue,
)
from purgatory_broker.transactions.transaction_log import TransactionLog, TransactionShard
from request_purgatory.error_log import ErrorLog

logger = logging.getLogger(__name__)

#: Before markers are sent again for the first time, and at most; the time doubles. Kafka's sender
#: waits for `reconnect.backoff.ms` after a lost connection, and after other errors not at all.
#: Without doubling, thousands of transactions that wait for a leader keep the event loop busy. With
#: it, a marker is late by no more than its leader was away.
RETRY_BACKOFF_MS = 50
RETRY_BACKOFF_MAX_MS = 1_000

#: The producer or the coordinator has a later epoch: whoever has it ends the transaction.
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
#: The producer cannot have written to the partition.
_NOT_WRITABLE = (ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.UNSUPPORTED_VERSION)


class MarkerChannel(Protocol):
    """The way to the leaders of partitions."""

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Return the node; NO_LEADER while there is none, None if there is no such partition."""

    def send(
        self,
        node: int,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        reply: Callable[[Mapping[TopicPartition, ErrorCode] | None], None],
    ) -> None:
        """Have a node write a marker; `reply` is called once, with None if the node was lost."""

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Call `action` after a delay, unless the node stops."""


@dataclass(frozen=True, slots=True, eq=False)
class PendingEnd:
    """A transaction whose end is decided, and whose markers are not all written."""

    shard: TransactionShard
    transaction: Transaction
    marker: TransactionMarker
    #: The transition that follows.
    complete: TransactionValue


class MarkerSender:
    """Sends markers until each partition of a transaction has its own.

    The partitions that remain are the transaction's own: a partition that has its marker is removed
    from them, and the last one begins the transition to the complete state. No lock and no
    operation is held meanwhile (KAFKA-9777). Partitions that are deleted need no marker. What
    failed is sent again, to the leader of that time, for as long as this node is the coordinator.

    It is Kafka's TransactionMarkerChannelManager.
    """

    def __init__(self, log: TransactionLog, channel: MarkerChannel, actions: ActionQueue) -> None:
        self._log = log
        self._channel = channel
        self._actions = actions
        self._errors = ErrorLog(logger)
        #: By transactional id.
        self.pending: dict[str, PendingEnd] = {}

    def send(
        self, shard: TransactionShard, transaction: Transaction, complete: TransactionValue
    ) -> None:
        """Send the markers of a transaction, whose transition to `complete` is prepared."""
        value = transaction.value
        marker = TransactionMarker(
            value.producer_id,
            value.producer_epoch,
            value.state is TransactionState.PREPARE_COMMIT,
            shard.coordinator_epoch,
            value.client_version,
        )
        end = PendingEnd(shard, transaction, marker, complete)
        self.pending[transaction.transactional_id] = end
        self._actions.add(partial(self._send, end, value.partitions))

    def forget(self, shard: TransactionShard) -> None:
        """Send nothing more for a shard that this node has no longer."""
        for transactional_id, end in list(self.pending.items()):
            if end.shard is shard:
                del self.pending[transactional_id]

    def abandon(self) -> None:
        self.pending.clear()

    def _is_current(self, end: PendingEnd) -> bool:
        return self.pending.get(end.transaction.transactional_id) is end

    def _send(
        self,
        end: PendingEnd,
        partitions: frozenset[TopicPartition],
        backoff_ms: int = RETRY_BACKOFF_MS,
    ) -> None:
        """Send a marker; what fails is sent again after `backoff_ms`."""
        with self._actions:
            by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
            deleted = []
            for key in sorted(partitions):
                leader = self._channel.leader_of(key)
                if leader is None:
                    deleted.append(key)
                else:
                    by_leader[leader].append(key)
            leaderless = by_leader.pop(NO_LEADER, [])
            if leaderless:
                self._send_again(end, frozenset(leaderless), backoff_ms)
            if deleted:
                logger.info(
                    "%s: %s need no marker: they are deleted",
                    end.transaction.transactional_id,
                    deleted,
                )
            self._written(end, frozenset(deleted))
            for leader, keys in by_leader.items():
                reply = partial(self._replied, end, keys, backoff_ms)
                self._channel.send(leader, end.marker, keys, reply)

    def _send_again(
        self, end: PendingEnd, partitions: frozenset[TopicPartition], backoff_ms: int
    ) -> None:
        def send() -> None:
            if self._is_current(end):
                self._send(end, partitions, _longer(backoff_ms))

        self._channel.call_later(backoff_ms, send)

    def _replied(
        self,
        end: PendingEnd,
        sent: Sequence[TopicPartition],
        backoff_ms: int,
        errors: Mapping[TopicPartition, ErrorCode] | None,
    ) -> None:
        if not self._is_current(end):
            return
        with self._actions:
            if errors is None:
                self._send_again(end, frozenset(sent), backoff_ms)
                return
            written, failed = set(), set()
            for key in sent:
                error = errors[key]
                if error in _FENCED:
                    logger.info(
                        "%s: gave up its markers: %s", end.transaction.transactional_id, error.name
                    )
                    del self.pending[end.transaction.transactional_id]
                    return
                if error is ErrorCode.NONE or error in _NOT_WRITABLE:
                    written.add(key)
                else:
                    failed.add(key)
            if failed:
                self._send_again(end, frozenset(failed), backoff_ms)
            self._written(end, frozenset(written))

    def _written(self, end: PendingEnd, written: frozenset[TopicPartition]) -> None:
        if not self._is_current(end):
            return
        end.transaction.remove_partitions(written)
        if not end.transaction.value.partitions:
            del self.pending[end.transaction.transactional_id]
            self._complete(end)

    def _complete(self, end: PendingEnd, backoff_ms: int = RETRY_BACKOFF_MS) -> None:
        def completed(error: ErrorCode) -> None:
            # A disk that is full, for instance, has room again later.
            if error is not ErrorCode.NONE and self._log.is_current(end.shard):
                self._errors.warn(
                    "%s cannot be completed yet: %s", end.transaction.transactional_id, error.name
                )
                again = partial(self._complete, end, _longer(backoff_ms))
                self._channel.call_later(backoff_ms, again)

        if self._log.is_current(end.shard):
            with self._actions:
                self._log.append(
                    end.shard,
                    end.transaction,
                    end.complete,
                    completed,
                    is_retried=True,
                )


def _longer(backoff_ms: int) -> int:
    return min(2 * backoff_ms, RETRY_BACKOFF_MAX_MS)
