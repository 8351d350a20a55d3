"""What a log deletes by its age and size, and what the disk refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import (
    NOW,
    SETTINGS,
    append,
    batch,
    contents,
    with_fields,
)
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import SMALL, refused, segments


def test_old_segments_are_deleted(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL, retention_ms=100)
    for time in (0, 10, 20, 30, 40, 50):
        append(log, now_ms=NOW + time)
    counts = [len(segment) for segment in segments(log)]
    assert counts == [3, 3]
    assert log.delete_old_segments(NOW + 120, 6) == 0
    assert log.delete_old_segments(NOW + 121, 6) == 1
    log.check()
    assert (log.log_start_offset, log.epoch_start_offset(1)) == (3, 3)
    assert log.delete_old_segments(NOW + 151, 6) == 1
    log.check()
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (6, 6, 0)
    assert log.delete_old_segments(NOW + 999, 6) == 0
    assert append(log) == 6


def test_young_segment_keeps_later_segments(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=90, retention_ms=100)
    for time in (500, 0, 0):
        append(log, now_ms=NOW + time)
    assert log.delete_old_segments(NOW + 400, 3) == 0
    assert log.delete_old_segments(NOW + 601, 3) == 3


def test_first_segments_of_a_large_log_are_deleted(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL, retention_ms=None, retention_bytes=0)
    for _ in range(9):
        append(log)
    size, sizes = log.size_bytes, [segment.size for segment in segments(log)]
    for keep, deleted in (
        (size, 0),
        (size - sizes[0] + 1, 0),
        (size - sizes[0], 1),
        (sizes[-1] + 1, 0),
        (sizes[-1], 1),
        (0, 1),
    ):
        log.settings = LogSettings(segment_bytes=SMALL, retention_ms=None, retention_bytes=keep)
        assert log.delete_old_segments(NOW, 9) == deleted
        log.check()
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (9, 9, 0)


def test_unreplicated_segments_are_not_deleted(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL, retention_ms=0, retention_bytes=0)
    for _ in range(6):
        append(log)
    assert log.delete_old_segments(NOW * 2, 2) == 0
    assert log.delete_old_segments(NOW * 2, 5) == 1
    assert log.log_start_offset == 3


def test_log_is_flushed_after_flush_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[int] = []
    sync = os.fsync
    log = PartitionLog.open("t-0", tmp_path, LogSettings(flush_messages=4))
    log.flush()
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: (forced.append(descriptor), sync(descriptor))
    )
    for records, forces in ((1, 0), (2, 0), (1, 1), (3, 1), (9, 2)):
        append(log, *[b"v"] * records)
        assert len(forced) == forces, records
    log.settings = SETTINGS
    append(log, *[b"v"] * 9)
    assert len(forced) == 2
    log.flush()
    assert len(forced) == 3
    log.close()


def test_append_that_can_not_be_flushed_is_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PartitionLog.open("t-0", tmp_path, LogSettings(flush_messages=1))
    append(log, b"a")

    def failing(descriptor: int) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", failing)
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            log.append_as_leader(batch(b"b", producer=(1, 0, 0)), 2, NOW)
    log.check()
    assert (log.end_offset, log.latest_epoch, len(log.producers)) == (1, 1, 0)
    assert append(log, b"c") == 1
    assert contents(log) == [(0, b"a"), (1, b"c")]
    log.close()


def test_failure_to_create_a_segment_fails_the_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PartitionLog.open("t-0", tmp_path, LogSettings(segment_bytes=90))
    append(log, b"a")

    def failing(*arguments: object) -> int:
        raise OSError(errno.EMFILE, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing)
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            append(log, b"b")
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            log.truncate_fully_and_start_at(9)
    log.check()
    assert append(log, b"b") == 1
    log.close()


def test_segment_that_can_not_be_deleted_is_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = PartitionLog.open("t-0", tmp_path, LogSettings(segment_bytes=90))
    for _ in range(4):
        append(log)

    def failing(*arguments: object, **more: object) -> None:
        raise OSError(errno.EACCES, "no")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", failing)
        with refused(ErrorCode.KAFKA_STORAGE_ERROR):
            log.advance_log_start_offset(2)
    assert log.log_start_offset == 2
    assert len(list(tmp_path.glob("*.log"))) == 4
    log.advance_log_start_offset(3)
    log.check()
    assert len(list(tmp_path.glob("*.log"))) == 1
    log.close()


def test_refused_batch_does_not_change_the_producer_state(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(batch(b"a", producer=(1, 0, 0)), 1, NOW)
    with refused(ErrorCode.CORRUPT_MESSAGE):
        log.append_as_leader(with_fields(batch(b"b", producer=(1, 0, 1)), crc=0), 1, NOW)
    assert log.append_as_leader(batch(b"b", producer=(1, 0, 1)), 1, NOW).base_offset == 1
