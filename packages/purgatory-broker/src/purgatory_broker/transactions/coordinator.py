"""The transaction coordinator of a node."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.transactions.deadlines import Deadlines
from purgatory_broker.transactions.end_transaction import EndTransactionHandler
from purgatory_broker.transactions.init_producer_id import InitProducerIdHandler
from purgatory_broker.transactions.marker_sender import MarkerChannel, MarkerSender
from purgatory_broker.transactions.transaction import (
    IDLE_STATES,
    PREPARED_STATES,
    Transaction,
    TransactionState,
)
from purgatory_broker.transactions.transaction_list import list_transactions
from purgatory_broker.transactions.transaction_log import (
    StateStore,
    TransactionLog,
    TransactionShard,
)
from purgatory_broker.transactions.transaction_messages import (
    AddPartitions,
    EndTransaction,
    ErrorReply,
    InitProducerId,
    PartitionsReply,
    ProducerIdReply,
    ProducerIdResult,
    TransactionDescription,
    TransactionError,
    TransactionFilter,
    TransactionListing,
    error_for_all,
)
from request_purgatory.aio import Purgatory

logger = logging.getLogger(__name__)

#: Before a timeout or an expiration is tried again: a transition is pending, or an error came.
_BACKOFF_MS = 100
#: Between two slices of a list of transactions.
_PAUSE_MS = 1


@dataclass(frozen=True, slots=True)
class TransactionPurgatories:
    timeout: Purgatory
    expiration: Purgatory


class TransactionCoordinator:
    """Coordinates the transactional ids whose partition of `__transaction_state` this node leads.

    The coordinator implements Kafka's transactions without I/O. It returns results or passes them
    to `reply` callbacks, waits in two purgatories, and appends through a `StateStore`. It is not
    safe for threads: every call must be on the purgatories' event loop.

    A transaction that has ended is answered when the end is in the log; the markers are written
    afterwards. A `reply` is called exactly once, when the coordinator's state is consistent.
    """

    def __init__(
        self,
        node_id: int,
        settings: ClusterSettings,
        *,
        actions: ActionQueue,
        purgatories: TransactionPurgatories,
        store: StateStore,
        channel: MarkerChannel,
        new_producer_id: Callable[[], int],
        now_ms: Callable[[], int],
        on_change: Callable[[str], None] = lambda _transactional_id: None,
    ) -> None:
        """`on_change` is called with an id after each transition, and after it was loaded."""
        self.node_id = node_id
        self._settings = settings
        self._actions = actions
        self._now_ms = now_ms
        self._on_change = on_change
        self._channel = channel
        self._log = TransactionLog(
            settings.transaction_state_log_num_partitions,
            settings.transaction_version,
            store,
            actions,
            self._changed,
        )
        self._markers = MarkerSender(self._log, channel, actions)
        self._timeouts = Deadlines(purgatories.timeout, actions, now_ms, self._timed_out)
        self._expirations = Deadlines(purgatories.expiration, actions, now_ms, self._expire)
        self._ends = EndTransactionHandler(
            self._log, self._markers, actions, new_producer_id, now_ms
        )
        self._producer_ids = InitProducerIdHandler(
            settings, self._log, self._ends, actions, new_producer_id, now_ms
        )

    # -- partitions

    def partition_for(self, transactional_id: str) -> int:
        return self._log.partition_for(transactional_id)

    def load(
        self,
        partition: int,
        coordinator_epoch: int,
        records: Iterable[tuple[bytes, bytes | None]],
    ) -> None:
        """Take over a partition in a leader epoch, and write the markers that are missing.

        No-op if it is loaded in this epoch.
        """
        with self._actions:
            loaded = self._log.by_partition.get(partition)
            if loaded is not None and loaded.coordinator_epoch == coordinator_epoch:
                return
            self.unload(partition)
            shard = TransactionShard(partition, coordinator_epoch)
            shard.replay(records)
            self._log.by_partition[partition] = shard
            for transaction in shard.transactions.values():
                self._changed(shard, transaction)
                if transaction.state in PREPARED_STATES:
                    complete = transaction.prepare_complete(self._now_ms())
                    self._markers.send(shard, transaction, complete)
        logger.info(
            "node %d has loaded %d transactional ids of partition %d of the transaction state",
            self.node_id,
            len(shard.transactions),
            partition,
        )

    def unload(self, partition: int) -> None:
        """Answer NOT_COORDINATOR where a record is not replicated yet. No-op if not loaded."""
        with self._actions:
            shard = self._log.by_partition.pop(partition, None)
            if shard is None:
                return
            self._markers.forget(shard)
            for transactional_id in shard.transactions:
                self._timeouts.cancel(transactional_id)
                self._expirations.cancel(transactional_id)
        logger.info(
            "node %d has unloaded partition %d of the transaction state", self.node_id, partition
        )

    def abandon(self) -> None:
        """Forget all transactions without an answer, and break their cycles, after the stop."""
        self._log.abandon()
        self._markers.abandon()
        self._timeouts.abandon()
        self._expirations.abandon()

    def time_advanced(self) -> None:
        """Apply timeouts and expirations to an advanced time of day."""
        self._timeouts.time_advanced()
        self._expirations.time_advanced()

    # -- requests of producers

    def init_producer_id(self, request: InitProducerId, reply: ProducerIdReply) -> None:
        """Answer with the producer id and the next epoch; a transaction that runs is aborted."""
        with self._actions:
            try:
                self._producer_ids.init(request, reply)
            except TransactionError as error:
                self._actions.add(partial(reply, ProducerIdResult(error.code)))

    def add_partitions(self, request: AddPartitions, reply: ErrorReply) -> None:
        """Add partitions to a transaction, which begins with the first."""
        with self._actions:
            try:
                self._add_partitions(request, reply)
            except TransactionError as error:
                self._actions.add(partial(reply, error.code))

    def _add_partitions(self, request: AddPartitions, reply: ErrorReply) -> None:
        transactional_id = request.transactional_id
        if not transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST, transactional_id)
        shard, transaction = self._log.find(transactional_id)
        value = transaction.value
        # Before the id and the epoch are compared: the pending transition may change them.
        if transaction.pending_state is not None:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, transactional_id)
        _check_producer(transaction, request.producer_id, request.producer_epoch)
        if transaction.state in PREPARED_STATES:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, transactional_id)
        if transaction.state is TransactionState.ONGOING and request.partitions <= value.partitions:
            self._actions.add(partial(reply, ErrorCode.NONE))
            return
        added = transaction.prepare_partitions(
            request.partitions, request.client_version, self._now_ms()
        )
        self._log.append(shard, transaction, added, reply)

    def verify_partitions(self, request: AddPartitions, reply: PartitionsReply) -> None:
        """Answer whether partitions were added: TRANSACTION_ABORTABLE if not."""
        with self._actions:
            try:
                errors = self._verify_partitions(request)
            except TransactionError as error:
                errors = error_for_all(request.partitions, error.code)
            self._actions.add(partial(reply, errors))

    def _verify_partitions(self, request: AddPartitions) -> dict[TopicPartition, ErrorCode]:
        if not request.transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST, request.transactional_id)
        _, transaction = self._log.find(request.transactional_id)
        # A pending transition does not count: the log checks once more when it appends.
        _check_producer(transaction, request.producer_id, request.producer_epoch)
        if transaction.state in PREPARED_STATES:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, request.transactional_id)
        return {
            key: ErrorCode.NONE
            if key in transaction.value.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for key in request.partitions
        }

    def end_transaction(self, request: EndTransaction, reply: ProducerIdReply) -> None:
        """Answer when the end is in the log; the result has the epoch of the next transaction."""
        with self._actions:
            try:
                self._ends.end(request, reply)
            except TransactionError as error:
                self._actions.add(partial(reply, ProducerIdResult(error.code)))

    # -- timeouts

    def _changed(self, shard: TransactionShard, transaction: Transaction) -> None:
        transactional_id, value = transaction.transactional_id, transaction.value
        if transactional_id not in shard.transactions:
            self._expirations.cancel(transactional_id)
        elif transaction.state in IDLE_STATES:
            self._expirations.set_first(shard, transaction, self._expiration_ms(transaction))
        if transaction.state is TransactionState.ONGOING:
            # Kafka aborts transactions that have lasted for longer than their timeout.
            self._timeouts.set(shard, transaction, value.start_ms + value.timeout_ms + 1)
        else:
            self._timeouts.cancel(transactional_id)
        self._actions.add(partial(self._on_change, transactional_id))

    def _timed_out(self, shard: TransactionShard, transaction: Transaction) -> None:
        if transaction.pending_state is not None:
            self._timeouts.set(shard, transaction, self._now_ms() + _BACKOFF_MS)
            return

        def aborted(result: ProducerIdResult) -> None:
            if result.error is ErrorCode.NONE:
                logger.info("%s is aborted: it has timed out", transaction)
            elif self._log.is_current(shard) and transaction.state is TransactionState.ONGOING:
                with self._actions:
                    self._timeouts.set(shard, transaction, self._now_ms() + _BACKOFF_MS)

        self._ends.abort(shard, transaction, self._settings.transaction_version, aborted)

    def _expiration_ms(self, transaction: Transaction) -> int:
        deadline_ms = transaction.value.update_ms + self._settings.transactional_id_expiration_ms
        return max(deadline_ms, self._now_ms() + _BACKOFF_MS)

    def _expire(self, shard: TransactionShard, transaction: Transaction) -> None:
        """Remove an id that was not used; for one that was, wait until its present deadline.

        The operation is not replaced at the end of each transaction: days go by until it expires.
        """
        if transaction.state not in IDLE_STATES:
            return
        unused_ms = self._now_ms() - transaction.value.update_ms
        if (
            transaction.pending_state is not None
            or unused_ms < self._settings.transactional_id_expiration_ms
        ):
            self._expirations.set(shard, transaction, self._expiration_ms(transaction))
        else:
            transaction.prepare_dead()
            self._log.remove(shard, [transaction], self._settings.offsets_commit_timeout_ms)

    # -- administration

    def describe_transaction(self, transactional_id: str) -> TransactionDescription:
        if not transactional_id:
            return TransactionDescription(transactional_id, ErrorCode.INVALID_REQUEST)
        try:
            shard = self._log.shard_of(transactional_id)
        except TransactionError as error:
            return TransactionDescription(transactional_id, error.code)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            return TransactionDescription(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return TransactionDescription(transactional_id, value=transaction.value)

    def list_transactions(
        self, given: TransactionFilter, reply: Callable[[TransactionListing], None]
    ) -> None:
        """Answer now, or after some turns of others on the event loop if there are many."""
        self._go_on(list_transactions(self.transactions, given, self._now_ms()), reply)

    def _go_on(
        self,
        work: Generator[None, None, TransactionListing],
        reply: Callable[[TransactionListing], None],
    ) -> None:
        try:
            next(work)
        except StopIteration as end:
            reply(end.value)
        else:
            self._channel.call_later(_PAUSE_MS, partial(self._go_on, work, reply))

    # -- inspection

    @property
    def transactions(self) -> list[Transaction]:
        return [each for shard in self._log for each in shard.transactions.values()]

    def check(self) -> None:
        for shard in self._log:
            for transactional_id, transaction in shard.transactions.items():
                transaction.check()
                shown = str(transaction)
                # An operation that has expired waits for the record of the abort.
                is_ongoing = transaction.state is TransactionState.ONGOING
                has_timeout = transactional_id in self._timeouts.operations
                assert not has_timeout or is_ongoing, shown
                assert has_timeout or not is_ongoing or transaction.pending_state, shown
                if transaction.state in PREPARED_STATES and transaction.value.partitions:
                    assert transactional_id in self._markers.pending, shown


def _check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    if transaction.value.producer_id != producer_id:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, transaction.transactional_id)
    if transaction.value.producer_epoch != producer_epoch:
        raise TransactionError(ErrorCode.PRODUCER_FENCED, transaction.transactional_id)
