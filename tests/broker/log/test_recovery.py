"""What a log finds when it is opened."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from request_purgatory.broker.log import (
    LogSettings,
    OpenFiles,
    PartitionLog,
    RecordError,
    recovery,
)
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import NOW, append, batch, changed, contents

SMALL = LogSettings(segment_bytes=250, retention_ms=None)


_opened: list[PartitionLog] = []


@pytest.fixture(autouse=True)
def _close_logs() -> Iterator[None]:
    """Close what `opened` has opened, at the end: most logs here end without, as in a crash."""
    yield
    while _opened:
        _opened.pop().close()


def opened(folder: Path, settings: LogSettings = SMALL) -> PartitionLog:
    """The log in a folder, whose invariants hold."""
    log = PartitionLog.open("t-0", folder, settings)
    _opened.append(log)
    log.check()
    return log


def filled(folder: Path, count: int = 8) -> list[tuple[int, bytes | None]]:
    """Write a log of several segments; its records."""
    log = opened(folder)
    for number in range(count):
        append(log, b"%d" % number, epoch=number // 2)
    records = contents(log)
    log.close()
    return records


def files(folder: Path) -> list[Path]:
    """The segments' files, in order."""
    return sorted(folder.glob("*.log"))


def test_reopened_log_is_as_it_was(tmp_path: Path) -> None:
    """Offsets, epochs, producers and times."""
    log = opened(tmp_path)
    for number in range(9):
        append(log, b"%d" % number, epoch=number // 2, now_ms=NOW + number)
    for sequence in range(3):
        log.append_as_leader(batch(b"p", producer=(4, 1, sequence)), 9, NOW)
    log.advance_start(1)
    before = (
        contents(log),
        log.log_start_offset,
        log.end_offset,
        [log.epoch_end(epoch) for epoch in range(11)],
        log.offset_at_time(NOW + 5, 99),
        log.max_timestamp_offset(),
        log.size_bytes,
    )
    log.close()
    again = opened(tmp_path)
    assert before == (
        contents(again),
        again.log_start_offset,
        again.end_offset,
        [again.epoch_end(epoch) for epoch in range(11)],
        again.offset_at_time(NOW + 5, 99),
        again.max_timestamp_offset(),
        again.size_bytes,
    )
    assert again.append_as_leader(batch(b"p", producer=(4, 1, 1)), 9, NOW).base_offset == 10
    with pytest.raises(RecordError) as caught:
        again.append_as_leader(batch(b"p", producer=(4, 1, 9)), 9, NOW)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert append(again, b"new", epoch=9) == 12


def test_files_have_kafkas_names(tmp_path: Path) -> None:
    """The base offset in twenty digits."""
    filled(tmp_path)
    assert [path.name for path in files(tmp_path)] == [f"{base:020d}.log" for base in (0, 3, 6)]


def test_log_that_was_not_closed_is_whole(tmp_path: Path) -> None:
    """Every append is in the file when it returns."""
    log = opened(tmp_path)
    append(log, b"a")
    append(log, b"b")
    assert contents(opened(tmp_path)) == [(0, b"a"), (1, b"b")]


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
def test_torn_tail_is_cut_off(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that says how many bytes.

    A whole batch that does not follow is none of this log's.
    """
    records = filled(tmp_path)
    size = files(tmp_path)[-1].stat().st_size
    with files(tmp_path)[-1].open("ab") as file:
        file.write(torn)
    log = opened(tmp_path)
    assert contents(log) == records
    assert files(tmp_path)[-1].stat().st_size == size
    assert f"{len(torn)} bytes at {size} are cut off, offset 8 is the next" in caplog.text
    assert append(log, b"new", epoch=9) == 8
    log.close()
    caplog.clear()
    assert contents(opened(tmp_path)) == [*records, (8, b"new")]
    assert not caplog.records


@pytest.mark.parametrize("cut", [1, 20, 61, 71, 72, 73, 144, 145, 216, 217])
def test_cut_file_keeps_its_whole_batches(tmp_path: Path, cut: int) -> None:
    """Wherever the cut is."""
    records = filled(tmp_path, 3)
    (path,) = files(tmp_path)
    size = path.stat().st_size
    os.truncate(path, max(size - cut, 0))
    log = opened(tmp_path)
    whole = (size - min(cut, size)) // (size // 3)
    assert contents(log) == records[:whole]
    assert path.stat().st_size == whole * size // 3


@pytest.mark.parametrize("at", [0, 10, 20, 25, 60, 70])
def test_log_ends_before_its_first_corrupt_batch(
    tmp_path: Path, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Later segments are dropped, as Kafka does: offsets have no gaps."""
    records = filled(tmp_path)
    before = files(tmp_path)
    data = bytearray(before[1].read_bytes())
    size = len(data) // 3
    data[size + at] ^= 0x55
    before[1].write_bytes(data)
    log = opened(tmp_path)
    assert (contents(log), log.end_offset) == (records[:4], 4)
    assert files(tmp_path) == before[:2]
    assert log.latest_epoch == 1
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert str(before[2]) in caplog.text


def test_part_of_a_failed_append_costs_no_later_segment(tmp_path: Path) -> None:
    """A full disk may leave one in a segment that others follow; no offset is missing."""
    records = filled(tmp_path)
    with files(tmp_path)[0].open("ab") as file:
        file.write(batch(b"torn")[:-1])
    assert contents(opened(tmp_path)) == records


def test_missing_segment_ends_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is behind the gap is dropped."""
    records = filled(tmp_path)
    files(tmp_path)[1].unlink()
    assert contents(opened(tmp_path)) == records[:3]
    assert "the log is whole only up to offset 3" in caplog.text
    assert len(files(tmp_path)) == 1


def test_start_survives(tmp_path: Path) -> None:
    """Inside a batch, too; with segments that were about to be deleted when the process died."""
    records = filled(tmp_path)
    (tmp_path / "log-start-offset").write_text("0\n4\n")
    log = opened(tmp_path)
    assert (log.log_start_offset, contents(log), log.epoch_start(2)) == (4, records[4:], 4)
    assert [int(path.stem) for path in files(tmp_path)] == [3, 6]


def test_segments_before_the_start_are_not_read(tmp_path: Path) -> None:
    """What is corrupt there costs nothing that counts."""
    records = filled(tmp_path)
    files(tmp_path)[0].write_bytes(b"?" * 100)
    (tmp_path / "log-start-offset").write_text("0\n3\n")
    log = opened(tmp_path)
    assert (log.log_start_offset, contents(log)) == (3, records[3:])


def test_log_that_ends_before_its_start_begins_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The process died while the log was truncated fully."""
    filled(tmp_path)
    (tmp_path / "log-start-offset").write_text("0\n50\n")
    log = opened(tmp_path)
    assert (log.log_start_offset, log.end_offset, log.latest_epoch, log.size_bytes) == (
        50,
        50,
        -1,
        0,
    )
    assert "ends at offset 8, before its start offset 50" in caplog.text
    assert append(log) == 50
    log.close()
    assert contents(opened(tmp_path)) == [(50, b"value")]


@pytest.mark.parametrize("offset", [2, 5, 40])
def test_full_truncation_survives(tmp_path: Path, offset: int) -> None:
    """Also to an offset before the start that was kept."""
    filled(tmp_path)
    log = opened(tmp_path)
    log.advance_start(4)
    log.truncate_fully(offset)
    append(log, b"new")
    log.close()
    log = opened(tmp_path)
    assert (log.log_start_offset, contents(log)) == (offset, [(offset, b"new")])


def test_retention_survives(tmp_path: Path) -> None:
    """Though it writes no checkpoint: the first segment's name says it.

    Also when nothing is left.
    """
    filled(tmp_path)
    log = opened(tmp_path, LogSettings(segment_bytes=250, retention_bytes=200))
    assert log.delete_old(NOW, 8) == 1
    log.close()
    log = opened(tmp_path, LogSettings(retention_bytes=0))
    assert log.log_start_offset == 3
    assert log.delete_old(NOW, 8) == 2
    log.close()
    log = opened(tmp_path)
    assert (log.log_start_offset, log.end_offset) == (8, 8)


def test_lost_checkpoint_leaves_the_first_segments_start(tmp_path: Path) -> None:
    """Rather than a log that does not open."""
    records = filled(tmp_path)
    (tmp_path / "log-start-offset").write_bytes(b"")
    assert contents(opened(tmp_path)) == records


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    """But what a checkpoint left half written."""
    records = filled(tmp_path)
    for name in ("00000000000000000000.index", "notes.log", "x.tmp"):
        (tmp_path / name).write_bytes(b"?")
    assert contents(opened(tmp_path)) == records
    assert (tmp_path / "notes.log").exists()
    assert not (tmp_path / "x.tmp").exists()


def test_batches_of_any_size_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Smaller than what is read at a time, or larger, or across two readings."""
    settings = LogSettings(segment_bytes=100_000)
    log = opened(tmp_path, settings)
    for size in (10, 100, 1_000, 10, 20_000, 10, 990, 1):
        append(log, b"x" * size)
    records = contents(log)
    log.close()
    for chunk in (12, 61, 100, 1_000, 1_024, 10_000):
        monkeypatch.setattr(recovery, "_CHUNK_BYTES", chunk)
        again = opened(tmp_path, settings)
        assert contents(again) == records
        again.close()
    assert not caplog.records
    for noise in (b"\xff" * 20_000, b"\0" * 20_000):
        with files(tmp_path)[0].open("ab") as file:
            file.write(noise)
        assert contents(opened(tmp_path, settings)) == records
        assert "20000 bytes" in caplog.text
        assert "no batch has length" in caplog.text
        caplog.clear()
    os.truncate(files(tmp_path)[0], files(tmp_path)[0].stat().st_size - 1)
    assert contents(opened(tmp_path, settings)) == records[:-1]


def test_many_logs_share_few_open_files(tmp_path: Path) -> None:
    """Appending, reading, rolling and reopening."""
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


def test_segment_with_a_batch_of_later_offsets_is_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checksum is right, and its place is not."""
    filled(tmp_path, 3)
    with files(tmp_path)[0].open("ab") as file:
        file.write(changed(batch(b"later"), base_offset=7))
    assert opened(tmp_path).end_offset == 3
    assert "offsets 7 to 7 can't be the next" in caplog.text
