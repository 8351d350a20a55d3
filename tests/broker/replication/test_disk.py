"""What a node keeps: logs and high watermarks, by their topics' ids."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from request_purgatory.broker.log import LogSettings
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.log_directory import Disk
from tests.broker.log.batches import append, contents

KEY = TopicPartition("orders", 0)
OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)


@pytest.fixture(params=["memory", "files"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    """Where the disk is."""
    return None if request.param == "memory" else tmp_path


def test_log_is_of_its_topics_id(folder: Path | None) -> None:
    """Opened again it is as it was; for another id of the same name it is empty."""
    disk = Disk(0, folder)
    log = disk.open(KEY, OLD, LogSettings())
    append(log, b"old")
    disk.abandon(log)
    log = disk.open(KEY, OLD, LogSettings())
    assert contents(log) == [(0, b"old")]
    disk.abandon(log)
    log = disk.open(KEY, NEW, LogSettings())
    assert contents(log) == []
    disk.close(log)


def test_log_of_no_known_topic_is_deleted(folder: Path | None) -> None:
    """Or of one that has another id by now; its high watermark too."""
    disk = Disk(0, folder)
    kept, renewed, gone = (TopicPartition(name, 3) for name in ("kept", "renewed", "gone"))
    ids = {kept: uuid.uuid4(), renewed: uuid.uuid4(), gone: uuid.uuid4()}
    for key, topic_id in ids.items():
        log = disk.open(key, topic_id, LogSettings())
        append(log, b"a")
        disk.close(log)
    disk.keep_high_watermarks({(topic_id, 3): 1 for topic_id in ids.values()})
    disk.delete_unknown([(kept, ids[kept]), (renewed, NEW)])
    if folder is not None:
        assert [path.name for path in folder.iterdir() if path.is_dir()] == ["kept-3"]
    log = disk.open(kept, ids[kept], LogSettings())
    assert contents(log) == [(0, b"a")]
    disk.close(log)
    assert [disk.high_watermark(key, topic_id) for key, topic_id in ids.items()] == [1, 0, 0]
    assert disk.high_watermark(renewed, NEW) == 0


def test_high_watermarks_are_read_by_the_next_process(tmp_path: Path) -> None:
    """By id and number; a file that is not what it should be is left out."""
    disk = Disk(0, tmp_path)
    disk.keep_high_watermarks({(OLD, 0): 5, (OLD, 1): 7})
    disk.keep_high_watermarks({(OLD, 1): 8})
    again = Disk(0, tmp_path)
    assert [again.high_watermark(KEY._replace(partition=index), OLD) for index in range(3)] == [
        5,
        8,
        0,
    ]
    assert again.high_watermark(KEY, NEW) == 0
    for text in ("", "[[1, 2]]", '[["orders", 0, 5]]', "{}", "[[null, 0, 0]]", "7"):
        (tmp_path / "high-watermarks.json").write_text(text)
        assert Disk(0, tmp_path).high_watermark(KEY, OLD) == 0


def test_log_without_its_mark_is_kept(tmp_path: Path) -> None:
    """A power failure may have left it empty: that is no reason to throw records away."""
    disk = Disk(0, tmp_path)
    log = disk.open(KEY, OLD, LogSettings())
    append(log, b"a")
    disk.close(log)
    (tmp_path / "orders-0" / "partition.metadata").write_text("")
    disk.delete_unknown([(KEY, OLD)])
    log = disk.open(KEY, OLD, LogSettings())
    assert contents(log) == [(0, b"a")]
    disk.close(log)
    assert (
        tmp_path / "orders-0" / "partition.metadata"
    ).read_text() == f"version: 0\ntopic_id: {OLD}\n"
