"""The commands on producers' transactions."""

from __future__ import annotations

import asyncio
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster._commands.command_group import CommandGroup, command
from purgatory_broker.cluster.cluster_errors import ClusterTimeoutError
from purgatory_broker.cluster.transaction_snapshots import (
    TransactionSnapshot,
    coordinated_transactions,
    coordinator_of,
    transaction_snapshot,
)
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.transactions.transaction import TransactionValue
from purgatory_broker.transactions.transaction_messages import InitProducerId, ProducerIdResult

#: Before the coordinator is asked again, while it ends a transaction: Kafka's clients' default of
#: `retry.backoff.ms`.
_BACKOFF_MS = 100


class TransactionCommands(CommandGroup):
    @command
    def transactions(self) -> dict[str, TransactionSnapshot]:
        """Return the transactional ids of all coordinators, with their producers and transactions.

        Returns:
            By transactional id `transactional_id`, `state`, `producer_id`, `producer_epoch`,
            `timeout_ms`, `start_ms` (None if there was no transaction), `coordinator`, and the
            `partitions` in the transaction by topic.
        """
        return {
            transaction.transactional_id: transaction_snapshot(node.node_id, transaction)
            for node, transaction in coordinated_transactions(self._parts)
        }

    @command
    async def fence_producer(self, transactional_id: str, *, timeout: float = 10.0) -> None:
        """Fence the producer of a transactional id, as another producer with the id would.

        Its transaction is aborted, if it has one, and its next request for a transaction fails. It
        is Kafka's `Admin.fenceProducers`.

        Args:
            transactional_id: the id, with which a producer must have begun.
            timeout: seconds, for the end of its transaction.

        Raises:
            ClusterTimeoutError: the transaction has not ended after `timeout`.
            ControllerError: no producer has begun with this id, or its coordinator does not run or
                cannot store the change.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            result = await self._init_producer_id(transactional_id)
            if result.error is ErrorCode.NONE:
                return
            if result.error is not ErrorCode.CONCURRENT_TRANSACTIONS:
                raise ControllerError(
                    result.error, f"the producer of {transactional_id!r} can't be fenced"
                )
            if loop.time() >= until:
                state = self._transaction_value(transactional_id).state.value
                raise ClusterTimeoutError(
                    f"not within {timeout:g} s: the transaction of {transactional_id!r} is {state}"
                )
            await asyncio.sleep(_BACKOFF_MS / 1_000)
            self.require_running("fence_producer")

    async def _init_producer_id(self, transactional_id: str) -> ProducerIdResult:
        value = self._transaction_value(transactional_id)
        node = coordinator_of(self._parts, transactional_id)
        if node is None:
            raise ControllerError(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"the coordinator of {transactional_id!r} does not run",
            )
        answer: asyncio.Future[ProducerIdResult] = asyncio.get_running_loop().create_future()
        request = InitProducerId(
            transactional_id=transactional_id, timeout_ms=value.timeout_ms, expected=None
        )
        node.transactions.init_producer_id(request, answer.set_result)
        # The node may stop before its replicas have the record.
        ends: list[asyncio.Future[Any]] = [answer, node.halted]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            return ProducerIdResult(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return answer.result()

    def _transaction_value(self, transactional_id: str) -> TransactionValue:
        for _, transaction in coordinated_transactions(self._parts):
            if transaction.transactional_id == transactional_id:
                return transaction.value
        raise ControllerError(
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"no producer has begun with {transactional_id!r}"
        )
