"""A cluster under random faults.

Whatever happens, what was acknowledged is there in the end, everywhere, once.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from request_purgatory.broker.cluster.async_cluster import AsyncCluster, ControllerError
from request_purgatory.broker.cluster.node import Node
from request_purgatory.broker.replication.delayed_delete_records import DeletedPartition
from request_purgatory.broker.replication.delayed_produce import ProducedPartition
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import NOW
from tests.broker.replication.scene import ALL, KEY, Answer, Scene, error
from tests.support.profiles import examples
from tests.unit.aio.virtual import VirtualLoop

T = TypeVar("T")

NODES = st.integers(0, 2)
LAGS_MS = st.sampled_from([0, 0, 1, 30, 300, 1_200])
PASSING_MS = st.sampled_from([0, 1, 7, 45, 260, 700, 1_600, 4_000, 12_000])


@dataclass
class Request:
    """A request, and to whom it went."""

    answer: Answer[list[ProducedPartition]] | Answer[list[DeletedPartition]]
    node: Node
    #: Of the topic that it went to, which may have been deleted when the node had not heard of it.
    topic_id: uuid.UUID
    values: tuple[bytes, ...] = ()
    acks: int = ALL


class Replication(RuleBasedStateMachine):
    """Three nodes, one partition, min.insync.replicas=2, elections clean.

    Nothing that a consumer saw may ever change.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.failures: list[dict[str, Any]] = []
        self.runner.get_loop().set_exception_handler(
            lambda _loop, context: self.failures.append(context)
        )
        self.cluster = AsyncCluster(
            ClusterSettings(
                nodes=3,
                min_insync_replicas=2,
                replica_lag_time_max_ms=6_000,
                broker_session_timeout_ms=2_000,
            ),
            wall_ms=lambda: NOW,
        )
        self.scene = Scene(self.cluster)
        self.numbers = itertools.count()
        self.requests: list[Request] = []
        self.generation = 0
        #: What consumers were shown, by offset.
        self.seen: dict[int, bytes | None] = {}

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step on the cluster's loop."""
        return self.runner.run(step)

    @initialize()
    def begin(self) -> None:
        """Three nodes that have a partition."""

        async def step() -> None:
            await self.cluster.__aenter__()
            await self.scene.open()

        self.run(step())

    def leading(self) -> list[Node]:
        """The nodes that take themselves for the leader."""
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
        """To a leader, or to one that has not heard yet that it is no longer.

        And again after a pause.
        """
        node = data.draw(st.sampled_from(self.leading()), "node")

        async def step() -> None:
            for count in requests:
                self.send(node, acks, count, timeout_ms)
                await asyncio.sleep(pause_ms / 1_000)

        self.run(step())

    @precondition(lambda self: self.leading())
    @rule(data=st.data(), share=st.sampled_from([0.3, 0.7, 1.0]))
    def delete_records(self, data: st.DataObject, share: float) -> None:
        """What is before some offset up to the high watermark."""
        node = data.draw(st.sampled_from(self.leading()), "node")

        async def step() -> None:
            replica = node.replicas.replicas[KEY]
            answer = self.scene.delete(
                node.node_id, int(replica.high_watermark * share), timeout_ms=5_000
            )
            self.requests.append(Request(answer, node, replica.topic_id))

        self.run(step())

    # -- faults

    @rule(node=NODES)
    def freeze(self, node: int) -> None:
        """A follower fetches no more."""
        self.run(self.do(lambda: self.cluster.freeze(node)))

    @rule(node=NODES)
    def thaw(self, node: int) -> None:
        """A follower fetches again."""
        self.run(self.do(lambda: self.cluster.thaw(node)))

    @rule(node=NODES, lag_ms=LAGS_MS)
    def lag(self, node: int, lag_ms: int) -> None:
        """Messages take so long from now on."""
        self.run(self.do(lambda: self.cluster.lag(node, lag_ms)))

    def down(self) -> set[int]:
        """The nodes that are killed or cut off."""
        return {
            node.node_id for node in self.cluster.nodes if node.is_stopped
        } | self.cluster.network.cut

    @rule(node=NODES, even_if_others_are=st.sampled_from([False, False, False, True]))
    def cut_off(self, node: int, even_if_others_are: bool) -> None:
        """A node hears nothing any more."""
        if even_if_others_are or not self.down():
            self.run(self.do(lambda: self.cluster.cut_off(node)))

    @rule(node=NODES, even_if_others_are=st.sampled_from([False, False, False, True]))
    def kill(self, node: int, even_if_others_are: bool) -> None:
        """A node is gone at once."""
        if even_if_others_are or not self.down():
            self.run(self.do(lambda: self.cluster.kill(node)))

    @precondition(lambda self: self.down())
    @rule(data=st.data())
    def bring_back(self, data: st.DataObject) -> None:
        """A node runs, or hears from all again, or both."""
        node = data.draw(st.sampled_from(sorted(self.down())), "node")

        async def step() -> None:
            if data.draw(st.booleans(), "reconnected first"):
                self.cluster.reconnect(node)
            if self.cluster.nodes[node].is_stopped:
                await self.cluster.restart(node)
            elif data.draw(st.booleans(), "reconnected"):
                self.cluster.reconnect(node)

        self.run(step())

    @precondition(lambda self: not self.down() and self.leading())
    @rule(
        alone=st.integers(0, 3),
        others=st.integers(0, 3),
        cut=st.booleans(),
        fenced_ms=st.sampled_from([2_100, 1_000, 5_000]),
    )
    def depose(self, alone: int, others: int, cut: bool, fenced_ms: int) -> None:
        """A leader goes, with records that nobody else has, and comes back when another has led."""

        async def step() -> None:
            old = self.scene.leader
            if old < 0 or self.scene.node(old) not in self.leading():
                return
            if cut:
                self.cluster.cut_off(old)
            for _ in range(alone):
                self.send(self.scene.node(old), 1)
            if not cut:
                self.cluster.kill(old)
            await asyncio.sleep(fenced_ms / 1_000)
            for _ in range(others):
                for node in self.leading():
                    self.send(node, ALL)
            await asyncio.sleep(0.1)
            self.cluster.reconnect(old)
            if self.scene.node(old).is_stopped:
                await self.cluster.restart(old)

        self.run(step())

    def send(self, node: Node, acks: int, count: int = 1, timeout_ms: int = 30_000) -> None:
        """A produce request."""
        values = tuple(b"%d" % next(self.numbers) for _ in range(count))
        topic_id = node.replicas.replicas[KEY].topic_id
        answer = self.scene.produce(node.node_id, *values, acks=acks, timeout_ms=timeout_ms)
        self.requests.append(Request(answer, node, topic_id, values, acks))

    @rule(node=NODES)
    def move_leader(self, node: int) -> None:
        """Another leader, if it may lead."""

        async def step() -> None:
            may = node in self.scene.isr & self.cluster.controller.alive
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
    def make_anew(self) -> None:
        """The topic is deleted, and made again with the same name.

        Nothing of the old one may come back.
        """

        async def step() -> None:
            self.cluster.controller.delete_topic(KEY.topic)
            self.cluster.create_topic(KEY.topic, replication_factor=3)

        self.run(step())
        self.generation += 1
        self.seen.clear()

    @rule(time_ms=PASSING_MS)
    def wait(self, time_ms: int) -> None:
        """Time passes."""
        self.run(asyncio.sleep(time_ms / 1_000))

    async def do(self, change: Any) -> None:
        """A change, on the loop."""
        change()

    # -- what holds at any time

    @invariant()
    def whole(self) -> None:
        """Of every log, replica and purgatory."""
        self.run(self.do(self.cluster.check))
        assert not self.failures, self.failures

    @invariant()
    def answers(self) -> None:
        """No request is answered twice."""
        for request in self.requests:
            assert request.answer.count <= 1, request

    @invariant()
    def consumers(self) -> None:
        """What a consumer reads, of whoever takes itself for the leader, is what consumers read there before."""
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
        """Everything is healed: all that was promised is there."""
        try:
            if self.cluster.nodes[0].purgatories:
                self.run(self.heal())
                self.consumers()
                self.promises()
                self.run(self.cluster.__aexit__(None, None, None))
        finally:
            self.runner.close()

    async def heal(self) -> None:
        for node in range(3):
            self.cluster.thaw(node)
            self.cluster.lag(node, 0)
            self.cluster.reconnect(node)
            if self.cluster.nodes[node].is_stopped:
                await self.cluster.restart(node)
        await asyncio.sleep(40)
        # Whoever may lead is alive: the partition can be written to, and all take part.
        last = self.scene.produce(self.scene.leader, b"last")
        await asyncio.sleep(5)
        assert last.done
        assert error(await last.get()) is ErrorCode.NONE

    def promises(self) -> None:
        """What is true once all is well again."""
        self.whole()
        state = self.scene.state()
        assert set(state["isr"]) == {0, 1, 2}, state
        topic_id = self.cluster.controller.topics[KEY.topic].topic_id
        logs = [self.scene.log(node) for node in range(3)]
        assert len({log.end_offset for log in logs}) == 1, [log.end_offset for log in logs]
        assert {replica.high_watermark for replica in map(self.scene.replica, range(3))} == {
            logs[0].end_offset
        }
        # A leader that was cut off may have deleted records when the others had not heard of it: it
        # goes on without them.
        start = max(log.log_start_offset for log in logs)
        assert len({b"".join(bytes(batch) for _, batch in log.batches(start)) for log in logs}) == 1
        stored = {record.offset: record.value for record in logs[state["leader"]].records()}
        assert len(set(stored.values())) == len(stored), "a record is there twice"
        start = logs[state["leader"]].log_start_offset
        for offset, value in self.seen.items():
            assert offset < start or stored.get(offset) == value, (offset, value)
        for request in self.requests:
            answer = request.answer
            # A node that was killed answers nobody.
            assert (
                answer.count == 1 or request.node is not self.cluster.nodes[request.node.node_id]
            ), request
            if (
                request.topic_id != topic_id
                or not request.values
                or not answer.done
                or request.acks != ALL
            ):
                continue
            produced = answer.value[0] if answer.value else None
            assert isinstance(produced, ProducedPartition)
            if produced.error is ErrorCode.NONE:
                offsets = range(produced.base_offset, produced.base_offset + len(request.values))
                found = tuple(stored.get(offset) for offset in offsets if offset >= start)
                assert found == request.values[len(request.values) - len(found) :], (request, found)
        for node in self.cluster.nodes:
            for name, purgatory in node.purgatories.items():
                parked = 2 if name == "Fetch" and node.node_id == state["leader"] else 0
                assert purgatory.num_delayed == parked, (node.node_id, name, purgatory.num_delayed)


Replication.TestCase.settings = examples(150, stateful_step_count=50)
TestReplication = Replication.TestCase
