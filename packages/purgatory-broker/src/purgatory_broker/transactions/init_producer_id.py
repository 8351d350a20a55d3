"""InitProducerId with a transactional id: the producer that begins fences the one before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.transactions.end_transaction import (
    EndTransactionHandler,
    new_producer_id,
)
from purgatory_broker.transactions.transaction import (
    MAX_EPOCH,
    NO_EPOCH,
    PREPARED_STATES,
    FencedEpochError,
    Transaction,
    TransactionState,
    TransactionValue,
    is_exhausted,
)
from purgatory_broker.transactions.transaction_log import TransactionLog, TransactionShard
from purgatory_broker.transactions.transaction_messages import (
    InitProducerId,
    ProducerIdReply,
    ProducerIdResult,
    TransactionError,
)

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class InitProducerIdHandler:
    settings: ClusterSettings
    log: TransactionLog
    ends: EndTransactionHandler
    actions: ActionQueue
    generate_producer_id: Callable[[], int]
    now_ms: Callable[[], int]

    def init(self, request: InitProducerId, reply: ProducerIdReply) -> None:
        transactional_id = request.transactional_id
        error = self._request_error(request)
        if error is not None:
            raise TransactionError(error, transactional_id)
        shard = self.log.shard_of(transactional_id)
        transaction = shard.transactions.get(transactional_id)
        if transaction is None:
            producer_id = new_producer_id(self.generate_producer_id, transactional_id)
            transaction = Transaction(
                transactional_id,
                TransactionValue(
                    producer_id=producer_id,
                    timeout_ms=request.timeout_ms,
                    update_ms=self.now_ms(),
                ),
            )
            shard.transactions[transactional_id] = transaction
        self._check(transaction, request)
        if transaction.state is TransactionState.ONGOING:
            # The producer repeats its request, and then gets a later epoch than that of the fence.
            self._abort(shard, transaction, reply)
            return
        value = self._next(transaction, request)

        def stored(error: ErrorCode) -> None:
            result = ProducerIdResult(error)
            if error is not ErrorCode.NONE and transaction.value.producer_epoch == NO_EPOCH:
                # An id without a record would never expire.
                shard.transactions.pop(transactional_id, None)
            if error is ErrorCode.NONE:
                result = ProducerIdResult(error, value.producer_id, value.producer_epoch)
                logger.info("initialized %s", transaction)
            self.actions.add(partial(reply, result))

        self.log.append(shard, transaction, value, stored)

    def _request_error(self, request: InitProducerId) -> ErrorCode | None:
        if not request.transactional_id:
            return ErrorCode.INVALID_REQUEST
        if not 0 < request.timeout_ms <= self.settings.transaction_max_timeout_ms:
            return ErrorCode.INVALID_TRANSACTION_TIMEOUT
        return None

    @staticmethod
    def _check(transaction: Transaction, request: InitProducerId) -> None:
        value = transaction.value
        if transaction.pending_state is not None:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.transactional_id)
        if request.expected is not None and value.producer_epoch != NO_EPOCH:
            producer_id, epoch = request.expected
            is_retry = producer_id == value.previous_producer_id and is_exhausted(epoch)
            if producer_id != value.producer_id and not is_retry:
                raise TransactionError(ErrorCode.PRODUCER_FENCED, transaction.transactional_id)
        if transaction.state in PREPARED_STATES:
            raise TransactionError(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.transactional_id)

    def _next(self, transaction: Transaction, request: InitProducerId) -> TransactionValue:
        """Prepare the next epoch, or another producer id where there is none."""
        expected_epoch = None if request.expected is None else request.expected[1]
        epoch, last_epoch = transaction.value.producer_epoch, transaction.value.last_producer_epoch
        # A producer that repeats its request does not get the largest epoch, that of a fence.
        is_fenced = epoch == MAX_EPOCH and expected_epoch == last_epoch
        if transaction.is_exhausted and (is_fenced or expected_epoch in (None, epoch)):
            producer_id = new_producer_id(self.generate_producer_id, transaction.transactional_id)
            return transaction.prepare_producer_id(
                producer_id,
                request.timeout_ms,
                self.now_ms(),
                keeps_last_epoch=expected_epoch is not None,
            )
        try:
            return transaction.prepare_epoch(request.timeout_ms, expected_epoch, self.now_ms())
        except FencedEpochError:
            raise TransactionError(
                ErrorCode.PRODUCER_FENCED, transaction.transactional_id
            ) from None

    def _abort(
        self, shard: TransactionShard, transaction: Transaction, reply: ProducerIdReply
    ) -> None:
        def aborted(result: ProducerIdResult) -> None:
            failed = result.error is not ErrorCode.NONE
            reply(ProducerIdResult(result.error if failed else ErrorCode.CONCURRENT_TRANSACTIONS))

        self.ends.abort(shard, transaction, self.settings.transaction_version, aborted)
