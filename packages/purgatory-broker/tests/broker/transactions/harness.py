"""A transaction coordinator in virtual time, with a log and leaders that the test controls."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.deferred_actions import ActionQueue
from purgatory_broker.log.transaction_marker import TransactionMarker
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.settings import ClusterSettings
from purgatory_broker.transactions.coordinator import (
    TransactionCoordinator,
    TransactionPurgatories,
)
from purgatory_broker.transactions.transaction import Transaction
from purgatory_broker.transactions.transaction_messages import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ProducerIdResult,
)
from request_purgatory.aio import Purgatory
from tests.unit.aio.virtual import run

ID = "orders"
PARTITIONS = 4
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


class StateLog:
    """`__transaction_state`. Appends complete immediately or, if `is_held`, when released.

    Attributes:
        error: The error with which appends complete.
    """

    def __init__(self) -> None:
        self.records: dict[int, list[tuple[bytes, bytes | None]]] = {
            each: [] for each in range(PARTITIONS)
        }
        self.error = ErrorCode.NONE
        self.is_held = False
        self.held: deque[Callable[[], None]] = deque()

    def append(
        self,
        partition: int,
        records: list[tuple[bytes, bytes | None]],
        timeout_ms: int,
        done: Callable[[ErrorCode], None],
    ) -> None:
        error = self.error
        if error is ErrorCode.NONE:
            self.records[partition] += records
        if self.is_held:
            self.held.append(lambda: done(error))
        else:
            done(error)

    def release(self) -> None:
        while self.held:
            self.held.popleft()()


class Leaders:
    """The leaders of partitions: each writes the marker, or answers with its error.

    Attributes:
        nodes: The leader of each partition; 1 by default, and None if the partition is deleted.
        errors: The errors with which leaders answer.
        is_held: Answers wait for `release`.
        is_lost: No request arrives.
    """

    def __init__(self) -> None:
        self.nodes: dict[TopicPartition, int | None] = {}
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.is_held = False
        self.is_lost = False
        #: What `call_later` was asked for.
        self.delays_ms: list[int] = []
        self.held: deque[Callable[[], None]] = deque()
        self.sent: list[tuple[int, TransactionMarker, tuple[TopicPartition, ...]]] = []
        self.written: list[tuple[TopicPartition, TransactionMarker]] = []

    def leader_of(self, partition: TopicPartition) -> int | None:
        return self.nodes.get(partition, 1)

    def send(
        self,
        node: int,
        marker: TransactionMarker,
        partitions: Sequence[TopicPartition],
        reply: Callable[[Mapping[TopicPartition, ErrorCode] | None], None],
    ) -> None:
        self.sent.append((node, marker, tuple(partitions)))
        errors = {key: self.errors.get(key, ErrorCode.NONE) for key in partitions}

        def answer() -> None:
            if self.is_lost:
                reply(None)
                return
            self.written += [
                (key, marker) for key, error in errors.items() if error is ErrorCode.NONE
            ]
            reply(errors)

        if self.is_held:
            self.held.append(answer)
        else:
            answer()

    def call_later(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.delays_ms.append(delay_ms)
        asyncio.get_running_loop().call_later(delay_ms / 1_000, action)

    def release(self) -> None:
        while self.held:
            self.held.popleft()()


class TransactionsHarness:
    """A coordinator, its purgatories, its log and the leaders of partitions."""

    def __init__(self, purgatories: TransactionPurgatories, **settings: Any) -> None:
        self.settings = ClusterSettings(transaction_state_log_num_partitions=PARTITIONS, **settings)
        self.purgatories = purgatories
        self.log = StateLog()
        self.leaders = Leaders()
        self.epoch = 0
        self.next_producer_id = 1_000
        #: How far the time of day is ahead of the loop's time.
        self.advanced_ms = 0
        self.replies: list[list[Any]] = []
        self.coordinator = self.new_coordinator()

    def now_ms(self) -> int:
        return round(asyncio.get_running_loop().time() * 1_000) + self.advanced_ms

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def new_coordinator(self) -> TransactionCoordinator:
        """Return a coordinator that has loaded every partition from the log, in a new epoch."""
        coordinator = TransactionCoordinator(
            1,
            self.settings,
            actions=ActionQueue(),
            purgatories=self.purgatories,
            store=self.log,
            channel=self.leaders,
            new_producer_id=self.new_producer_id,
            now_ms=self.now_ms,
        )
        self.epoch += 1
        for partition in range(PARTITIONS):
            coordinator.load(partition, self.epoch, list(self.log.records[partition]))
        return coordinator

    def restart(self) -> None:
        """Replace the coordinator, as if its node had failed."""
        self.unload()
        self.coordinator = self.new_coordinator()

    def unload(self) -> None:
        for partition in range(PARTITIONS):
            self.coordinator.unload(partition)

    def advance(self, by_ms: int) -> None:
        self.advanced_ms += by_ms
        self.coordinator.time_advanced()

    def find(self, transactional_id: str = ID) -> Transaction | None:
        found = self.coordinator.transactions
        return next((each for each in found if each.transactional_id == transactional_id), None)

    @property
    def transaction(self) -> Transaction:
        transaction = self.find()
        assert transaction is not None
        return transaction

    @property
    def state(self) -> str:
        return self.transaction.state.value

    # -- requests

    def _reply(self) -> list[Any]:
        self.replies.append([])
        return self.replies[-1]

    def init(
        self,
        transactional_id: str = ID,
        *,
        timeout_ms: int = 60_000,
        expected: tuple[int, int] | None = None,
    ) -> list[ProducerIdResult]:
        reply = self._reply()
        request = InitProducerId(
            transactional_id=transactional_id, timeout_ms=timeout_ms, expected=expected
        )
        self.coordinator.init_producer_id(request, reply.append)
        return reply

    def begin(self, **options: Any) -> tuple[int, int]:
        """Return the id and epoch of a producer that begins."""
        (result,) = self.init(**options)
        assert result.error is ErrorCode.NONE, result
        return result.producer_id, result.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = ID,
        version: int = 0,
    ) -> list[ErrorCode]:
        reply = self._reply()
        self.coordinator.add_partitions(
            self._partitions(producer, partitions, transactional_id, version), reply.append
        )
        return reply

    def verify(
        self, producer: tuple[int, int], *partitions: TopicPartition, transactional_id: str = ID
    ) -> dict[TopicPartition, ErrorCode]:
        reply = self._reply()
        self.coordinator.verify_partitions(
            self._partitions(producer, partitions, transactional_id, 0), reply.append
        )
        (errors,) = reply
        return dict(errors)

    @staticmethod
    def _partitions(
        producer: tuple[int, int],
        partitions: Sequence[TopicPartition],
        transactional_id: str,
        version: int,
    ) -> AddPartitions:
        return AddPartitions(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            partitions=frozenset(partitions),
            client_version=version,
        )

    def end(
        self,
        producer: tuple[int, int],
        *,
        commit: bool = True,
        transactional_id: str = ID,
        version: int = 2,
    ) -> list[ProducerIdResult]:
        reply = self._reply()
        request = EndTransaction(
            transactional_id=transactional_id,
            producer_id=producer[0],
            producer_epoch=producer[1],
            is_commit=commit,
            client_version=version,
        )
        self.coordinator.end_transaction(request, reply.append)
        return reply


def error_of(replies: list[Any]) -> ErrorCode:
    (reply,) = replies
    return reply.error if isinstance(reply, ProducerIdResult) else ErrorCode(reply)


@asynccontextmanager
async def transactions_harness(**settings: Any) -> AsyncIterator[TransactionsHarness]:
    """Yield a harness, then check that every request was answered once and nothing is pending."""
    async with Purgatory("timeout") as timeout, Purgatory("expiration") as expiration:
        harness = TransactionsHarness(TransactionPurgatories(timeout, expiration), **settings)
        yield harness
        harness.coordinator.check()
        harness.unload()
        harness.log.release()
        harness.leaders.release()
        assert [len(reply) for reply in harness.replies] == [1] * len(harness.replies)
        for purgatory in (timeout, expiration):
            assert purgatory.num_delayed == 0, purgatory.name
            assert purgatory.metrics().callback_errors == 0


def run_scenario(
    scenario: Callable[[TransactionsHarness], Coroutine[Any, Any, None]], **settings: Any
) -> None:
    """Run a scenario with a new harness, in virtual time."""

    async def main() -> None:
        async with transactions_harness(**settings) as harness:
            await scenario(harness)

    run(main)
