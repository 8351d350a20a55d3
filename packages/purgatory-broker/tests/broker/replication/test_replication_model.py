"""A stateful test of replication under random faults.

// No acknowledged record is lost, changed or duplicated.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from dataclasses import dataclass

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.node import Node
from purgatory_broker.metadata.topics import ControllerError
from purgatory_broker.replication.delayed_partitions import ProducedPartition
from purgatory_broker.replication.record_deletions import DeletedPartition
from tests.broker.log.batches import NOW
from tests.broker.replication.cluster_harness import ALL, KEY, Reply, error
from tests.broker.replication.faulty_cluster import NODES, FaultyCluster
from tests.support.profiles import examples


@dataclass
class Request:
    """A request, and the node that it was sent to."""

    reply: Reply[list[ProducedPartition]] | Reply[list[DeletedPartition]]
    node: Node
    #: The id of the topic, which may have been deleted before the node was notified.
    topic_id: uuid.UUID
    values: tuple[bytes, ...] = ()
    acks: int = ALL


class Replication(FaultyCluster):
    """Three nodes and one partition.

    // A record that a consumer has read never changes.
    """

    def __init__(self) -> None:
        super().__init__(lambda _loop: NOW)
        self.numbers = itertools.count()
        self.requests: list[Request] = []
        self.generation = 0
        #: The records that consumers have read, by offset.
        self.seen: dict[int, bytes | None] = {}

    @initialize()
    def begin(self) -> None:
        """Start three nodes, and create the topic."""

        async def step() -> None:
            await self.cluster.__aenter__()
            await self.harness.create_topic()

        self.run(step())

    def leading(self) -> list[Node]:
        """Return the nodes that consider themselves the leader."""
        running = [node for node in self.cluster.nodes if not node.is_stopped]
        return [
            node
            for node in running
            if (replica := node.replicas.find(KEY)) is not None and replica.is_leader
        ]

    # -- requests

    @precondition(lambda self: self.leading())
    @rule(
        data=st.data(),
        acks=st.sampled_from([ALL, ALL, ALL, 1]),
        requests=st.lists(st.integers(1, 3), min_size=1, max_size=4),
        timeout_ms=st.sampled_from([30_000, 2_000, 50]),
        pause_ms=st.sampled_from([20, 0, 1, 400, 1_500]),
    )
    def produce(
        self, data: st.DataObject, acks: int, requests: list[int], timeout_ms: int, pause_ms: int
    ) -> None:
        """Send batches to a leader, which may not yet know that it was replaced."""
        node = data.draw(st.sampled_from(self.leading()), "node")

        async def step() -> None:
            for count in requests:
                # A reassignment may have ended in the meantime, without this node.
                if node.replicas.find(KEY) is not None:
                    self.send(node, acks, count, timeout_ms)
                await asyncio.sleep(pause_ms / 1_000)

        self.run(step())

    @precondition(lambda self: self.leading())
    @rule(data=st.data(), share=st.sampled_from([0.3, 0.7, 1.0]))
    def delete_records(self, data: st.DataObject, share: float) -> None:
        """Delete the records before some offset up to the high watermark."""
        node = data.draw(st.sampled_from(self.leading()), "node")

        async def step() -> None:
            replica = node.replicas.find(KEY)
            if replica is None:  # A reassignment has ended without this node.
                return
            reply = self.harness.delete(
                node.node_id, int(replica.high_watermark * share), timeout_ms=5_000
            )
            self.requests.append(Request(reply, node, replica.topic_id))

        self.run(step())

    # -- faults

    @rule(node=NODES)
    def pause_replication(self, node: int) -> None:
        """Stop a node from fetching as a follower."""
        self.run(self.do(lambda: self.cluster.pause_replication(node)))

    @rule(node=NODES)
    def resume_replication(self, node: int) -> None:
        """Let a node fetch again."""
        self.run(self.do(lambda: self.cluster.resume_replication(node)))

    @precondition(lambda self: not self.down() and self.leading())
    @rule(
        alone=st.integers(0, 3),
        others=st.integers(0, 3),
        partition=st.booleans(),
        fenced_ms=st.sampled_from([2_100, 1_000, 5_000]),
    )
    def depose(self, alone: int, others: int, partition: bool, fenced_ms: int) -> None:
        """Replace a leader that has records which no other replica has, and bring it back."""

        async def step() -> None:
            old = self.harness.leader
            if old < 0 or self.harness.node(old) not in self.leading():
                return
            if partition:
                self.cluster.partition_node(old)
            for _ in range(alone):
                self.send(self.harness.node(old), 1)
            if not partition:
                self.cluster.kill(old)
            await asyncio.sleep(fenced_ms / 1_000)
            for _ in range(others):
                for node in self.leading():
                    self.send(node, ALL)
            await asyncio.sleep(0.1)
            self.cluster.heal_node(old)
            if self.harness.node(old).is_stopped:
                await self.cluster.restart(old)

        self.run(step())

    def send(self, node: Node, acks: int, count: int = 1, timeout_ms: int = 30_000) -> None:
        """Send a produce request, and note it."""
        values = tuple(b"%d" % next(self.numbers) for _ in range(count))
        topic_id = node.replicas.replicas[KEY].topic_id
        reply = self.harness.produce(node.node_id, *values, acks=acks, timeout_ms=timeout_ms)
        self.requests.append(Request(reply, node, topic_id, values, acks))

    @rule(node=NODES)
    def move_leader(self, node: int) -> None:
        """Move the leader; only a live in-sync replica is accepted."""

        async def step() -> None:
            may = node in self.harness.isr & self.cluster.controller.alive
            try:
                self.cluster.move_leader(*KEY, node)
            except ControllerError:
                assert not may
            else:
                assert may

        self.run(step())

    @precondition(
        lambda self: (
            len(self.cluster.controller.alive) == 3
            and len(self.requests) >= 10 * (self.generation + 1)
        )
    )
    @rule()
    def recreate_topic(self) -> None:
        """Delete the topic, and create another with the same name."""

        async def step() -> None:
            self.cluster.controller.topic_changes.delete(KEY.topic)
            self.cluster.create_topic(KEY.topic, replication_factor=3)

        self.run(step())
        self.generation += 1
        self.seen.clear()

    # -- what holds at any time

    @invariant()
    def check_cluster(self) -> None:
        """Check every invariant of the logs, replicas and purgatories."""
        self.run(self.do(self.cluster.check))
        assert not self.failures, self.failures

    @invariant()
    def check_single_replies(self) -> None:
        """Check that no request got two replies."""
        for request in self.requests:
            assert request.reply.count <= 1, request

    @invariant()
    def check_stable_reads(self) -> None:
        """Check that every leader serves consumers the records that they read before."""
        topic = self.cluster.controller.topics.get(KEY.topic)
        for node in self.leading():
            replica = node.replicas.replicas[KEY]
            if topic is None or replica.topic_id != topic.topic_id:
                continue
            for record in replica.log.records():
                if record.offset < replica.high_watermark:
                    assert self.seen.setdefault(record.offset, record.value) == record.value, (
                        record.offset,
                        node.node_id,
                    )

    # -- the end

    def teardown(self) -> None:
        """Heal every fault, and check that no acknowledged record is missing."""
        try:
            if self.cluster.nodes[0].purgatories:
                self.run(self.heal())
                self.check_stable_reads()
                self.check_replicas_agree()
                self.run(self.cluster.__aexit__(None, None, None))
        finally:
            self.runner.close()

    async def heal(self) -> None:
        """Undo every fault, and check that a write succeeds."""
        await self.undo_faults()
        await asyncio.sleep(40)
        # Every eligible leader is alive, so the partition accepts writes.
        last = self.harness.produce(self.harness.leader, b"last")
        await asyncio.sleep(5)
        assert last.done
        assert error(await last.get()) is ErrorCode.NONE

    def check_replicas_agree(self) -> None:
        """Check that all replicas agree, and have every acknowledged record once."""
        self.check_cluster()
        state = self.harness.state()
        assert set(state["isr"]) == {0, 1, 2}, state
        topic_id = self.cluster.controller.topics[KEY.topic].topic_id
        logs = [self.harness.log(node) for node in range(3)]
        assert len({log.end_offset for log in logs}) == 1, [log.end_offset for log in logs]
        assert {replica.high_watermark for replica in map(self.harness.replica, range(3))} == {
            logs[0].end_offset
        }
        # A partitioned leader may have deleted records that the other replicas still have.
        start = max(log.log_start_offset for log in logs)
        assert len({b"".join(bytes(batch) for _, batch in log.batches(start)) for log in logs}) == 1
        stored = {record.offset: record.value for record in logs[state["leader"]].records()}
        assert len(set(stored.values())) == len(stored), "a record is there twice"
        start = logs[state["leader"]].log_start_offset
        for offset, value in self.seen.items():
            assert offset < start or stored.get(offset) == value, (offset, value)
        for request in self.requests:
            reply = request.reply
            # A killed node sends no replies.
            assert (
                reply.count == 1 or request.node is not self.cluster.nodes[request.node.node_id]
            ), request
            if (
                request.topic_id != topic_id
                or not request.values
                or not reply.done
                or request.acks != ALL
            ):
                continue
            produced = reply.value[0] if reply.value else None
            assert isinstance(produced, ProducedPartition)
            if produced.error is ErrorCode.NONE:
                offsets = range(produced.base_offset, produced.base_offset + len(request.values))
                found = tuple(stored.get(offset) for offset in offsets if offset >= start)
                assert found == request.values[len(request.values) - len(found) :], (request, found)
        for node in self.cluster.nodes:
            for name, purgatory in node.purgatories.items():
                parked = 2 if name == "Fetch" and node.node_id == state["leader"] else 0
                assert purgatory.num_delayed == parked, (node.node_id, name, purgatory.num_delayed)


Replication.TestCase.settings = examples(40, stateful_step_count=50)
TestReplication = Replication.TestCase
