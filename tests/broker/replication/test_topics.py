"""Topics that are deleted and made again with the same name.

Nothing of the old one may be taken for the new one's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_fetch import FetchParams
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.replication.scene import KEY, Scene, error, play


@pytest.fixture(params=["memory", "files"])
def data_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the cluster keeps its logs: nowhere, or in files."""
    return None if request.param == "memory" else tmp_path / "data"


async def make_anew(scene: Scene) -> None:
    """Delete the topic, and make another of its name."""
    scene.cluster.controller.delete_topic("orders")
    alive = len(scene.cluster.controller.alive)
    scene.cluster.create_topic("orders", partitions=1, replication_factor=alive)
    await scene.settle()


@pytest.mark.parametrize("away", ["killed", "stopped", "cut off", "slow", "frozen", "here"])
def test_new_topic_of_the_name_begins_empty_on_every_node(data_dir: Path | None, away: str) -> None:
    """Also on one that was away when the old one was deleted."""

    async def scenario(scene: Scene) -> None:
        cluster = scene.cluster
        for value in (b"old", b"older"):
            await scene.produce(0, value).get()
        await asyncio.sleep(6)
        assert scene.ends() == dict.fromkeys(range(3), (2, 2))
        change = {
            "killed": cluster.kill,
            "stopped": cluster.stop,
            "cut off": cluster.cut_off,
            "frozen": cluster.freeze,
        }.get(away)
        if change is not None:
            change(2)
        elif away == "slow":
            cluster.lag(2, 900)
        if away in ("killed", "stopped"):
            # The new one has a replica on a node that is not there, as an assignment by hand may
            # have it.
            await scene.settle()
            cluster.controller.delete_topic("orders")
            cluster.controller.create_topic("orders", assignment={0: [0, 1, 2]})
            await scene.settle()
        else:
            await make_anew(scene)
        leader = scene.leader
        assert leader in (0, 1, 2)
        if away == "cut off":
            await asyncio.sleep(4)
            leader = scene.leader
        answer = scene.produce(leader, b"new") if leader != 2 or away != "slow" else None
        await asyncio.sleep(0.1)
        if away in ("killed", "stopped"):
            await cluster.restart(2)
        cluster.reconnect(2)
        cluster.lag(2, 0)
        cluster.thaw(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await asyncio.sleep(2)
        if answer is None:
            answer = scene.produce(scene.leader, b"new")
            await asyncio.sleep(1)
        assert error(await answer.get()) is ErrorCode.NONE
        assert [scene.values(node) for node in range(3)] == [[b"new"]] * 3
        assert {scene.replica(node).topic_id for node in range(3)} == {
            cluster.controller.topics["orders"].topic_id
        }

    play(scenario, data_dir=data_dir)


def test_topic_that_was_deleted_while_a_node_was_away_is_gone_there_too(
    data_dir: Path | None,
) -> None:
    """Its files too; what waits for it is answered when the node hears of it."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.create_topic("other", partitions=3, replication_factor=3)
        await scene.settle()
        key = next(
            TopicPartition("other", each["partition"])
            for each in scene.cluster.describe("other")
            if each["leader"] == 2
        )
        scene.cluster.cut_off(2)
        answer = scene.produce(2, b"a", key=key, timeout_ms=60_000)
        scene.cluster.controller.delete_topic("other")
        await asyncio.sleep(1)
        assert not answer.done
        assert scene.node(2).knows(key)
        scene.cluster.reconnect(2)
        await scene.settle()
        assert error(await answer.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert list(scene.node(2).replicas.replicas) == [KEY]
        if data_dir is not None:
            assert sorted(
                path.name for path in (data_dir / "node-2").iterdir() if path.is_dir()
            ) == ["orders-0"]

    play(scenario, data_dir=data_dir)


def test_who_waits_for_the_old_topic_is_not_answered_by_the_new_one() -> None:
    """The node hears of both at once.

    The old one's requests are answered first, not by the offsets that the new one reaches.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"old", b"older").get()
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        scene.cluster.cut_off(0)
        produced = scene.produce(0, b"old", timeout_ms=60_000)
        fetched = scene.fetch(0, 2, max_wait_ms=60_000)
        deletion = scene.delete(0, 1, timeout_ms=60_000)
        await scene.settle()
        scene.cluster.controller.delete_topic("orders")
        scene.cluster.controller.create_topic("orders", assignment={0: [0, 1, 2]})
        scene.cluster.reconnect(0)
        assert (scene.replica(0).is_leader, scene.replica(0).log.end_offset) == (True, 0)
        assert (produced.done, fetched.done, deletion.done) == (True, True, True)
        assert error(await produced.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert error(await deletion.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    play(scenario)


def test_follower_of_the_new_topic_takes_nothing_of_the_old_one() -> None:
    """Its leader has not heard of the new one yet, and has the old one in the same epoch.

    The ids tell them apart.
    """

    async def scenario(scene: Scene) -> None:
        for value in (b"old", b"older"):
            await scene.produce(0, value).get()
        scene.cluster.lag(0, 2_000)
        scene.cluster.controller.delete_topic("orders")
        scene.cluster.controller.create_topic("orders", assignment={0: [0, 1, 2]})
        await scene.settle()
        assert scene.replica(1).topic_id != scene.replica(0).topic_id
        assert scene.replica(1).leader_epoch == scene.replica(0).leader_epoch == 0
        target = scene.node(1).fetchers[0]._target(KEY)
        manager = scene.node(0).replicas
        fetched = manager.read(FetchParams(1, 0, 1, 2**20), [target])
        assert error(fetched) is ErrorCode.INCONSISTENT_TOPIC_ID
        assert manager.bounds(target).error is ErrorCode.INCONSISTENT_TOPIC_ID
        known = scene.replica(0).followers[1].end_offset
        manager.fetch(FetchParams(1, 0, 1, 2**20), [target], lambda _fetched: None)
        assert scene.replica(0).followers[1].end_offset == known
        await asyncio.sleep(1.9)
        assert scene.log(1).end_offset == scene.log(2).end_offset == 0
        scene.cluster.lag(0, 0)
        await asyncio.sleep(4)
        assert error(await scene.produce(0, b"new").get()) is ErrorCode.NONE
        assert [scene.values(node) for node in range(3)] == [[b"new"]] * 3

    play(scenario)


def test_more_partitions_are_replicated_too() -> None:
    """And the old ones go on."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.controller.create_partitions("orders", 4, None)
        await scene.settle()
        for state in scene.cluster.describe("orders"):
            key = TopicPartition("orders", state["partition"])
            assert (
                error(await scene.produce(state["leader"], b"a", key=key).get()) is ErrorCode.NONE
            )
            assert [scene.values(node, key) for node in range(3)] == [[b"a"]] * 3

    play(scenario)
