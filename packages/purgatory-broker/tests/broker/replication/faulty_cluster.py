"""The faults of the stateful tests of whole clusters: nodes that die, are cut off or are slow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.settings import ClusterSettings
from tests.broker.replication.cluster_harness import ClusterHarness
from tests.unit.aio.virtual import VirtualLoop

T = TypeVar("T")

NODES = st.integers(0, 2)
LATENCIES_MS = st.sampled_from([0, 0, 1, 30, 300, 1_200])
PAUSES_MS = st.sampled_from([0, 1, 7, 45, 260, 700, 1_600, 4_000, 12_000])


class FaultyCluster(RuleBasedStateMachine):
    """Three nodes in virtual time, with min.insync.replicas=2 and without unclean elections."""

    def __init__(
        self, wall_ms: Callable[[asyncio.AbstractEventLoop], int], **settings: int
    ) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.loop = self.runner.get_loop()
        self.failures: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _loop, context: self.failures.append(context))
        self.cluster = AsyncCluster(
            ClusterSettings(
                nodes=3,
                min_insync_replicas=2,
                replica_lag_time_max_ms=6_000,
                broker_session_timeout_ms=2_000,
                **settings,  # type: ignore[arg-type]
            ),
            wall_ms=lambda: wall_ms(self.loop),
        )
        self.harness = ClusterHarness(self.cluster)

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step on the cluster's loop."""
        return self.runner.run(step)

    async def do(self, change: Callable[[], object]) -> None:
        """Make a change on the loop."""
        change()

    @rule(node=NODES, latency_ms=LATENCIES_MS)
    def set_latency(self, node: int, latency_ms: int) -> None:
        """Change the latency of a node's messages."""
        self.run(self.do(lambda: self.cluster.set_latency(node, latency_ms)))

    def down(self) -> set[int]:
        """Return the nodes that are stopped or partitioned."""
        return {
            node.node_id for node in self.cluster.nodes if node.is_stopped
        } | self.cluster.network.partitioned_nodes

    @rule(node=NODES, even_if_others_are_down=st.sampled_from([False, False, False, True]))
    def partition_node(self, node: int, even_if_others_are_down: bool) -> None:
        """Cut a node off from the others and the controller."""
        if even_if_others_are_down or not self.down():
            self.run(self.do(lambda: self.cluster.partition_node(node)))

    @rule(node=NODES, even_if_others_are_down=st.sampled_from([False, False, False, True]))
    def kill(self, node: int, even_if_others_are_down: bool) -> None:
        """Kill a node."""
        if even_if_others_are_down or not self.down():
            self.run(self.do(lambda: self.cluster.kill(node)))

    @precondition(lambda self: self.down())
    @rule(data=st.data())
    def bring_back(self, data: st.DataObject) -> None:
        """Restart a node, or heal it, or both in either order."""
        node = data.draw(st.sampled_from(sorted(self.down())), "node")

        async def step() -> None:
            if data.draw(st.booleans(), "healed first"):
                self.cluster.heal_node(node)
            if self.cluster.nodes[node].is_stopped:
                await self.cluster.restart(node)
            elif data.draw(st.booleans(), "healed"):
                self.cluster.heal_node(node)

        self.run(step())

    @rule(time_ms=PAUSES_MS)
    def wait(self, time_ms: int) -> None:
        """Let time pass."""
        self.run(asyncio.sleep(time_ms / 1_000))

    async def undo_faults(self) -> None:
        for node in range(3):
            self.cluster.resume_replication(node)
            self.cluster.set_latency(node, 0)
            self.cluster.heal_node(node)
            if self.cluster.nodes[node].is_stopped:
                await self.cluster.restart(node)
