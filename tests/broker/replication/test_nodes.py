"""Nodes that are killed, stopped, frozen and cut off, in memory and with files, and disks that fail them."""

from __future__ import annotations

import asyncio
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from request_purgatory.broker.log import store
from request_purgatory.broker.metadata.topics import NO_LEADER
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import contents
from tests.broker.replication.scene import KEY, Scene, error, play


@pytest.fixture(params=["memory", "files"])
def data_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the cluster keeps its logs: nowhere, or in files."""
    return None if request.param == "memory" else tmp_path / "data"


@pytest.mark.parametrize("orderly", [False, True])
def test_node_that_is_back_has_what_it_had(data_dir: Path | None, orderly: bool) -> None:
    """Others lead meanwhile; it catches up, and is in sync again."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        (scene.cluster.stop if orderly else scene.cluster.kill)(0)
        await scene.settle()
        assert (scene.leader, scene.isr, scene.cluster.controller.alive) == (1, {1, 2}, {1, 2})
        await scene.produce(1, b"b").get()
        await scene.cluster.restart(0)
        assert scene.values(0) == [b"a"]
        await scene.until(lambda: scene.isr == {0, 1, 2})
        await scene.produce(1, b"c").get()
        assert scene.values(0) == [b"a", b"b", b"c"]

    play(scenario, data_dir=data_dir)


def test_all_nodes_killed_and_back(data_dir: Path | None) -> None:
    """Nobody leads until one of those comes that were in sync last.

    Then nothing acknowledged is missing.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        for node in (2, 0, 1):
            scene.cluster.kill(node)
        assert (scene.leader, scene.isr, scene.cluster.controller.alive) == (NO_LEADER, {1}, set())
        await asyncio.sleep(10)
        await scene.cluster.restart(0)
        await scene.settle()
        assert scene.leader == NO_LEADER
        await scene.cluster.restart(1)
        await scene.cluster.restart(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert error(await scene.produce(1, b"b").get()) is ErrorCode.NONE
        assert [scene.values(node) for node in range(3)] == [[b"a", b"b"]] * 3

    play(scenario, data_dir=data_dir)


def test_killed_node_starts_with_the_high_watermark_that_it_kept(data_dir: Path | None) -> None:
    """Which may be an old one.

    As a leader it finds the new one out from its followers, and until then shows no more.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(6)
        await scene.produce(0, b"b").get()
        scene.cluster.kill(1)
        scene.cluster.kill(2)
        await scene.settle()
        scene.cluster.kill(0)
        await scene.cluster.restart(0)
        # Alone in sync, it is all there is.
        await scene.settle()
        assert scene.ends()[0] == (2, 2)
        await scene.cluster.restart(1)
        assert scene.ends()[1][0] == 1
        await asyncio.sleep(2)
        assert scene.ends()[1] == (2, 2)

    play(scenario, data_dir=data_dir)


def test_kill_forces_nothing_to_the_disk_and_stop_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed process had no time for it either. What was written is there in both cases."""
    forced: list[str] = []
    flush = store.FileStore.flush

    def counted(self: store.FileStore) -> None:
        forced.append(self.path.parent.parent.name)
        flush(self)

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        assert forced == []
        scene.cluster.kill(1)
        assert forced == []
        scene.cluster.stop(2)
        assert forced == ["node-2"]
        for node in (1, 2):
            await scene.cluster.restart(node)
            assert scene.values(node) == [b"a"]

    monkeypatch.setattr(store.FileStore, "flush", counted)
    play(scenario, data_dir=tmp_path, flush_messages=1_000)


def test_flush_messages_of_1_forces_each_append_on_every_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is acknowledged."""
    forced: list[str] = []
    flush = store.FileStore.flush

    def counted(self: store.FileStore) -> None:
        forced.append(self.path.parent.parent.name)
        flush(self)

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        assert sorted(forced) == ["node-0", "node-1", "node-2"]

    monkeypatch.setattr(store.FileStore, "flush", counted)
    play(scenario, data_dir=tmp_path, flush_messages=1)


def test_torn_write_of_a_killed_node_is_cut_off(tmp_path: Path) -> None:
    """When it starts again; what it lacks then comes from its leader."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await scene.produce(0, b"b").get()
        scene.cluster.kill(1)
        path = tmp_path / "node-1" / str(KEY) / f"{0:020d}.log"
        os.truncate(path, path.stat().st_size - 5)
        await scene.cluster.restart(1)
        assert scene.values(1) == [b"a"]
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert scene.values(1) == [b"a", b"b"]

    play(scenario, data_dir=tmp_path)


def test_wiped_disk_is_filled_again(tmp_path: Path) -> None:
    """A follower that starts with nothing."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.kill(2)
        for path in (tmp_path / "node-2" / str(KEY)).iterdir():
            path.unlink()
        await scene.cluster.restart(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert scene.values(2) == [b"a"]

    play(scenario, data_dir=tmp_path)


def test_node_that_starts_while_it_is_cut_off_knows_nothing(data_dir: Path | None) -> None:
    """It can't have heard of anything; when it is reconnected it takes everything up."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        scene.cluster.cut_off(2)
        await asyncio.sleep(4)
        scene.cluster.kill(2)
        await scene.cluster.restart(2)
        assert (
            scene.node(2).topics,
            scene.node(2).visible_nodes(),
            scene.node(2).replicas.replicas,
        ) == ({}, {2}, {})
        assert (
            error(await scene.produce(2, b"x", acks=1).get())
            is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        await scene.produce(0, b"b").get()
        scene.cluster.reconnect(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})
        assert scene.values(2) == [b"a", b"b"]

    play(scenario, data_dir=data_dir)


def test_node_that_was_killed_while_cut_off_is_not_back_by_being_reconnected() -> None:
    """Both have to be undone, in whatever order."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.cut_off(2)
        scene.cluster.kill(2)
        scene.cluster.reconnect(2)
        await asyncio.sleep(5)
        assert scene.cluster.controller.alive == {0, 1}
        await scene.cluster.restart(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})

    play(scenario)


def test_frozen_node_stays_frozen_when_it_is_restarted() -> None:
    """Until it is thawed."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        scene.cluster.kill(2)
        await scene.cluster.restart(2)
        await scene.produce(0, b"a").get()
        await asyncio.sleep(5)
        assert (scene.values(2), scene.isr) == ([], {0, 1})
        scene.cluster.thaw(2)
        await scene.until(lambda: scene.isr == {0, 1, 2})

    play(scenario)


@pytest.mark.parametrize("session_ms", [500, 3_000])
def test_node_that_is_cut_off_is_fenced_after_its_session(session_ms: int) -> None:
    """Not before; until then it is in sync, and acks=all waits for it."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.cut_off(2)
        answer = scene.produce(0, b"a")
        await asyncio.sleep((session_ms - 10) / 1_000)
        assert (scene.cluster.controller.alive, answer.done) == ({0, 1, 2}, False)
        await asyncio.sleep(0.02)
        assert (scene.cluster.controller.alive, scene.isr, answer.done) == ({0, 1}, {0, 1}, True)
        assert scene.node(2).visible_nodes() == {0, 1, 2}, "it knows what it knew"

    play(scenario, broker_session_timeout_ms=session_ms)


# -- disks


class Full:
    """Has the files below some folder take no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder: Path | None = None
        append = store.FileStore.append

        def limited(file: store.FileStore, data: bytes) -> None:
            if self.folder is not None and self.folder in file.path.parents:
                raise store.storage_error(
                    "writing", OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                )
            append(file, data)

        monkeypatch.setattr(store.FileStore, "append", limited)


def test_leader_whose_disk_is_full_tells_its_producers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA_STORAGE_ERROR.

    What is there can be read, and once there is room it goes on as if nothing had been.
    """
    full = Full(monkeypatch)

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        full.folder = tmp_path / "node-0"
        for acks in (0, 1, -1):
            assert (
                error(await scene.produce(0, b"b", acks=acks).get())
                is ErrorCode.KAFKA_STORAGE_ERROR
            )
        assert error(await scene.fetch(0, 0).get()) is ErrorCode.NONE
        assert scene.isr == {0, 1, 2}
        full.folder = None
        assert error(await scene.produce(0, b"c").get()) is ErrorCode.NONE
        assert [scene.values(node) for node in range(3)] == [[b"a", b"c"]] * 3

    play(scenario, data_dir=tmp_path)


def test_follower_whose_disk_is_full_falls_behind_and_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It leaves the in-sync replicas like any that lags, and tries again each second."""
    full = Full(monkeypatch)

    async def scenario(scene: Scene) -> None:
        full.folder = tmp_path / "node-2"
        answer = scene.produce(0, b"a")
        await asyncio.sleep(5)
        assert not answer.done
        await scene.until(lambda: answer.done)
        assert (error(await answer.get()), scene.isr) == (ErrorCode.NONE, {0, 1})
        full.folder = None
        await scene.until(lambda: scene.isr == {0, 1, 2}, 3_000)
        assert scene.values(2) == [b"a"]

    play(scenario, data_dir=tmp_path)


def test_log_that_cannot_be_read_is_told_to_who_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KAFKA_STORAGE_ERROR to consumers and followers; the latter come again."""
    bad: set[Path] = set()
    read = store.FileStore.read

    def failing(file: store.FileStore, position: int, size: int) -> bytes:
        if bad.intersection(file.path.parents):
            raise store.storage_error("reading", OSError(errno.EIO, os.strerror(errno.EIO)))
        return read(file, position, size)

    monkeypatch.setattr(store.FileStore, "read", failing)

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        bad.add(tmp_path / "node-0")
        assert error(await scene.fetch(0, 0).get()) is ErrorCode.KAFKA_STORAGE_ERROR
        answer = scene.produce(0, b"b")
        await asyncio.sleep(3)
        assert not answer.done
        bad.clear()
        await asyncio.sleep(1.1)
        assert error(await answer.get()) is ErrorCode.NONE

    play(scenario, data_dir=tmp_path)


def test_partition_that_cannot_be_opened_leaves_the_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The node has no replica of it, and tries again with the partition's next change."""
    opened = store.FileStore.__init__

    def failing(file: store.FileStore, path: Path, *rest: Any) -> None:
        if path.parent.name == "bad-1" and path.parent.parent.name == "node-2":
            raise store.storage_error(
                f"opening {path}", OSError(errno.EACCES, os.strerror(errno.EACCES))
            )
        opened(file, path, *rest)

    async def scenario(scene: Scene) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(store.FileStore, "__init__", failing)
            scene.cluster.create_topic("bad", partitions=3, replication_factor=3)
            await scene.settle()
        assert [
            scene.node(2).replicas.find(KEY._replace(topic="bad", partition=index)) is None
            for index in range(3)
        ] == [
            False,
            True,
            False,
        ]
        assert "can't take up bad-1" in caplog.text
        assert error(await scene.produce(0, b"a").get()) is ErrorCode.NONE
        leader = scene.cluster.describe("bad")[1]["leader"]
        others = [each for each in (0, 1) if each != leader]
        scene.cluster.move_leader("bad", 1, others[0])
        await asyncio.sleep(1)
        key = KEY._replace(topic="bad", partition=1)
        assert error(await scene.produce(others[0], b"b", key=key).get()) is ErrorCode.NONE
        assert contents(scene.log(2, key)) == [(0, b"b")]

    play(scenario, data_dir=tmp_path)


def test_cluster_file_that_cannot_be_written_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The nodes hear of what changes all the same; the state before stays in the file, whole."""

    async def scenario(scene: Scene) -> None:
        before = (tmp_path / "cluster.json").read_bytes()
        write = Path.open

        def failing(path: Path, *rest: Any, **more: Any) -> Any:
            if path.name.startswith("cluster."):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(path, *rest, **more)

        with monkeypatch.context() as patched:
            patched.setattr(Path, "open", failing)
            scene.cluster.move_leader("orders", 0, 1)
            await scene.settle()
        assert scene.replica(1).is_leader
        assert (tmp_path / "cluster.json").read_bytes() == before
        assert "can't be written" in caplog.text
        assert error(await scene.produce(1, b"a").get()) is ErrorCode.NONE

    play(scenario, data_dir=tmp_path)
