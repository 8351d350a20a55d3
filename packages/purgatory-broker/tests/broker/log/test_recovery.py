"""Opening a log after a crash."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log import recovery
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.store import OpenFiles
from tests.broker.log.batches import NOW, append, batch, contents, with_fields

SMALL = LogSettings(segment_bytes=250, retention_ms=None)


_opened: list[PartitionLog] = []


@pytest.fixture(autouse=True)
def _close_logs() -> Iterator[None]:
    """Close the logs of `open_log` after the test; most tests leave them open, like a crash."""
    yield
    while _opened:
        _opened.pop().close()


def open_log(folder: Path, settings: LogSettings = SMALL) -> PartitionLog:
    """Open the log in a folder, and check its invariants."""
    log = PartitionLog.open("t-0", folder, settings)
    _opened.append(log)
    log.check()
    return log


def write_log(folder: Path, count: int = 8) -> list[tuple[int, bytes | None]]:
    """Write a log of several segments, and return its records."""
    log = open_log(folder)
    for number in range(count):
        append(log, b"%d" % number, epoch=number // 2)
    records = contents(log)
    log.close()
    return records


def files(folder: Path) -> list[Path]:
    """Return the segments' files in order."""
    return sorted(folder.glob("*.log"))


@pytest.mark.parametrize("clean", [False, True])
def test_reopened_log_is_unchanged(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path)
    for number in range(9):
        append(log, b"%d" % number, epoch=number // 2, now_ms=NOW + number)
    for sequence in range(3):
        log.append_as_leader(batch(b"p", producer=(4, 1, sequence)), 9, NOW)
    log.advance_log_start_offset(1)
    before = (
        contents(log),
        log.log_start_offset,
        log.end_offset,
        [log.end_offset_for_epoch(epoch) for epoch in range(11)],
        log.offset_for_timestamp(NOW + 5, 99),
        log.max_timestamp_offset(),
        log.size_bytes,
    )
    log.close(clean=clean)
    again = open_log(tmp_path)
    assert before == (
        contents(again),
        again.log_start_offset,
        again.end_offset,
        [again.end_offset_for_epoch(epoch) for epoch in range(11)],
        again.offset_for_timestamp(NOW + 5, 99),
        again.max_timestamp_offset(),
        again.size_bytes,
    )
    assert again.append_as_leader(batch(b"p", producer=(4, 1, 1)), 9, NOW).base_offset == 10
    with pytest.raises(RecordError) as caught:
        again.append_as_leader(batch(b"p", producer=(4, 1, 9)), 9, NOW)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(again, b"new", epoch=9) == 12


def test_files_have_kafkas_names(tmp_path: Path) -> None:
    write_log(tmp_path)
    assert [path.name for path in files(tmp_path)] == [f"{base:020d}.log" for base in (0, 3, 6)]


def test_log_that_was_not_closed_is_complete(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, b"a")
    append(log, b"b")
    assert contents(open_log(tmp_path)) == [(0, b"a"), (1, b"b")]


TORN = {
    "byte": b"\0",
    "zeros": b"\0" * 61,
    "ones": b"\xff" * 100,
    "many zeros": b"\0" * 5_000,
    "part of a batch": batch(b"x" * 50)[:-1],
    "batch of another place": batch(b"x"),
    "noise": random.Random(1).randbytes(70),
}


@pytest.mark.parametrize("torn", TORN.values(), ids=TORN)
def test_torn_tail_is_truncated(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    records = write_log(tmp_path)
    size = files(tmp_path)[-1].stat().st_size
    with files(tmp_path)[-1].open("ab") as file:
        file.write(torn)
    log = open_log(tmp_path)
    assert contents(log) == records
    assert files(tmp_path)[-1].stat().st_size == size
    assert f"{len(torn)} bytes at {size} are truncated, the next offset is 8" in caplog.text
    assert append(log, b"new", epoch=9) == 8
    log.close()
    caplog.clear()
    assert contents(open_log(tmp_path)) == [*records, (8, b"new")]
    assert not caplog.records


@pytest.mark.parametrize("cut", [1, 20, 61, 71, 72, 73, 144, 145, 216, 217])
def test_truncated_file_keeps_its_complete_batches(tmp_path: Path, cut: int) -> None:
    records = write_log(tmp_path, 3)
    (path,) = files(tmp_path)
    size = path.stat().st_size
    os.truncate(path, max(size - cut, 0))
    log = open_log(tmp_path)
    whole = (size - min(cut, size)) // (size // 3)
    assert contents(log) == records[:whole]
    assert path.stat().st_size == whole * size // 3


@pytest.mark.parametrize("at", [0, 10, 20, 25, 60, 70])
def test_log_ends_before_its_first_corrupt_batch(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """As in Kafka, later segments are deleted: offsets have no gaps."""
    records = write_log(tmp_path)
    before = files(tmp_path)
    data = bytearray(before[1].read_bytes())
    size = len(data) // 3
    data[size + at] ^= 0x55
    before[1].write_bytes(data)
    log = open_log(tmp_path)
    assert (contents(log), log.end_offset) == (records[:4], 4)
    assert files(tmp_path) == before[:2]
    assert log.latest_epoch == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert str(before[2]) in caplog.text


def test_failed_append_before_later_segments_is_truncated(tmp_path: Path) -> None:
    records = write_log(tmp_path)
    with files(tmp_path)[0].open("ab") as file:
        file.write(batch(b"torn")[:-1])
    assert contents(open_log(tmp_path)) == records


def test_missing_segment_ends_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    records = write_log(tmp_path)
    files(tmp_path)[1].unlink()
    assert contents(open_log(tmp_path)) == records[:3]
    assert "the log is valid only up to offset 3" in caplog.text
    assert len(files(tmp_path)) == 1


def test_log_start_offset_survives(tmp_path: Path) -> None:
    records = write_log(tmp_path)
    (tmp_path / "log-start-offset").write_text("0\n4\n")
    log = open_log(tmp_path)
    assert (log.log_start_offset, contents(log), log.epoch_start_offset(2)) == (4, records[4:], 4)
    assert [int(path.stem) for path in files(tmp_path)] == [3, 6]


def test_segments_before_the_log_start_offset_are_not_read(tmp_path: Path) -> None:
    records = write_log(tmp_path)
    files(tmp_path)[0].write_bytes(b"?" * 100)
    (tmp_path / "log-start-offset").write_text("0\n3\n")
    log = open_log(tmp_path)
    assert (log.log_start_offset, contents(log)) == (3, records[3:])


def test_log_that_ends_before_its_start_offset_starts_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(tmp_path)
    (tmp_path / "log-start-offset").write_text("0\n50\n")
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.end_offset, log.latest_epoch, log.size_bytes) == (
        50,
        50,
        -1,
        0,
    )
    assert "ends at offset 8, before its start offset 50" in caplog.text
    assert append(log) == 50
    log.close()
    assert contents(open_log(tmp_path)) == [(50, b"value")]


@pytest.mark.parametrize("offset", [2, 5, 40])
def test_full_truncation_survives(tmp_path: Path, offset: int) -> None:
    write_log(tmp_path)
    log = open_log(tmp_path)
    log.advance_log_start_offset(4)
    log.truncate_fully_and_start_at(offset)
    append(log, b"new")
    log.close()
    log = open_log(tmp_path)
    assert (log.log_start_offset, contents(log)) == (offset, [(offset, b"new")])


def test_retention_survives(tmp_path: Path) -> None:
    write_log(tmp_path)
    log = open_log(tmp_path, LogSettings(segment_bytes=250, retention_bytes=200))
    assert log.delete_old_segments(NOW, 8) == 1
    log.close()
    log = open_log(tmp_path, LogSettings(retention_bytes=0))
    assert log.log_start_offset == 3
    assert log.delete_old_segments(NOW, 8) == 2
    log.close()
    log = open_log(tmp_path)
    assert (log.log_start_offset, log.end_offset) == (8, 8)


def test_log_without_checkpoint_starts_with_the_first_segment(tmp_path: Path) -> None:
    records = write_log(tmp_path)
    (tmp_path / "log-start-offset").write_bytes(b"")
    assert contents(open_log(tmp_path)) == records


def test_other_files_are_ignored(tmp_path: Path) -> None:
    records = write_log(tmp_path)
    for name in ("00000000000000000000.index", "notes.log", "x.tmp"):
        (tmp_path / name).write_bytes(b"?")
    assert contents(open_log(tmp_path)) == records
    assert (tmp_path / "notes.log").exists()
    assert not (tmp_path / "x.tmp").exists()


def test_batches_of_any_size_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = LogSettings(segment_bytes=100_000)
    log = open_log(tmp_path, settings)
    for size in (10, 100, 1_000, 10, 20_000, 10, 990, 1):
        append(log, b"x" * size)
    records = contents(log)
    log.close()
    for chunk in (12, 61, 100, 1_000, 1_024, 10_000):
        monkeypatch.setattr(recovery, "_CHUNK_BYTES", chunk)
        again = open_log(tmp_path, settings)
        assert contents(again) == records
        again.close()
    assert not caplog.records
    for noise in (b"\xff" * 20_000, b"\0" * 20_000):
        with files(tmp_path)[0].open("ab") as file:
            file.write(noise)
        assert contents(open_log(tmp_path, settings)) == records
        assert "20000 bytes" in caplog.text
        assert "no batch has length" in caplog.text
        caplog.clear()
    os.truncate(files(tmp_path)[0], files(tmp_path)[0].stat().st_size - 1)
    assert contents(open_log(tmp_path, settings)) == records[:-1]


def test_many_logs_share_few_open_files(tmp_path: Path) -> None:
    shared = OpenFiles(3)
    logs = [
        PartitionLog.open(f"t-{number}", tmp_path / str(number), SMALL, files=shared)
        for number in range(20)
    ]
    for _ in range(8):
        for number, log in enumerate(logs):
            append(log, b"%d" % number)
            assert len(shared) <= 3
    for number, log in enumerate(logs):
        log.check()
        assert contents(log) == [(offset, b"%d" % number) for offset in range(8)]
        log.close()
    assert len(shared) == 0


def test_batch_of_later_offsets_is_truncated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(tmp_path, 3)
    with files(tmp_path)[0].open("ab") as file:
        file.write(with_fields(batch(b"later"), base_offset=7))
    assert open_log(tmp_path).end_offset == 3
    assert "the next batch can't have offsets 7 to 7" in caplog.text
