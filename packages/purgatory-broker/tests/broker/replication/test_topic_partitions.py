"""DescribeTopicPartitions describes topics in pages."""

from __future__ import annotations

from typing import Any

from tests.broker import apis
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    handle_request,
    run_scenario,
)


async def _describe(harness: ClusterHarness, *names: str, **fields: Any) -> Any:
    topics = [{"name": name} for name in names]
    reply, _ = handle_request(
        harness, 0, apis.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, **fields
    )
    return await reply.get()


def test_a_response_has_at_most_the_partitions_of_the_setting() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("paged", partitions=7)
        found: list[int] = []
        cursor: dict[str, Any] | None = None
        sizes = []
        while not sizes or cursor is not None:
            page = await _describe(harness, "paged", response_partition_limit=2_000, cursor=cursor)
            (topic,) = page.topics
            sizes.append(len(topic.partitions))
            found += [each.partition_index for each in topic.partitions]
            following = page.next_cursor
            cursor = following and {
                "topic_name": following.topic_name,
                "partition_index": following.partition_index,
            }
        assert sizes == [3, 3, 1]
        assert found == list(range(7))

    run_scenario(scenario, max_request_partition_size_limit=3)


def test_replicas_of_a_dead_node_are_offline() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("paged")
        harness.cluster.kill(2)
        (topic,) = (await _describe(harness, "paged", response_partition_limit=1)).topics
        (partition,) = topic.partitions
        assert sorted(partition.replica_nodes) == [0, 1, 2]
        assert partition.offline_replicas == [2]
        assert (partition.eligible_leader_replicas, partition.last_known_elr) == ([], [])

    run_scenario(scenario)
