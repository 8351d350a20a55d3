"""A node's log directory: logs and high watermarks by topic id."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.log_manager import LogManager, _malloc_trim
from tests.broker.log.batches import append, contents

KEY = TopicPartition("orders", 0)
OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture(params=["memory", "files"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Return the directory's folder; None keeps the logs in memory."""
    return None if request.param == "memory" else tmp_path


def test_log_belongs_to_its_topic_id(folder: Path | None) -> None:
    directory = LogManager(0, folder)
    log = directory.open(KEY, OLD, LogSettings())
    append(log, b"old")
    directory.abandon(log)
    log = directory.open(KEY, OLD, LogSettings())
    assert contents(log) == [(0, b"old")]
    directory.abandon(log)
    log = directory.open(KEY, NEW, LogSettings())
    assert contents(log) == []
    directory.close(log)


def test_logs_of_deleted_topics_are_deleted(folder: Path | None) -> None:
    directory = LogManager(0, folder)
    kept, renewed, gone = (TopicPartition(name, 3) for name in ("kept", "renewed", "gone"))
    ids = {kept: uuid.uuid4(), renewed: uuid.uuid4(), gone: uuid.uuid4()}
    for key, topic_id in ids.items():
        log = directory.open(key, topic_id, LogSettings())
        append(log, b"a")
        directory.close(log)
    directory.checkpoint_high_watermarks({(topic_id, 3): 1 for topic_id in ids.values()})
    directory.delete_unknown([(kept, ids[kept]), (renewed, NEW)])
    if folder is not None:
        assert [path.name for path in folder.iterdir() if path.is_dir()] == ["kept-3"]
    log = directory.open(kept, ids[kept], LogSettings())
    assert contents(log) == [(0, b"a")]
    directory.close(log)
    assert [directory.high_watermark(key, topic_id) for key, topic_id in ids.items()] == [1, 0, 0]
    assert directory.high_watermark(renewed, NEW) == 0


def test_high_watermarks_survive_the_process(tmp_path: Path) -> None:
    directory = LogManager(0, tmp_path)
    directory.checkpoint_high_watermarks({(OLD, 0): 5, (OLD, 1): 7})
    directory.checkpoint_high_watermarks({(OLD, 1): 8})
    again = LogManager(0, tmp_path)
    assert [again.high_watermark(KEY._replace(partition=index), OLD) for index in range(3)] == [
        5,
        8,
        0,
    ]
    assert again.high_watermark(KEY, NEW) == 0
    for text in ("", "[[1, 2]]", '[["orders", 0, 5]]', "{}", "[[null, 0, 0]]", "7"):
        (tmp_path / "high-watermarks.json").write_text(text)
        assert LogManager(0, tmp_path).high_watermark(KEY, OLD) == 0


def test_log_without_a_topic_id_is_kept(tmp_path: Path) -> None:
    directory = LogManager(0, tmp_path)
    log = directory.open(KEY, OLD, LogSettings())
    append(log, b"a")
    directory.close(log)
    (tmp_path / "orders-0" / "partition.metadata").write_text("")
    directory.delete_unknown([(KEY, OLD)])
    log = directory.open(KEY, OLD, LogSettings())
    assert contents(log) == [(0, b"a")]
    directory.close(log)
    assert (
        tmp_path / "orders-0" / "partition.metadata"
    ).read_text() == f"version: 0\ntopic_id: {OLD}\n"


_NO_PARTITIONS = ["orders", "orders-", "-0", "..-0", "orders-00", "orders-١", "größe-0"]


@pytest.mark.parametrize(
    ("name", "has_metadata"),
    [("photos-2024", False), *((name, True) for name in _NO_PARTITIONS)],
)
def test_folder_that_is_no_partitions_is_left_alone(
    tmp_path: Path, name: str, has_metadata: bool
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "picture.jpg").write_text("of somebody")
    if has_metadata:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {OLD}\n", "ascii")
    before = sorted(tmp_path.rglob("*"))
    LogManager(0, tmp_path).delete_unknown([])
    assert sorted(tmp_path.rglob("*")) == before


def test_link_to_a_partitions_folder_is_left_alone(tmp_path: Path) -> None:
    elsewhere = LogManager(1, tmp_path / "elsewhere")
    elsewhere.close(elsewhere.open(KEY, OLD, LogSettings()))
    directory = LogManager(0, tmp_path / "node-0")
    (tmp_path / "node-0" / "orders-0").symlink_to(tmp_path / "elsewhere" / "orders-0")
    directory.delete_unknown([])
    assert (tmp_path / "node-0" / "orders-0" / "partition.metadata").exists()


def test_log_of_an_unknown_partition_without_its_topic_id_is_deleted(tmp_path: Path) -> None:
    """A topic of the same name would find its records."""
    directory = LogManager(0, tmp_path)
    directory.close(directory.open(KEY, OLD, LogSettings()))
    (tmp_path / "orders-0" / "partition.metadata").write_text("")
    directory.delete_unknown([])
    assert not (tmp_path / "orders-0").exists()


@pytest.mark.parametrize("deletes", ["log", "unknown"])
def test_rest_of_an_interrupted_deletion_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deletes: str
) -> None:
    """What identifies the folder is deleted last, whichever file the deletion stops at."""
    for number in range(20):
        directory = LogManager(0, tmp_path / str(number))
        log = directory.open(KEY, OLD, LogSettings())
        append(log, b"a")
        directory.close(log)
        folder = tmp_path / str(number) / "orders-0"
        left = number

        def unlink(*given: Any, _unlink: Any = os.unlink, **more: Any) -> None:
            nonlocal left
            left -= 1
            if left < 0:
                raise PermissionError("the disk is gone")
            _unlink(*given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(os, "unlink", unlink)
            if deletes == "log":
                directory.delete(log, KEY, OLD)
            else:
                directory.delete_unknown([])
        if left >= 0:
            return
        assert (folder / "partition.metadata").exists()
        directory.delete_unknown([])
        assert not folder.exists()
    pytest.fail("no deletion has come to its end")


@pytest.mark.slow
@pytest.mark.skipif(_malloc_trim() is None, reason="this system's allocator is left alone")
def test_memory_of_a_deleted_log_is_given_back() -> None:
    script = """
import re, uuid
from pathlib import Path
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.record import build_batch
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.log_manager import LogManager

def resident_kb():
    return int(re.search(r"VmRSS:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])

key, topic_id = TopicPartition("t", 0), uuid.UUID(int=1)
directory = LogManager(0, None)
batch = build_batch([(None, b"x")], 1_700_000_000_000)
blocks = []
for _ in range(3):
    before = resident_kb()
    log = directory.open(key, topic_id, LogSettings(segment_bytes=4_000_000))
    for number in range(150_000):
        log.append_as_leader(batch, 1, 1_700_000_000_000)
        if number % 5_000 == 0:
            blocks.append(bytes(1_000))  # What else a process allocates meanwhile.
    filled = resident_kb()
    directory.delete(log, key, topic_id)
    print(before, filled, resident_kb())
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    for line in ran.stdout.splitlines():
        before, filled, deleted = map(int, line.split())
        assert filled > before + 10_000
        assert deleted < before + 2_000, ran.stdout
