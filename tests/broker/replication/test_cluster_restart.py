"""A whole cluster that ends and begins again on the same folder."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from request_purgatory.broker.cluster.async_cluster import AsyncCluster, ControllerError
from request_purgatory.broker.metadata.topics import NO_LEADER, TopicPartition
from request_purgatory.broker.settings import ClusterSettings
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.replication.scene import KEY, Scene, ask, error, play


def test_topics_records_and_epochs_are_still_there(tmp_path: Path) -> None:
    """With settings, high watermarks and the cluster's id.

    The epoch is a later one, and everybody is in sync.
    """

    async def before(scene: Scene) -> tuple[str, Any, Any]:
        controller = scene.cluster.controller
        for value in (b"a", b"b", b"c"):
            await scene.produce(0, value, producer=(controller.new_producer_id(), 0, 0)).get()
        controller.set_configs("orders", {"retention.ms": "123456789"})
        scene.cluster.create_topic("other", partitions=5, replication_factor=2)
        await asyncio.sleep(1)
        await scene.delete(0, 1).get()
        scene.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(2)
        assert scene.ends() == dict.fromkeys(range(3), (3, 3))
        return controller.cluster_id, controller.topics, controller.new_producer_id()

    async def after(scene: Scene) -> tuple[str, Any, Any]:
        controller = scene.cluster.controller
        state = scene.state()
        assert (state["leader"], state["leader_epoch"], set(state["isr"])) == (0, 2, {0, 1, 2})
        assert {each["leader"] for each in scene.cluster.describe("other")} == {0, 1, 2}, (
            "not all to the first that starts"
        )
        assert scene.ends() == dict.fromkeys(range(3), (3, 3))
        assert [scene.values(node) for node in range(3)] == [[b"b", b"c"]] * 3
        assert error(await scene.produce(0, b"d").get()) is ErrorCode.NONE
        assert scene.log(1).epoch_at(3) == 2
        return controller.cluster_id, controller.topics, controller.new_producer_id()

    cluster_id, topics, producer_id = play(before, data_dir=tmp_path)
    again = play(after, data_dir=tmp_path)
    assert again[0] == cluster_id
    assert {name: (topic.topic_id, topic.configs) for name, topic in again[1].items()} == {
        name: (topic.topic_id, topic.configs) for name, topic in topics.items()
    }
    assert again[2] > producer_id


def test_idempotent_producers_are_still_known(tmp_path: Path) -> None:
    """What is sent again after the restart is there once."""

    async def before(scene: Scene) -> None:
        await scene.produce(0, b"a", producer=(5, 0, 0)).get()

    async def after(scene: Scene) -> None:
        produced = (await scene.produce(0, b"a", producer=(5, 0, 0)).get())[0]
        assert (produced.error, produced.base_offset, scene.values(0)) == (
            ErrorCode.NONE,
            0,
            [b"a"],
        )

    play(before, data_dir=tmp_path)
    play(after, data_dir=tmp_path)


def test_commits_of_groups_are_still_there(tmp_path: Path) -> None:
    """Whoever leads the group's partition of the offsets topic."""

    def commit(scene: Scene) -> Any:
        node = coordinator(scene)
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
        return ask(
            scene,
            node,
            apis.OFFSET_COMMIT,
            8,
            topics=[{"name": "orders", "partitions": partitions}],
            **fields,
        )[0]

    def coordinator(scene: Scene) -> int:
        partition = scene.node(0).groups.partition_for("g")
        return int(scene.cluster.describe("__consumer_offsets")[partition]["leader"])

    async def before(scene: Scene) -> None:
        scene.cluster.create_offsets_topic()
        await asyncio.sleep(1)
        answer = await commit(scene).get()
        assert answer.topics[0].partitions[0].error_code == 0

    async def after(scene: Scene) -> None:
        wanted = [{"name": "orders", "partition_indexes": [0]}]
        answer = await ask(
            scene, coordinator(scene), apis.OFFSET_FETCH, 5, group_id="g", topics=wanted
        )[0].get()
        found = answer.topics[0].partitions[0]
        assert (found.committed_offset, found.committed_leader_epoch, found.metadata) == (
            42,
            3,
            "m",
        )

    play(before, data_dir=tmp_path)
    play(after, data_dir=tmp_path)


def test_who_was_not_in_sync_does_not_lead_after_a_restart(tmp_path: Path) -> None:
    """Though it comes first.

    Nor where unclean elections are allowed, as long as one that was in sync comes too.
    """

    async def before(scene: Scene) -> None:
        scene.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(1)
        scene.cluster.freeze(0)
        scene.produce(2, b"a")
        await scene.until(lambda: scene.isr == {1, 2})

    async def after(scene: Scene) -> None:
        assert scene.leader == 1
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert scene.values(0) == [b"a"]

    play(before, data_dir=tmp_path, unclean_leader_election_enable=True)
    play(after, data_dir=tmp_path, unclean_leader_election_enable=True)


def test_deleted_topic_is_not_back(tmp_path: Path) -> None:
    """Nor is anything of it on the disk, of nodes that did not run when it was deleted either."""

    async def before(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.kill(2)
        scene.cluster.controller.delete_topic("orders")
        await scene.settle()
        assert (tmp_path / "node-2" / str(KEY)).exists()
        assert not (tmp_path / "node-0" / str(KEY)).exists()

    async def after(scene: Scene) -> None:
        # The scene makes the topic where it is not there.
        assert [scene.values(node) for node in range(3)] == [[]] * 3
        scene.cluster.controller.delete_topic("orders")
        await scene.settle()
        assert not list(tmp_path.glob("node-*/orders*"))

    play(before, data_dir=tmp_path)
    play(after, data_dir=tmp_path)


def test_state_that_was_half_written_is_left_out(tmp_path: Path) -> None:
    """The file is replaced as a whole: what a crash left beside it does no harm."""

    async def before(scene: Scene) -> None:
        scene.cluster.create_topic("other")

    async def after(scene: Scene) -> list[str]:
        return sorted(scene.cluster.controller.topics)

    play(before, data_dir=tmp_path)
    whole = (tmp_path / "cluster.json").read_bytes()
    assert json.loads(whole)["nodes"] == 3
    (tmp_path / "cluster.partial").write_bytes(whole[: len(whole) // 2])
    for node in range(3):
        (tmp_path / f"node-{node}" / "high-watermarks.json").write_text('[["half a ro')
    assert play(after, data_dir=tmp_path) == ["orders", "other"]


def test_fewer_nodes_than_the_folder_has_data_of_are_refused(tmp_path: Path) -> None:
    """With both numbers."""
    play(lambda scene: scene.settle(), data_dir=tmp_path)
    with pytest.raises(ControllerError, match="data of 3 nodes, where 2 are to run"):
        AsyncCluster(ClusterSettings(nodes=2, data_dir=tmp_path))


def test_leaderless_partition_waits_for_its_node_after_a_restart(tmp_path: Path) -> None:
    """It was the only one in sync, and all come together."""

    async def before(scene: Scene) -> None:
        for node in (0, 1):
            scene.cluster.kill(node)
        await scene.settle()
        scene.cluster.kill(2)
        assert (scene.leader, scene.isr) == (NO_LEADER, {2})

    async def after(scene: Scene) -> None:
        assert scene.leader == 2
        await scene.until(lambda: scene.isr == {0, 1, 2})

    play(before, data_dir=tmp_path)
    play(after, data_dir=tmp_path)


def test_many_partitions_need_few_files(tmp_path: Path) -> None:
    """A node's logs share a limited number of open files."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.create_topic("many", partitions=300, replication_factor=1)
        await scene.settle()
        for state in scene.cluster.describe("many"):
            key = TopicPartition("many", state["partition"])
            assert (
                error(await scene.produce(state["leader"], b"a", key=key).get()) is ErrorCode.NONE
            )
        assert 200 < len(scene.node(0).disk._files) <= 256

    play(scenario, nodes=1, data_dir=tmp_path)
