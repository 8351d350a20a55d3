"""Topics that are deleted and created again with the same name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.delayed_fetch import FetchParams
from tests.broker.replication.cluster_harness import KEY, ClusterHarness, error, run_scenario


@pytest.fixture(params=["memory", "files"])
def data_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Return the cluster's data directory; None keeps the logs in memory."""
    return None if request.param == "memory" else tmp_path / "data"


async def recreate_topic(harness: ClusterHarness) -> None:
    """Delete the topic, and create another with the same name."""
    harness.cluster.controller.topic_changes.delete("orders")
    alive = len(harness.cluster.controller.alive)
    harness.cluster.create_topic("orders", partitions=1, replication_factor=alive)
    await harness.settle()


@pytest.mark.parametrize(
    "state", ["killed", "stopped", "partitioned", "slow", "paused", "reachable"]
)
def test_recreated_topic_is_empty_on_every_node(data_dir: Path | None, state: str) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        cluster = harness.cluster
        for value in (b"old", b"older"):
            await harness.produce(0, value).get()
        await asyncio.sleep(6)
        assert harness.ends() == dict.fromkeys(range(3), (2, 2))
        change = {
            "killed": cluster.kill,
            "stopped": cluster.stop,
            "partitioned": cluster.partition_node,
            "paused": cluster.pause_replication,
        }.get(state)
        if change is not None:
            change(2)
        elif state == "slow":
            cluster.set_latency(2, 900)
        if state in ("killed", "stopped"):
            # By a manual assignment the new topic has a replica on the stopped node.
            await harness.settle()
            cluster.controller.topic_changes.delete("orders")
            cluster.controller.topic_changes.create("orders", assignment={0: [0, 1, 2]})
            await harness.settle()
        else:
            await recreate_topic(harness)
        leader = harness.leader
        assert leader in (0, 1, 2)
        if state == "partitioned":
            await asyncio.sleep(4)
            leader = harness.leader
        reply = harness.produce(leader, b"new") if leader != 2 or state != "slow" else None
        await asyncio.sleep(0.1)
        if state in ("killed", "stopped"):
            await cluster.restart(2)
        cluster.heal_node(2)
        cluster.set_latency(2, 0)
        cluster.resume_replication(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await asyncio.sleep(2)
        if reply is None:
            reply = harness.produce(harness.leader, b"new")
            await asyncio.sleep(1)
        assert error(await reply.get()) is ErrorCode.NONE
        assert [harness.values(node) for node in range(3)] == [[b"new"]] * 3
        assert {harness.replica(node).topic_id for node in range(3)} == {
            cluster.controller.topics["orders"].topic_id
        }

    run_scenario(scenario, data_dir=data_dir)


def test_partitioned_node_deletes_the_topic_when_it_is_healed(
    data_dir: Path | None,
) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=3, replication_factor=3)
        await harness.settle()
        key = next(
            TopicPartition("other", each["partition"])
            for each in harness.cluster.describe_topic("other")
            if each["leader"] == 2
        )
        harness.cluster.partition_node(2)
        reply = harness.produce(2, b"a", key=key, timeout_ms=60_000)
        harness.cluster.controller.topic_changes.delete("other")
        await asyncio.sleep(1)
        assert not reply.done
        assert harness.node(2).metadata.partition_exists(key)
        harness.cluster.heal_node(2)
        await harness.settle()
        assert error(await reply.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert list(harness.node(2).replicas.replicas) == [KEY]
        if data_dir is not None:
            assert sorted(
                path.name for path in (data_dir / "node-2").iterdir() if path.is_dir()
            ) == ["orders-0"]

    run_scenario(scenario, data_dir=data_dir)


def test_requests_for_a_deleted_topic_are_not_answered_by_its_successor() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"old", b"older").get()
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        harness.cluster.partition_node(0)
        produced = harness.produce(0, b"old", timeout_ms=60_000)
        fetched = harness.fetch(0, 2, max_wait_ms=60_000)
        deletion = harness.delete(0, 1, timeout_ms=60_000)
        await harness.settle()
        harness.cluster.controller.topic_changes.delete("orders")
        harness.cluster.controller.topic_changes.create("orders", assignment={0: [0, 1, 2]})
        harness.cluster.heal_node(0)
        assert (harness.replica(0).is_leader, harness.replica(0).log.end_offset) == (True, 0)
        assert (produced.done, fetched.done, deletion.done) == (True, True, True)
        assert error(await produced.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error(await deletion.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run_scenario(scenario)


def test_follower_of_a_recreated_topic_ignores_the_old_leader() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        for value in (b"old", b"older"):
            await harness.produce(0, value).get()
        harness.cluster.set_latency(0, 2_000)
        harness.cluster.controller.topic_changes.delete("orders")
        harness.cluster.controller.topic_changes.create("orders", assignment={0: [0, 1, 2]})
        await harness.settle()
        assert harness.replica(1).topic_id != harness.replica(0).topic_id
        assert harness.replica(1).leader_epoch == harness.replica(0).leader_epoch == 0
        target = harness.node(1).fetchers.by_leader[0]._fetch_target(KEY)
        fetches = harness.node(0).fetches
        fetched = fetches.read(FetchParams(1, 0, 1, 2**20), [target])
        assert error(fetched) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert fetches.log_bounds(target).error is ErrorCode.INCONSISTENT_TOPIC_ID
        known = harness.replica(0).followers[1].end_offset
        fetches.fetch(FetchParams(1, 0, 1, 2**20), [target], lambda _fetched: None)
        assert harness.replica(0).followers[1].end_offset == known
        await asyncio.sleep(1.9)
        assert harness.log(1).end_offset == harness.log(2).end_offset == 0
        harness.cluster.set_latency(0, 0)
        await asyncio.sleep(4)
        assert error(await harness.produce(0, b"new").get()) is ErrorCode.NONE
        assert [harness.values(node) for node in range(3)] == [[b"new"]] * 3

    run_scenario(scenario)


def test_added_partitions_are_replicated() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.controller.topic_changes.add_partitions("orders", 4, None)
        await harness.settle()
        for state in harness.cluster.describe_topic("orders"):
            key = TopicPartition("orders", state["partition"])
            assert (
                error(await harness.produce(state["leader"], b"a", key=key).get()) is ErrorCode.NONE
            )
            assert [harness.values(node, key) for node in range(3)] == [[b"a"]] * 3

    run_scenario(scenario)
