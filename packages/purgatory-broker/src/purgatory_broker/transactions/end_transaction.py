"""The end of transactions: by EndTxn requests, and for producers that are fenced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.transactions.marker_sender import MarkerSender
from purgatory_broker.transactions.transaction import (
    EPOCH_BUMP_SINCE,
    MAX_EPOCH,
    NO_PRODUCER_ID,
    PREPARED_STATES,
    Transaction,
    TransactionState,
)
from purgatory_broker.transactions.transaction_log import TransactionLog, TransactionShard
from purgatory_broker.transactions.transaction_messages import (
    EndTransaction,
    ProducerIdReply,
    ProducerIdResult,
    TransactionError,
)


def new_producer_id(generate: Callable[[], int], transactional_id: str) -> int:
    """Return the next producer id; COORDINATOR_LOAD_IN_PROGRESS while there is none."""
    try:
        return generate()
    except ControllerError as error:
        raise TransactionError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, transactional_id) from error


@dataclass(slots=True, eq=False)
class EndTransactionHandler:
    """Decides the end of a transaction, stores it, answers, and has the markers written.

    From version 2 of a client on, the end gives the producer its next epoch, with which a late
    request of the ended transaction is told from one of the next (KIP-890). The client repeats a
    request without a response with the epoch that it had.
    """

    log: TransactionLog
    markers: MarkerSender
    actions: ActionQueue
    generate_producer_id: Callable[[], int]
    now_ms: Callable[[], int]

    def end(self, request: EndTransaction, reply: ProducerIdReply) -> None:
        if not request.transactional_id:
            raise TransactionError(ErrorCode.INVALID_REQUEST, request.transactional_id)
        shard, transaction = self.log.find(request.transactional_id)
        if request.client_version >= EPOCH_BUMP_SINCE:
            is_retry = self._check_epoch(transaction, request)
        else:
            _check_old_client(transaction, request)
            is_retry = transaction.state not in (TransactionState.EMPTY, TransactionState.ONGOING)
        if self._is_ended(transaction, request, is_retry=is_retry):
            value = transaction.value
            result = ProducerIdResult(ErrorCode.NONE, value.producer_id, value.producer_epoch)
            self.actions.add(partial(reply, result))
            return
        next_producer_id = NO_PRODUCER_ID
        if request.client_version >= EPOCH_BUMP_SINCE and transaction.is_exhausted:
            next_producer_id = new_producer_id(self.generate_producer_id, request.transactional_id)
        self._end(shard, transaction, request, next_producer_id, reply)

    @staticmethod
    def _check_epoch(transaction: Transaction, request: EndTransaction) -> bool:
        """Return whether the request repeats one that has decided the end of a transaction."""
        value = transaction.value
        got_next_id = (
            value.previous_producer_id == request.producer_id
            and request.producer_epoch == MAX_EPOCH - 1
            and value.producer_epoch == 0
        )
        got_next_epoch = value.producer_epoch == request.producer_epoch + 1
        # Before the id and the epoch are compared: the pending transition may change them.
        if transaction.pending_state is not None:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, request.transactional_id)
        if value.producer_id != request.producer_id and not got_next_id:
            raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, request.transactional_id)
        is_present = request.producer_epoch == value.producer_epoch
        if transaction.state in (TransactionState.EMPTY, TransactionState.ONGOING):
            is_valid = is_present
        elif transaction.state in PREPARED_STATES:
            is_valid = got_next_epoch
        else:
            is_valid = got_next_epoch or got_next_id or is_present
        if not is_valid:
            raise TransactionError(ErrorCode.PRODUCER_FENCED, request.transactional_id)
        return got_next_epoch or got_next_id

    @staticmethod
    def _is_ended(transaction: Transaction, request: EndTransaction, *, is_retry: bool) -> bool:
        """Return whether the transaction has ended so; refuse what does not fit its state.

        A client of version 2 may abort without a transaction, to get its next epoch.
        """
        state, is_commit = transaction.state, request.is_commit
        if state is TransactionState.ONGOING:
            return False
        refusal = TransactionError(ErrorCode.INVALID_TXN_STATE, request.transactional_id)
        if state in PREPARED_STATES:
            if is_commit is (state is TransactionState.PREPARE_COMMIT):
                raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, request.transactional_id)
            raise refusal
        if is_retry:
            if is_commit is (state is TransactionState.COMPLETE_COMMIT):
                return True
            raise refusal
        if is_commit or request.client_version < EPOCH_BUMP_SINCE:
            raise refusal
        return False

    def abort(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        server_version: int,
        reply: ProducerIdReply,
    ) -> None:
        """Fence the producer of an ongoing transaction, and abort it in the new epoch."""
        fence = transaction.prepare_fence()
        # With version 2 the end raises the epoch by itself (KAFKA-19367).
        bumps_epoch = server_version >= EPOCH_BUMP_SINCE
        transaction.clear_fence(None if bumps_epoch else fence.producer_epoch)
        request = EndTransaction(
            transactional_id=transaction.transactional_id,
            producer_id=fence.producer_id,
            producer_epoch=fence.producer_epoch,
            is_commit=False,
            client_version=server_version,
        )

        def ended(result: ProducerIdResult) -> None:
            if result.error is not ErrorCode.NONE and self.log.is_current(shard):
                transaction.has_failed_fence = True
            reply(result)

        self._end(shard, transaction, request, NO_PRODUCER_ID, ended)

    def _end(
        self,
        shard: TransactionShard,
        transaction: Transaction,
        request: EndTransaction,
        next_producer_id: int,
        reply: ProducerIdReply,
    ) -> None:
        is_commit = request.is_commit
        value = transaction.prepare_end(
            TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            request.client_version,
            next_producer_id,
            self.now_ms(),
            is_empty=transaction.state is not TransactionState.ONGOING,
        )

        def stored(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self.actions.add(partial(reply, ProducerIdResult(error)))
                return
            complete = transaction.prepare_complete(self.now_ms())
            result = ProducerIdResult(ErrorCode.NONE, complete.producer_id, complete.producer_epoch)
            self.actions.add(partial(reply, result))
            self.markers.send(shard, transaction, complete)

        self.log.append(shard, transaction, value, stored)


def _check_old_client(transaction: Transaction, request: EndTransaction) -> None:
    value, transactional_id = transaction.value, request.transactional_id
    if value.producer_id != request.producer_id:
        raise TransactionError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, transactional_id)
    if value.producer_epoch != request.producer_epoch:
        raise TransactionError(ErrorCode.PRODUCER_FENCED, transactional_id)
    if transaction.pending_state is not None:
        raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, transactional_id)
