"""A stateful test of transactions on a whole cluster, under random faults.

// No record of an aborted transaction is ever read, none of a committed one is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from purgatory_broker.metadata.topics import (
    TRANSACTIONS_TOPIC,
    ControllerError,
    TopicPartition,
    java_partition,
)
from purgatory_broker.replication.replica import Replica
from tests.broker.log.batches import NOW
from tests.broker.log.transactions import read_committed, stable_offset
from tests.broker.replication.faulty_cluster import NODES, FaultyCluster
from tests.broker.transactions.model_producer import ModelProducer, Transaction
from tests.support.profiles import examples

KEYS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]


class Transactions(FaultyCluster):
    """Three nodes, three partitions, and three producers that commit and abort.

    // A transaction's records are read all or not at all, over partitions.
    """

    def __init__(self) -> None:
        super().__init__(
            lambda loop: NOW + int(loop.time() * 1_000), transaction_state_log_num_partitions=2
        )
        self.producers = [
            ModelProducer(self.harness, "new", 2),
            ModelProducer(self.harness, "newer", 2),
            ModelProducer(self.harness, "old", 0),
        ]
        #: What consumers have read, by partition and offset.
        self.seen: dict[TopicPartition, dict[int, bytes | None]] = {key: {} for key in KEYS}

    @initialize()
    def begin(self) -> None:
        async def step() -> None:
            await self.cluster.__aenter__()
            self.cluster.create_topic("a", partitions=2, replication_factor=3)
            self.cluster.create_topic("b", partitions=1, replication_factor=3)
            self.cluster.controller.topic_changes.create_transactions_topic()
            await self.harness.settle()
            await asyncio.gather(*(producer.init() for producer in self.producers))

        self.run(step())

    # -- producers

    def idle(self) -> list[ModelProducer]:
        return [producer for producer in self.producers if not producer.is_busy]

    @precondition(lambda self: self.idle())
    @rule(
        data=st.data(),
        action=st.sampled_from(["write", "write", "commit", "commit", "abort", "init"]),
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
        pause_ms=st.sampled_from([0, 1, 20, 400, 1_500, 5_000]),
    )
    def produce(
        self, data: st.DataObject, action: str, keys: list[TopicPartition], pause_ms: int
    ) -> None:
        """Let an idle producer do something, while the others go on."""
        producer = data.draw(st.sampled_from(self.idle()), "producer")
        work: Coroutine[Any, Any, None]
        if producer.needs_init or action == "init":
            work = producer.init()
        elif action == "write" and not producer.has_failed:
            work = producer.write(keys)
        else:
            work = producer.end(action == "commit" and not producer.has_failed)

        async def step() -> None:
            producer.task = asyncio.create_task(work)
            await asyncio.sleep(pause_ms / 1_000)

        self.run(step())

    @precondition(lambda self: not self.down())
    @rule(data=st.data())
    def fence(self, data: st.DataObject) -> None:
        producer = data.draw(st.sampled_from(self.producers), "producer")

        async def step() -> None:
            try:
                await asyncio.wait_for(self.cluster.fence_producer(producer.transactional_id), 10)
            except (ControllerError, TimeoutError):
                pass

        self.run(step())

    @precondition(lambda self: not self.down() and self.idle())
    @rule(
        data=st.data(),
        commit=st.booleans(),
        keys=st.lists(st.sampled_from(KEYS), min_size=1, max_size=3),
        pause_ms=st.integers(0, 90),
        of_coordinator=st.booleans(),
        fault=st.sampled_from(["move", "kill", "partition_node"]),
    )
    def interrupt_an_end(
        self,
        data: st.DataObject,
        commit: bool,
        keys: list[TopicPartition],
        pause_ms: int,
        of_coordinator: bool,
        fault: str,
    ) -> None:
        """Let a producer write and end, and take a leader away while the markers are sent."""
        producer = data.draw(st.sampled_from(self.idle()), "producer")

        async def step() -> None:
            for node in range(3):
                self.cluster.set_latency(node, 10)
            if producer.needs_init:
                await producer.init()
            if not producer.needs_init and not producer.has_failed:
                await producer.write(keys)
            producer.task = asyncio.create_task(producer.end(commit and not producer.has_failed))
            await asyncio.sleep(pause_ms / 1_000)
            number = java_partition(producer.transactional_id, 2)
            key = TopicPartition(TRANSACTIONS_TOPIC, number) if of_coordinator else keys[0]
            leader = self.harness.state(key)["leader"]
            if leader < 0:
                return
            if fault == "move":
                with contextlib.suppress(ControllerError):
                    self.cluster.move_leader(*key, (leader + 1) % 3)
            else:
                getattr(self.cluster, fault)(leader)
            await asyncio.sleep(0.2)

        self.run(step())

    # -- faults

    @rule(
        node=NODES,
        key=st.sampled_from([*KEYS, *(TopicPartition(TRANSACTIONS_TOPIC, n) for n in range(2))]),
    )
    def move_leader(self, node: int, key: TopicPartition) -> None:
        async def step() -> None:
            try:
                self.cluster.move_leader(*key, node)
            except ControllerError:
                pass

        self.run(step())

    # -- what holds at any time

    def transactions(self) -> list[Transaction]:
        return [each for producer in self.producers for each in producer.transactions]

    def leading(self, key: TopicPartition) -> list[Replica]:
        """Return the replicas of a partition that consider themselves the leader."""
        found = [node.replicas.find(key) for node in self.cluster.nodes if not node.is_stopped]
        return [replica for replica in found if replica is not None and replica.is_leader]

    @invariant()
    def check_cluster(self) -> None:
        self.run(self.do(self.cluster.check))
        for node in self.cluster.nodes:
            if not node.is_stopped:
                node.transactions.check()
        assert not self.failures, self.failures

    @invariant()
    def check_reads(self) -> None:
        """Check that nobody reads what is not committed, and that what was read stays."""
        hidden = {
            record
            for transaction in self.transactions()
            if transaction.is_committed is False or not transaction.may_be_committed
            for record in transaction.sent
        }
        for key in KEYS:
            for replica in self.leading(key):
                read = dict(read_committed(replica.log, replica.high_watermark))
                assert not hidden & {(key, value) for value in read.values()}, key
                stable = stable_offset(replica.log, replica.high_watermark)
                seen = self.seen[key]
                for offset, value in seen.items():
                    assert offset >= stable or read.get(offset) == value, (key, offset, value)
                seen.update(read)

    # -- the end

    def teardown(self) -> None:
        try:
            if self.cluster.nodes[0].purgatories:
                self.run(self.heal())
                self.check_reads()
                self.check_outcomes()
                self.run(self.cluster.__aexit__(None, None, None))
        finally:
            self.runner.close()

    async def heal(self) -> None:
        """Undo every fault, and let the producers begin anew, which ends what they had begun."""
        await self.undo_faults()
        await asyncio.sleep(60)
        assert not any(producer.is_busy for producer in self.producers)
        for producer in self.producers:
            await producer.init()
            assert not producer.needs_init, producer.transactional_id
        await asyncio.sleep(5)

    def check_outcomes(self) -> None:
        """Check that each transaction is read as a whole or not at all."""
        self.check_cluster()
        read: Counter[tuple[TopicPartition, bytes | None]] = Counter()
        for key in KEYS:
            (replica,) = self.leading(key)
            assert replica.high_watermark == replica.log.end_offset, key
            assert stable_offset(replica.log, replica.high_watermark) == replica.high_watermark
            values = [value for _, value in read_committed(replica.log, replica.high_watermark)]
            read.update((key, value) for value in values)
        assert set(read.values()) <= {1}, "a record is there twice"
        for transaction in self.transactions():
            expected = set(transaction.acknowledged)
            found = {record for record in transaction.sent if read[record]}
            if transaction.is_committed is None:
                assert found in (set(), expected), transaction
            else:
                assert found == (expected if transaction.is_committed else set()), transaction
        for node in self.cluster.nodes:
            assert node.purgatories["TransactionTimeout"].num_delayed == 0


Transactions.TestCase.settings = examples(15, stateful_step_count=50)
TestTransactions = Transactions.TestCase
