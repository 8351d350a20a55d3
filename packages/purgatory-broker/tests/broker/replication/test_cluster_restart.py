"""Restarts of a whole cluster on the same data directory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.async_cluster import AsyncCluster
from purgatory_broker.metadata.topics import NO_LEADER, TopicPartition
from purgatory_broker.settings import ClusterSettings
from request_purgatory.errors import InvalidArgumentError
from tests.broker import apis
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    error,
    handle_request,
    run_scenario,
)


def test_topics_records_and_settings_survive_a_restart(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> tuple[str, Any, Any]:
        controller = harness.cluster.controller
        for value in (b"a", b"b", b"c"):
            await harness.produce(0, value, producer=(controller.new_producer_ids()[0], 0, 0)).get()
        controller.topic_changes.alter_configs("orders", {"retention.ms": "123456789"})
        harness.cluster.create_topic("other", partitions=5, replication_factor=2)
        await asyncio.sleep(1)
        await harness.delete(0, 1).get()
        harness.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(2)
        assert harness.ends() == dict.fromkeys(range(3), (3, 3))
        return controller.cluster_id, controller.topics, controller.new_producer_ids()[0]

    async def after(harness: ClusterHarness) -> tuple[str, Any, Any]:
        controller = harness.cluster.controller
        state = harness.state()
        assert (state["leader"], state["leader_epoch"], set(state["isr"])) == (0, 2, {0, 1, 2})
        assert {each["leader"] for each in harness.cluster.describe_topic("other")} == {0, 1, 2}, (
            "the first node to start leads every partition"
        )
        assert harness.ends() == dict.fromkeys(range(3), (3, 3))
        assert [harness.values(node) for node in range(3)] == [[b"b", b"c"]] * 3
        assert error(await harness.produce(0, b"d").get()) is ErrorCode.NONE
        assert harness.log(1).epoch_at(3) == 2
        return controller.cluster_id, controller.topics, controller.new_producer_ids()[0]

    cluster_id, topics, producer_id = run_scenario(before, data_dir=tmp_path)
    again = run_scenario(after, data_dir=tmp_path)
    assert again[0] == cluster_id
    assert {name: (topic.topic_id, topic.configs) for name, topic in again[1].items()} == {
        name: (topic.topic_id, topic.configs) for name, topic in topics.items()
    }
    assert again[2] > producer_id


def test_producer_states_survive_a_restart(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a", producer=(5, 0, 0)).get()

    async def after(harness: ClusterHarness) -> None:
        produced = (await harness.produce(0, b"a", producer=(5, 0, 0)).get())[0]
        assert (produced.error, produced.base_offset, harness.values(0)) == (
            ErrorCode.NONE,
            0,
            [b"a"],
        )

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_committed_offsets_survive_a_restart(tmp_path: Path) -> None:
    def commit(harness: ClusterHarness) -> Any:
        node = coordinator(harness)
        partitions = [
            {
                "partition_index": 0,
                "committed_offset": 42,
                "committed_leader_epoch": 3,
                "committed_metadata": "m",
            }
        ]
        fields = {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "group_instance_id": None,
        }
        return handle_request(
            harness,
            node,
            apis.OFFSET_COMMIT,
            8,
            topics=[{"name": "orders", "partitions": partitions}],
            **fields,
        )[0]

    def coordinator(harness: ClusterHarness) -> int:
        partition = harness.node(0).groups.partition_for("g")
        return int(harness.cluster.describe_topic("__consumer_offsets")[partition]["leader"])

    async def before(harness: ClusterHarness) -> None:
        harness.cluster.create_offsets_topic()
        await asyncio.sleep(1)
        reply = await commit(harness).get()
        assert reply.topics[0].partitions[0].error_code == 0

    async def after(harness: ClusterHarness) -> None:
        wanted = [{"name": "orders", "partition_indexes": [0]}]
        reply = await handle_request(
            harness, coordinator(harness), apis.OFFSET_FETCH, 5, group_id="g", topics=wanted
        )[0].get()
        found = reply.topics[0].partitions[0]
        assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (
            42,
            3,
            "m",
        )

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_replica_that_was_not_in_sync_is_not_elected_after_a_restart(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        harness.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(1)
        harness.cluster.pause_replication(0)
        harness.produce(2, b"a")
        await harness.until(lambda: harness.isr == {1, 2})

    async def after(harness: ClusterHarness) -> None:
        assert harness.leader == 1
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert harness.values(0) == [b"a"]

    run_scenario(before, data_dir=tmp_path, unclean_leader_election_enable=True)
    run_scenario(after, data_dir=tmp_path, unclean_leader_election_enable=True)


def test_deleted_topic_stays_deleted_after_a_restart(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.kill(2)
        harness.cluster.controller.topic_changes.delete("orders")
        await harness.settle()
        assert (tmp_path / "node-2" / str(KEY)).exists()
        assert not (tmp_path / "node-0" / str(KEY)).exists()

    async def after(harness: ClusterHarness) -> None:
        # The harness creates the topic if it does not exist.
        assert [harness.values(node) for node in range(3)] == [[]] * 3
        harness.cluster.controller.topic_changes.delete("orders")
        await harness.settle()
        assert not list(tmp_path.glob("node-*/orders*"))

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_partially_written_metadata_is_ignored(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other")

    async def after(harness: ClusterHarness) -> list[str]:
        return sorted(harness.cluster.controller.topics)

    run_scenario(before, data_dir=tmp_path)
    whole = (tmp_path / "cluster.json").read_bytes()
    assert json.loads(whole)["nodes"] == 3
    (tmp_path / "cluster.partial").write_bytes(whole[: len(whole) // 2])
    for node in range(3):
        (tmp_path / f"node-{node}" / "high-watermarks.json").write_text('[["half a ro')
    assert run_scenario(after, data_dir=tmp_path) == ["orders", "other"]


def test_data_of_more_nodes_is_refused(tmp_path: Path) -> None:
    run_scenario(lambda harness: harness.settle(), data_dir=tmp_path)
    message = f"nodes must be at least 3, of which {tmp_path} has data, got 2"
    with pytest.raises(InvalidArgumentError, match=message):
        AsyncCluster(ClusterSettings(nodes=2, data_dir=tmp_path))


def test_leaderless_partition_gets_its_last_in_sync_replica_after_a_restart(tmp_path: Path) -> None:
    async def before(harness: ClusterHarness) -> None:
        for node in (0, 1):
            harness.cluster.kill(node)
        await harness.settle()
        harness.cluster.kill(2)
        assert (harness.leader, harness.isr) == (NO_LEADER, {2})

    async def after(harness: ClusterHarness) -> None:
        assert harness.leader == 2
        await harness.until(lambda: harness.isr == {0, 1, 2})

    run_scenario(before, data_dir=tmp_path)
    run_scenario(after, data_dir=tmp_path)


def test_logs_of_a_node_share_open_files(tmp_path: Path) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("many", partitions=300, replication_factor=1)
        await harness.settle()
        for state in harness.cluster.describe_topic("many"):
            key = TopicPartition("many", state["partition"])
            assert (
                error(await harness.produce(state["leader"], b"a", key=key).get()) is ErrorCode.NONE
            )
        assert 200 < len(harness.node(0).log_manager._files) <= 256

    run_scenario(scenario, nodes=1, data_dir=tmp_path)
