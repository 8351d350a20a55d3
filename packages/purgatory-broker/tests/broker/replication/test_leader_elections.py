"""ElectLeaders requests wait until the node that was asked knows the leaders."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker import apis
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    handle_request,
    run_scenario,
)

_LATENCY_MS = 300
_FIELDS = {"election_type": 0, "topic_partitions": [{"topic": "orders", "partitions": [0]}]}


async def _move_leader_away(harness: ClusterHarness) -> int:
    """Let another replica than the preferred one lead; return the preferred one."""
    partition = harness.cluster.controller.topics["orders"].partitions[0]
    preferred = partition.replicas[0]
    harness.cluster.move_leader("orders", 0, partition.replicas[1])
    await harness.settle()
    return preferred


def test_election_is_answered_when_the_node_knows_the_leader() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        preferred = await _move_leader_away(harness)
        asked = next(node for node in range(3) if node != preferred)
        harness.cluster.set_latency(asked, _LATENCY_MS)
        reply, _ = handle_request(
            harness, asked, apis.ELECT_LEADERS, 2, timeout_ms=10_000, **_FIELDS
        )
        assert harness.node(asked).purgatories["ElectLeader"].num_delayed == 1
        assert not reply.done
        response = await reply.get()
        assert response.replica_election_results[0].partition_result[0].error_code == ErrorCode.NONE
        assert reply.waited_ms == _LATENCY_MS
        assert harness.node(asked).purgatories["ElectLeader"].num_delayed == 0
        assert harness.cluster.controller.topics["orders"].partitions[0].leader == preferred

    run_scenario(scenario)


def test_election_times_out() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        preferred = await _move_leader_away(harness)
        asked = next(node for node in range(3) if node != preferred)
        harness.cluster.set_latency(asked, _LATENCY_MS)
        reply, _ = handle_request(harness, asked, apis.ELECT_LEADERS, 2, timeout_ms=100, **_FIELDS)
        result = (await reply.get()).replica_election_results[0].partition_result[0]
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
        assert harness.cluster.controller.topics["orders"].partitions[0].leader == preferred

    run_scenario(scenario)


def test_partitioned_node_elects_nothing() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(2)
        reply, _ = handle_request(harness, 2, apis.ELECT_LEADERS, 2, timeout_ms=100, **_FIELDS)
        assert (await reply.get()).error_code == ErrorCode.REQUEST_TIMED_OUT

    run_scenario(scenario)
