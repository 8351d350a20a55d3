"""DescribeQuorum describes the controller as the quorum of the metadata."""

from __future__ import annotations

from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker import apis
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    handle_request,
    run_scenario,
)


async def describe(
    harness: ClusterHarness, node: int, topic: str = "__cluster_metadata", version: int = 2
) -> Any:
    """Return the response of a node."""
    topics = [{"topic_name": topic, "partitions": [{"partition_index": 0}]}]
    reply, _ = handle_request(harness, node, apis.DESCRIBE_QUORUM, version, topics=topics)
    return await reply.get()


def test_quorum_is_described() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for version in range(3):
            response = await describe(harness, 1, version=version)
            quorum = response.topics[0].partitions[0]
            assert (response.error_code, quorum.error_code) == (0, 0)
            assert quorum.leader_id == 0
            assert [each.replica_id for each in quorum.current_voters] == [0, 1, 2]
            assert quorum.observers == []
            assert {each.log_end_offset for each in quorum.current_voters} == {
                quorum.high_watermark
            }
        assert [each.node_id for each in response.nodes] == [0, 1, 2]
        before = quorum.high_watermark
        harness.cluster.create_topic("more")
        quorum = (await describe(harness, 1)).topics[0].partitions[0]
        assert quorum.high_watermark > before

    run_scenario(scenario)


def test_another_controller_begins_an_epoch() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        before = (await describe(harness, 1)).topics[0].partitions[0]
        harness.cluster.kill(0)
        after = (await describe(harness, 1)).topics[0].partitions[0]
        assert after.leader_id == 1
        assert after.leader_epoch == before.leader_epoch + 1
        assert after.current_voters[0].log_end_offset == -1
        assert after.current_voters[0].last_fetch_timestamp == -1
        await harness.cluster.restart(0)

    run_scenario(scenario)


def test_other_topics_have_no_quorum() -> None:
    """As in Kafka."""

    async def scenario(harness: ClusterHarness) -> None:
        response = await describe(harness, 0, "orders")
        assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        harness.cluster.partition_node(2)
        assert (await describe(harness, 2)).error_code == ErrorCode.REQUEST_TIMED_OUT

    run_scenario(scenario)
