"""A transactional producer of the model: what it sends, and what it knows about the results."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import find_api
from purgatory_broker.metadata.topics import TRANSACTIONS_TOPIC, TopicPartition, java_partition
from tests.broker.log.transactions import transactional
from tests.broker.replication.cluster_harness import ClusterHarness, handle_request

#: How long a producer waits for a response, and tries a request again, in seconds.
RESPONSE_S, RETRY_S, BACKOFF_S = 3.0, 20.0, 0.1

RETRIED = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
}


@dataclass(eq=False)
class Transaction:
    """A producer's transaction, and what the producer knows about it."""

    producer: str
    #: The records that leaders have acknowledged, and those that they may have.
    acknowledged: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    sent: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    partitions: set[TopicPartition] = field(default_factory=set)
    #: A request to commit was sent, so that the records may be read from then on.
    may_be_committed: bool = False
    #: True if committed, False if aborted; None while that is unknown.
    is_committed: bool | None = None


class ModelProducer:
    """A client with a transactional id. Version 2 leaves it to the brokers to add partitions."""

    def __init__(self, harness: ClusterHarness, transactional_id: str, version: int) -> None:
        self.harness = harness
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = self.epoch = -1
        self.sequences: dict[TopicPartition, int] = {}
        self.transaction: Transaction | None = None
        self.transactions: list[Transaction] = []
        #: The transaction can be aborted only, or the producer must begin anew.
        self.has_failed = False
        self.needs_init = True
        self._numbers = itertools.count()
        self.task: asyncio.Task[None] | None = None

    @property
    def is_busy(self) -> bool:
        return self.task is not None and not self.task.done()

    # -- requests

    async def _send(self, key: TopicPartition, api: str, version: int, **fields: Any) -> Any:
        """Return the response of a partition's leader; None if none comes."""
        partition = self.harness.cluster.controller.partition(key)
        if partition is None or partition.leader < 0:
            return None
        if self.harness.node(partition.leader).is_stopped:
            return None
        reply, _ = handle_request(self.harness, partition.leader, find_api(api), version, **fields)
        try:
            await asyncio.wait_for(reply.arrived.wait(), RESPONSE_S)
        except TimeoutError:
            return None
        assert reply.count == 1
        return reply.value

    async def _ask(self, api: str, version: int, **fields: Any) -> Any:
        count = self.harness.cluster.settings.transaction_state_log_num_partitions
        key = TopicPartition(TRANSACTIONS_TOPIC, java_partition(self.transactional_id, count))
        return await self._send(key, api, version, **fields)

    async def _retry(self, send: Any) -> tuple[ErrorCode | None, Any]:
        """Return the error and the response; None if only errors came that are tried again."""
        until = asyncio.get_running_loop().time() + RETRY_S
        while asyncio.get_running_loop().time() < until:
            response, error = await send()
            if error is not None and error not in RETRIED:
                return error, response
            await asyncio.sleep(BACKOFF_S)
        return None, None

    # -- what a producer does

    async def init(self) -> None:
        async def send() -> tuple[Any, ErrorCode | None]:
            answer = await self._ask(
                "InitProducerId",
                5,
                transactional_id=self.transactional_id,
                transaction_timeout_ms=10_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            return answer, None if answer is None else ErrorCode(answer.error_code)

        error, answer = await self._retry(send)
        if error is None:
            return
        assert error is ErrorCode.NONE, error
        self._give_up()
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        self.needs_init = self.has_failed = False

    def _give_up(self) -> None:
        """Forget the transaction; it is aborted unless the producer has tried to commit it."""
        if self.transaction is not None and not self.transaction.may_be_committed:
            self.transaction.is_committed = False
        self.transaction = None

    async def write(self, keys: list[TopicPartition]) -> None:
        if self.transaction is None:
            self.transaction = Transaction(self.transactional_id)
            self.transactions.append(self.transaction)
        transaction = self.transaction
        for key in keys:
            if self.version < 2 and not await self._add(transaction, key):
                self.has_failed = True
                return
            value = f"{self.transactional_id}-{next(self._numbers)}".encode()
            transaction.sent.append((key, value))
            if not await self._produce(key, value):
                self.has_failed = True
                return
            transaction.acknowledged.append((key, value))

    async def _add(self, transaction: Transaction, key: TopicPartition) -> bool:
        if key in transaction.partitions:
            return True

        async def send() -> tuple[Any, ErrorCode | None]:
            answer = await self._ask(
                "AddPartitionsToTxn",
                3,
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[{"name": key.topic, "partitions": [key.partition]}],
            )
            if answer is None:
                return None, None
            ((result,),) = [
                topic.results_by_partition for topic in answer.results_by_topic_v3_and_below
            ]
            return answer, ErrorCode(result.partition_error_code)

        error, _ = await self._retry(send)
        if error is ErrorCode.NONE:
            transaction.partitions.add(key)
        return error is ErrorCode.NONE

    async def _produce(self, key: TopicPartition, value: bytes) -> bool:
        sequence = self.sequences.get(key, 0)
        data = transactional(
            value, producer_id=self.producer_id, epoch=self.epoch, sequence=sequence
        )

        async def send() -> tuple[Any, ErrorCode | None]:
            answer = await self._send(
                key,
                "Produce",
                12 if self.version >= 2 else 11,
                transactional_id=self.transactional_id,
                acks=-1,
                timeout_ms=2_000,
                topic_data=[
                    {
                        "name": key.topic,
                        "partition_data": [{"index": key.partition, "records": data}],
                    }
                ],
            )
            if answer is None:
                return None, None
            ((result,),) = [topic.partition_responses for topic in answer.responses]
            return answer, ErrorCode(result.error_code)

        error, _ = await self._retry(send)
        if error is ErrorCode.NONE:
            self.sequences[key] = sequence + 1
        return error is ErrorCode.NONE

    async def end(self, commit: bool) -> None:
        transaction = self.transaction
        if transaction is None:
            return
        if self.version < 2 and not transaction.partitions:
            # There is nothing that the coordinator knows of.
            self._give_up()
            self.needs_init = self.has_failed
            return

        async def send() -> tuple[Any, ErrorCode | None]:
            transaction.may_be_committed |= commit
            answer = await self._ask(
                "EndTxn",
                5 if self.version >= 2 else 4,
                transactional_id=self.transactional_id,
                producer_id=self.producer_id,
                producer_epoch=self.epoch,
                committed=commit,
            )
            return answer, None if answer is None else ErrorCode(answer.error_code)

        attempts = 0

        async def count() -> tuple[Any, ErrorCode | None]:
            nonlocal attempts
            answer, error = await send()
            attempts += error is None or error in RETRIED
            return answer, error

        error, answer = await self._retry(count)
        if error is ErrorCode.NONE:
            transaction.is_committed = commit
            self.transaction = None
            if self.version >= 2:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                self.sequences.clear()
            self.needs_init = self.has_failed and self.version < 2
            self.has_failed = False
            return
        # Fenced, or without an answer: whether an earlier attempt has succeeded is unknown.
        if not commit or (error is not None and not attempts):
            transaction.is_committed = False
        self.transaction = None
        self.needs_init = True
