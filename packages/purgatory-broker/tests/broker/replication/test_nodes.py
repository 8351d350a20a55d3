"""Killed, stopped, paused and partitioned nodes, in memory and with files, and failing disks."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log import store
from purgatory_broker.log.log_errors import StorageError
from purgatory_broker.metadata.topics import NO_LEADER
from tests.broker.log.batches import contents
from tests.broker.replication.cluster_harness import KEY, ClusterHarness, error, run_scenario


@pytest.fixture(params=["memory", "files"])
def data_dir(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Return the cluster's data directory; None keeps the logs in memory."""
    return None if request.param == "memory" else tmp_path / "data"


@pytest.mark.parametrize("orderly", [False, True])
def test_restarted_node_keeps_its_log_and_catches_up(data_dir: Path | None, orderly: bool) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        (harness.cluster.stop if orderly else harness.cluster.kill)(0)
        await harness.settle()
        assert (harness.leader, harness.isr, harness.cluster.controller.alive) == (
            1,
            {1, 2},
            {1, 2},
        )
        await harness.produce(1, b"b").get()
        await harness.cluster.restart(0)
        assert harness.values(0) == [b"a"]
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await harness.produce(1, b"c").get()
        assert harness.values(0) == [b"a", b"b", b"c"]

    run_scenario(scenario, data_dir=data_dir)


def test_leader_is_elected_once_an_in_sync_replica_is_back(data_dir: Path | None) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        for node in (2, 0, 1):
            harness.cluster.kill(node)
        assert (harness.leader, harness.isr, harness.cluster.controller.alive) == (
            NO_LEADER,
            {1},
            set(),
        )
        await asyncio.sleep(10)
        await harness.cluster.restart(0)
        await harness.settle()
        assert harness.leader == NO_LEADER
        await harness.cluster.restart(1)
        await harness.cluster.restart(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert error(await harness.produce(1, b"b").get()) is ErrorCode.NONE
        assert [harness.values(node) for node in range(3)] == [[b"a", b"b"]] * 3

    run_scenario(scenario, data_dir=data_dir)


def test_killed_node_starts_with_its_checkpointed_high_watermark(data_dir: Path | None) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(6)
        await harness.produce(0, b"b").get()
        harness.cluster.kill(1)
        harness.cluster.kill(2)
        await harness.settle()
        harness.cluster.kill(0)
        await harness.cluster.restart(0)
        # The only in-sync replica: its log's end is the high watermark.
        await harness.settle()
        assert harness.ends()[0] == (2, 2)
        await harness.cluster.restart(1)
        assert harness.ends()[1][0] == 1
        await asyncio.sleep(2)
        assert harness.ends()[1] == (2, 2)

    run_scenario(scenario, data_dir=data_dir)


def test_stop_flushes_and_kill_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    flush = store.FileStore.flush

    def counted(self: store.FileStore) -> None:
        flushed.append(self.path.parent.parent.name)
        flush(self)

    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        assert flushed == []
        harness.cluster.kill(1)
        assert flushed == []
        harness.cluster.stop(2)
        assert flushed == ["node-2"]
        for node in (1, 2):
            await harness.cluster.restart(node)
            assert harness.values(node) == [b"a"]

    monkeypatch.setattr(store.FileStore, "flush", counted)
    run_scenario(scenario, data_dir=tmp_path, flush_messages=1_000)


def test_flush_messages_of_1_flushes_every_append_on_every_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    flush = store.FileStore.flush

    def counted(self: store.FileStore) -> None:
        flushed.append(self.path.parent.parent.name)
        flush(self)

    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        assert sorted(flushed) == ["node-0", "node-1", "node-2"]

    monkeypatch.setattr(store.FileStore, "flush", counted)
    run_scenario(scenario, data_dir=tmp_path, flush_messages=1)


def test_torn_write_of_a_killed_node_is_truncated(tmp_path: Path) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await harness.produce(0, b"b").get()
        harness.cluster.kill(1)
        path = tmp_path / "node-1" / str(KEY) / f"{0:020d}.log"
        os.truncate(path, path.stat().st_size - 5)
        await harness.cluster.restart(1)
        assert harness.values(1) == [b"a"]
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert harness.values(1) == [b"a", b"b"]

    run_scenario(scenario, data_dir=tmp_path)


def test_wiped_log_is_replicated_again(tmp_path: Path) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.kill(2)
        for path in (tmp_path / "node-2" / str(KEY)).iterdir():
            path.unlink()
        await harness.cluster.restart(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert harness.values(2) == [b"a"]

    run_scenario(scenario, data_dir=tmp_path)


def test_node_started_while_partitioned_has_no_metadata(data_dir: Path | None) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.partition_node(2)
        await asyncio.sleep(4)
        harness.cluster.kill(2)
        await harness.cluster.restart(2)
        assert (
            harness.node(2).metadata.topics,
            harness.node(2).metadata.alive(),
            harness.node(2).replicas.replicas,
        ) == ({}, {2}, {})
        assert (
            error(await harness.produce(2, b"x", acks=1).get())
            is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
        await harness.produce(0, b"b").get()
        harness.cluster.heal_node(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert harness.values(2) == [b"a", b"b"]

    run_scenario(scenario, data_dir=data_dir)


def test_healing_does_not_restart_a_killed_node() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(2)
        harness.cluster.kill(2)
        harness.cluster.heal_node(2)
        await asyncio.sleep(5)
        assert harness.cluster.controller.alive == {0, 1}
        await harness.cluster.restart(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})

    run_scenario(scenario)


def test_restarted_node_stays_paused() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        harness.cluster.kill(2)
        await harness.cluster.restart(2)
        await harness.produce(0, b"a").get()
        await asyncio.sleep(5)
        assert (harness.values(2), harness.isr) == ([], {0, 1})
        harness.cluster.resume_replication(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})

    run_scenario(scenario)


@pytest.mark.parametrize("session_ms", [500, 3_000])
def test_partitioned_node_is_fenced_after_its_session(session_ms: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(2)
        reply = harness.produce(0, b"a")
        await asyncio.sleep((session_ms - 10) / 1_000)
        assert (harness.cluster.controller.alive, reply.done) == ({0, 1, 2}, False)
        await asyncio.sleep(0.02)
        assert (harness.cluster.controller.alive, harness.isr, reply.done) == (
            {0, 1},
            {0, 1},
            True,
        )
        assert harness.node(2).metadata.alive() == {0, 1, 2}, "it keeps its earlier metadata"

    run_scenario(scenario, broker_session_timeout_ms=session_ms)


# -- disks


class FullDisk:
    """Makes appends to the files below a folder fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder: Path | None = None
        append = store.FileStore.append

        def limited(file: store.FileStore, data: bytes) -> None:
            if self.folder is not None and self.folder in file.path.parents:
                raise StorageError("writing")
            append(file, data)

        monkeypatch.setattr(store.FileStore, "append", limited)


def test_leader_with_a_full_disk_refuses_appends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = FullDisk(monkeypatch)

    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        full.folder = tmp_path / "node-0"
        for acks in (0, 1, -1):
            assert (
                error(await harness.produce(0, b"b", acks=acks).get())
                is ErrorCode.KAFKA_STORAGE_ERROR
            )
        assert error(await harness.fetch(0, 0).get()) is ErrorCode.NONE
        assert harness.isr == {0, 1, 2}
        full.folder = None
        assert error(await harness.produce(0, b"c").get()) is ErrorCode.NONE
        assert [harness.values(node) for node in range(3)] == [[b"a", b"c"]] * 3

    run_scenario(scenario, data_dir=tmp_path)


def test_follower_with_a_full_disk_lags_and_rejoins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = FullDisk(monkeypatch)

    async def scenario(harness: ClusterHarness) -> None:
        full.folder = tmp_path / "node-2"
        reply = harness.produce(0, b"a")
        await asyncio.sleep(5)
        assert not reply.done
        await harness.until(lambda: reply.done)
        assert (error(await reply.get()), harness.isr) == (ErrorCode.NONE, {0, 1})
        full.folder = None
        await harness.until(lambda: harness.isr == {0, 1, 2}, 3_000)
        assert harness.values(2) == [b"a"]

    run_scenario(scenario, data_dir=tmp_path)


def test_unreadable_log_fails_fetches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad: set[Path] = set()
    read = store.FileStore.read

    def failing(file: store.FileStore, position: int, size: int) -> bytes:
        if bad.intersection(file.path.parents):
            raise StorageError("reading")
        return read(file, position, size)

    monkeypatch.setattr(store.FileStore, "read", failing)

    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        bad.add(tmp_path / "node-0")
        assert error(await harness.fetch(0, 0).get()) is ErrorCode.KAFKA_STORAGE_ERROR
        reply = harness.produce(0, b"b")
        await asyncio.sleep(3)
        assert not reply.done
        bad.clear()
        await asyncio.sleep(1.1)
        assert error(await reply.get()) is ErrorCode.NONE

    run_scenario(scenario, data_dir=tmp_path)


def test_unopenable_log_does_not_affect_other_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    opened = store.FileStore.__init__

    def failing(file: store.FileStore, path: Path, *rest: Any) -> None:
        if path.parent.name == "bad-1" and path.parent.parent.name == "node-2":
            raise StorageError(f"opening {path}")
        opened(file, path, *rest)

    async def scenario(harness: ClusterHarness) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(store.FileStore, "__init__", failing)
            harness.cluster.create_topic("bad", partitions=3, replication_factor=3)
            await harness.settle()
        assert [
            harness.node(2).replicas.find(KEY._replace(topic="bad", partition=index)) is None
            for index in range(3)
        ] == [
            False,
            True,
            False,
        ]
        assert "can't open the log of bad-1" in caplog.text
        assert error(await harness.produce(0, b"a").get()) is ErrorCode.NONE
        leader = harness.cluster.describe_topic("bad")[1]["leader"]
        others = [each for each in (0, 1) if each != leader]
        harness.cluster.move_leader("bad", 1, others[0])
        await asyncio.sleep(1)
        key = KEY._replace(topic="bad", partition=1)
        assert error(await harness.produce(others[0], b"b", key=key).get()) is ErrorCode.NONE
        assert contents(harness.log(2, key)) == [(0, b"b")]

    run_scenario(scenario, data_dir=tmp_path)
