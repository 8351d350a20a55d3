"""A stateful test of reassignments under random faults.

The partition ends on the replicas that were wanted last, and no acknowledged record is lost.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from purgatory_broker.metadata.reassignment import Reassignment
from tests.broker.replication.cluster_harness import KEY
from tests.broker.replication.test_replication_model import Replication
from tests.support.profiles import examples

REPLICAS = st.permutations([0, 1, 2]).flatmap(
    lambda nodes: st.integers(1, 3).map(lambda count: nodes[:count])
)


class ReassignedReplication(Replication):
    """The cluster of `Replication`, whose partition is reassigned again and again."""

    def __init__(self) -> None:
        super().__init__()
        #: The replicas that were wanted last.
        self.wanted = [0, 1, 2]

    def reassign_now(self, replicas: list[int] | None) -> bool:
        """Begin or cancel a reassignment; return whether it was accepted."""
        controller = self.cluster.controller
        (refusal,) = controller.reassignments.alter([Reassignment(KEY, replicas)])
        return refusal is None

    @rule(replicas=REPLICAS)
    def reassign(self, replicas: list[int]) -> None:
        """Reassign the partition, whether or not it is being reassigned."""

        async def step() -> None:
            assert self.reassign_now(replicas)

        self.run(step())
        self.wanted = replicas

    @rule()
    def cancel(self) -> None:
        """Cancel the reassignment, if there is one."""

        async def step() -> None:
            partition = self.cluster.controller.partition(KEY)
            assert partition is not None
            expected = [node for node in partition.replicas if node not in partition.adding]
            was_reassigned = partition.is_reassigned
            is_clean = any(node in expected for node in partition.isr)
            assert self.reassign_now(None) == (was_reassigned and is_clean)
            if was_reassigned and is_clean:
                self.wanted = expected
                assert (partition.replicas, partition.is_reassigned) == (expected, False)

        self.run(step())

    @precondition(
        lambda self: (
            len(self.cluster.controller.alive) == 3
            and len(self.requests) >= 10 * (self.generation + 1)
        )
    )
    @rule()
    def recreate_topic(self) -> None:
        """Delete the topic, and create another with the same name on all nodes."""
        super().recreate_topic()
        partition = self.cluster.controller.partition(KEY)
        assert partition is not None
        self.wanted = list(partition.replicas)

    async def heal(self) -> None:
        """Undo every fault, see the last reassignment end, and move to all nodes."""
        await super().heal()
        partition = self.cluster.controller.partition(KEY)
        assert partition is not None
        assert partition.replicas == self.wanted, (partition, self.wanted)
        assert not partition.is_reassigned, partition
        hosts = {node.node_id for node in self.cluster.nodes if node.replicas.find(KEY) is not None}
        assert hosts == set(self.wanted)
        assert self.reassign_now([0, 1, 2])
        await self.harness.until(lambda: self.harness.isr == {0, 1, 2})
        # Until the followers have learned the high watermark, and wait at the leader again.
        await self.harness.until(lambda: self._is_quiet())

    def _is_quiet(self) -> bool:
        replicas = [self.harness.replica(node) for node in range(3)]
        leader = self.harness.node(self.harness.leader)
        return (
            len({each.high_watermark for each in replicas}) == 1
            and leader.purgatories["Fetch"].num_delayed == 2
        )


ReassignedReplication.TestCase.settings = examples(40, stateful_step_count=50)
TestReassignedReplication = ReassignedReplication.TestCase
