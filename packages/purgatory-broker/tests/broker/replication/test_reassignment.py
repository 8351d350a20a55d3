"""Reassignments move the replicas of a partition to other nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, Partition, TopicPartition
from tests.broker import apis
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    Reply,
    error,
    handle_request,
    run_scenario,
)

MOVED = TopicPartition("moved", 0)


async def create(harness: ClusterHarness, *nodes: int, **configs: str) -> None:
    """Create the topic `moved` with one partition on some nodes."""
    harness.cluster.controller.topic_changes.create(
        MOVED.topic, assignment={0: list(nodes)}, configs=dict(configs)
    )
    await harness.settle()


def partition(harness: ClusterHarness, key: TopicPartition = MOVED) -> Partition:
    """Return the controller's state of the partition."""
    found = harness.cluster.controller.partition(key)
    assert found is not None
    return found


async def reassign(
    harness: ClusterHarness,
    replicas: list[int] | None,
    *,
    key: TopicPartition = MOVED,
    node: int = 0,
    version: int = 0,
    **fields: Any,
) -> ErrorCode:
    """Ask a node for a reassignment, and return the error of the partition."""
    wanted = {"partition_index": key.partition, "replicas": replicas}
    reply, _ = handle_request(
        harness,
        node,
        apis.ALTER_PARTITION_REASSIGNMENTS,
        version,
        timeout_ms=1_000,
        topics=[{"name": key.topic, "partitions": [wanted]}],
        **fields,
    )
    return ErrorCode((await reply.get()).responses[0].partitions[0].error_code)


async def listed(harness: ClusterHarness, topics: Any = None) -> dict[TopicPartition, Any]:
    """Return the replicas, adding and removing ones of what ListPartitionReassignments lists."""
    reply: Reply[Any]
    reply, _ = handle_request(
        harness, 0, apis.LIST_PARTITION_REASSIGNMENTS, 0, timeout_ms=1_000, topics=topics
    )
    return {
        TopicPartition(topic.name, each.partition_index): (
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for topic in (await reply.get()).topics
        for each in topic.partitions
    }


def hosts(harness: ClusterHarness, key: TopicPartition = MOVED) -> set[int]:
    """Return the nodes that have a replica."""
    return {node for node in range(3) if harness.node(node).replicas.find(key) is not None}


def test_partition_is_moved_with_its_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        assert error(await harness.produce(0, b"a", b"b", key=MOVED).get()) is ErrorCode.NONE
        harness.cluster.pause_replication(2)
        epoch = partition(harness).leader_epoch
        assert await reassign(harness, [2, 1]) is ErrorCode.NONE
        assert await listed(harness) == {MOVED: ([2, 1, 0], [2], [0])}
        assert (partition(harness).leader, partition(harness).isr) == (0, [0, 1])
        assert partition(harness).leader_epoch == epoch, "clients are not disturbed yet"
        assert error(await harness.produce(0, b"c", key=MOVED).get()) is ErrorCode.NONE
        harness.cluster.resume_replication(2)
        await harness.until(lambda: not partition(harness).is_reassigned)
        assert await listed(harness) == {}
        assert partition(harness).replicas == [2, 1]
        assert sorted(partition(harness).isr) == [1, 2]
        assert partition(harness).leader == 2, "the old leader is gone"
        await harness.settle()
        assert hosts(harness) == {1, 2}
        refused = await harness.produce(0, b"lost", key=MOVED).get()
        assert error(refused) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error(await harness.produce(2, b"d", key=MOVED).get()) is ErrorCode.NONE
        await harness.until(
            lambda: (
                [each.value for each in harness.log(1, MOVED).records()] == [b"a", b"b", b"c", b"d"]
            )
        )

    run_scenario(scenario)


def test_leader_stays_in_a_new_epoch_if_it_is_not_removed() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        epoch = partition(harness).leader_epoch
        assert await reassign(harness, [0, 2]) is ErrorCode.NONE
        await harness.until(lambda: not partition(harness).is_reassigned)
        assert (partition(harness).leader, partition(harness).replicas) == (0, [0, 2])
        assert partition(harness).leader_epoch > epoch
        await harness.settle()
        assert set(harness.replica(0, MOVED).followers) == {2}
        assert error(await harness.produce(0, b"a", key=MOVED).get()) is ErrorCode.NONE

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("replicas", "leader"), [([1, 0], 0), ([0], 0), ([1], 1)], ids=["order", "fewer", "the other"]
)
def test_reassignment_to_replicas_in_sync_is_complete_at_once(
    replicas: list[int], leader: int
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        assert await reassign(harness, replicas) is ErrorCode.NONE
        state = partition(harness)
        assert (state.replicas, state.is_reassigned, state.leader) == (replicas, False, leader)
        await harness.settle()
        assert hosts(harness) == set(replicas)
        assert error(await harness.produce(leader, b"a", key=MOVED).get()) is ErrorCode.NONE

    run_scenario(scenario)


def test_cancelled_reassignment_leaves_the_partition_as_it_was() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        await harness.produce(0, b"a", key=MOVED).get()
        harness.cluster.pause_replication(2)
        assert await reassign(harness, [2]) is ErrorCode.NONE
        await harness.settle()
        assert hosts(harness) == {0, 1, 2}
        assert await reassign(harness, None) is ErrorCode.NONE
        state = partition(harness)
        assert (state.replicas, state.is_reassigned, state.leader) == ([0, 1], False, 0)
        await harness.settle()
        assert hosts(harness) == {0, 1}
        assert await reassign(harness, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        harness.cluster.resume_replication(2)
        assert error(await harness.produce(0, b"b", key=MOVED).get()) is ErrorCode.NONE

    run_scenario(scenario)


def test_another_reassignment_replaces_the_present_one() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        harness.cluster.pause_replication(2)
        assert await reassign(harness, [2, 1]) is ErrorCode.NONE
        assert await reassign(harness, [1, 0, 2]) is ErrorCode.NONE
        assert await listed(harness) == {MOVED: ([1, 0, 2], [2], [])}
        assert await reassign(harness, [1, 0]) is ErrorCode.NONE
        assert (partition(harness).replicas, partition(harness).is_reassigned) == ([1, 0], False)
        await harness.settle()
        assert hosts(harness) == {0, 1}

    run_scenario(scenario)


def test_invalid_reassignments_are_refused() -> None:
    """With Kafka's error codes; the partition stays as it is."""

    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        before = partition(harness).copy()
        for replicas in ([], [0, 0], [7], [-1, 0]):
            refused = await reassign(harness, replicas)
            assert refused is ErrorCode.INVALID_REPLICA_ASSIGNMENT, replicas
        for key in (TopicPartition("none", 0), TopicPartition("moved", 1)):
            assert await reassign(harness, [1], key=key) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        fixed = {"version": 1, "allow_replication_factor_change": False}
        assert await reassign(harness, [1], **fixed) is ErrorCode.INVALID_REPLICATION_FACTOR
        assert partition(harness) == before
        assert await reassign(harness, [1, 0], **fixed) is ErrorCode.NONE

    run_scenario(scenario)


def test_partitioned_node_reassigns_nothing() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        harness.cluster.partition_node(2)
        assert await reassign(harness, [1], node=2) is ErrorCode.REQUEST_TIMED_OUT
        assert partition(harness).replicas == [0, 1]

    run_scenario(scenario)


def test_only_reassigned_partitions_of_the_given_ones_are_listed() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        harness.cluster.pause_replication(2)
        await reassign(harness, [2])
        wanted = [{"name": "orders", "partition_indexes": [0]}]
        assert await listed(harness, wanted) == {}
        wanted += [{"name": "moved", "partition_indexes": [0, 0, 5]}]
        wanted += [{"name": "none", "partition_indexes": [0]}]
        assert set(await listed(harness, wanted)) == {MOVED}

    run_scenario(scenario)


def test_request_at_the_removed_leader_is_answered() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        harness.cluster.set_latency(1, 200)
        reply = harness.produce(0, b"a", key=MOVED)
        assert not reply.done
        assert await reassign(harness, [1]) is ErrorCode.NONE
        assert error(await reply.get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert hosts(harness) == {1}

    run_scenario(scenario)


def test_removed_node_that_was_out_of_reach_deletes_its_replica() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        harness.cluster.partition_node(0)
        await harness.until(lambda: partition(harness).leader == 1)
        waiting = harness.produce(0, b"a", key=MOVED)
        assert await reassign(harness, [1, 2], node=1) is ErrorCode.NONE
        await harness.until(lambda: not partition(harness).is_reassigned)
        assert hosts(harness) == {0, 1, 2}
        harness.cluster.heal_node(0)
        await harness.settle()
        assert hosts(harness) == {1, 2}
        assert error(await waiting.get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    run_scenario(scenario)


def test_reassignment_waits_for_a_dead_node() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        harness.cluster.kill(2)
        assert await reassign(harness, [2, 0]) is ErrorCode.NONE
        await asyncio.sleep(60)
        assert partition(harness).is_reassigned
        await harness.cluster.restart(2)
        await harness.until(lambda: not partition(harness).is_reassigned)
        assert partition(harness).replicas == [2, 0]

    run_scenario(scenario)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_reassignment_goes_on_after_a_restart_of_the_cluster(tmp_path: Path, end: str) -> None:
    async def before(harness: ClusterHarness) -> None:
        await create(harness, 0, 1)
        assert error(await harness.produce(0, b"a", key=MOVED).get()) is ErrorCode.NONE
        harness.cluster.pause_replication(2)
        assert await reassign(harness, [2, 1]) is ErrorCode.NONE
        await harness.settle()
        finish: Callable[[int], None] = getattr(harness.cluster, end)
        for node in range(3):
            finish(node)

    async def after(harness: ClusterHarness) -> None:
        assert await listed(harness) == {MOVED: ([2, 1, 0], [2], [0])}
        await harness.until(lambda: not partition(harness).is_reassigned)
        await harness.settle()
        assert (partition(harness).replicas, hosts(harness)) == ([2, 1], {1, 2})
        assert [each.value for each in harness.log(2, MOVED).records()] == [b"a"]
        assert not (tmp_path / "node-0" / "moved-0").exists()

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_unclean_cancellation_is_refused() -> None:
    """Only the added replica is in sync, and the records would be lost."""

    async def scenario(harness: ClusterHarness) -> None:
        await create(harness, 0)
        await harness.produce(0, b"a", key=MOVED).get()
        # 2 is missing, so that the reassignment stays in progress.
        harness.cluster.kill(2)
        assert await reassign(harness, [1, 2]) is ErrorCode.NONE
        await harness.until(lambda: set(partition(harness).isr) == {0, 1})
        harness.cluster.kill(0)
        await harness.until(lambda: partition(harness).isr == [1])
        refused = await reassign(harness, None, node=1)
        assert refused is ErrorCode.INVALID_REPLICA_ASSIGNMENT
        configs = {"unclean.leader.election.enable": "true"}
        harness.cluster.controller.topic_changes.alter_configs(MOVED.topic, configs)
        assert await reassign(harness, None, node=1) is ErrorCode.NONE
        assert (partition(harness).replicas, partition(harness).leader) == ([0], -1)
        await harness.cluster.restart(0)
        await harness.until(lambda: partition(harness).leader == 0)
        await harness.cluster.restart(2)

    run_scenario(scenario)


def test_groups_move_with_the_offsets_topic() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_offsets_topic()
        await harness.settle()
        fields: dict[str, Any] = {"group_id": "readers", "generation_id_or_member_epoch": -1}
        offsets = [{"partition_index": 0, "committed_offset": 7}]
        fields["topics"] = [{"name": "orders", "partitions": offsets}]
        key = TopicPartition(OFFSETS_TOPIC, harness.node(0).groups.partition_for("readers"))
        old = partition(harness, key).leader
        new = (old + 1) % 3
        reply, _ = handle_request(harness, old, apis.OFFSET_COMMIT, 7, member_id="", **fields)
        assert (await reply.get()).topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await reassign(harness, [new], key=key) is ErrorCode.NONE
        await harness.settle()
        assert hosts(harness, key) == {new}
        reply, _ = handle_request(
            harness, new, apis.OFFSET_FETCH, 5, group_id="readers", topics=None
        )
        found = (await reply.get()).topics[0].partitions[0]
        assert found.committed_offset == 7

    run_scenario(scenario)
