"""A pass over a compacted log in several segments, in turns, and opened again."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log import compaction as compaction_module
from purgatory_broker.log.batch import split_batches
from purgatory_broker.log.compaction import CompactionAbortedError
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import headers_of, replicate
from tests.broker.log.compactions import compact, compaction, left, put
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import EVERYTHING, refused, segments

RETENTION_MS = 1_000


# -- segments


def test_small_segments_become_one(make_log: MakeLog) -> None:
    log = make_log(compacted=True, segment_bytes=400)
    for number in range(20):
        put(log, (b"%d" % number, b"x"))
        log.roll()
    sizes = [segment.size for segment in segments(log)]
    compact(log)
    assert len(left(log)) == 20
    together = [segment.size for segment in segments(log)]
    assert together[:-1] == [sum(sizes[start : start + 5]) for start in range(0, 20, 5)]
    assert [segment.base_offset for segment in segments(log)] == [0, 5, 10, 15, 20]


def test_segment_without_records_gets_the_next_ones(make_log: MakeLog) -> None:
    """Java's consumer returns nothing from a poll that has fetched only empty batches."""
    log = make_log(compacted=True, segment_bytes=300)
    for number in range(40):
        put(log, (b"%d" % (number % 4), b"x" * 200))
    compact(log)
    assert [segment.base_offset for segment in segments(log)] == [0, 37, 38, 39, 40]
    data = log.read(0, 1_000, EVERYTHING, at_least_one=True)
    assert max(header.record_count for header, _ in split_batches(data)) == 1


@pytest.mark.parametrize("clean", [True, False])
def test_compacted_log_is_opened_again(
    tmp_path: Path, clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    settings = LogSettings(compacted=True, segment_bytes=300)
    log = PartitionLog.open("t-0", tmp_path, settings)
    for number in range(30):
        put(log, (b"%d" % (number % 7), b"%d" % number), epoch=1 + number // 10)
    compact(log, limit_offset=25)
    put(log, (b"new", b"x"), epoch=4)
    before = left(log), list(headers_of(log)), log.cleaned_offset
    log.close(clean=clean)
    log = PartitionLog.open("t-0", tmp_path, settings)
    log.check()
    assert (left(log), list(headers_of(log)), log.cleaned_offset) == before
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    log.close()


@pytest.mark.parametrize("clean", [True, False])
def test_log_of_a_compacted_leader_is_opened_again(tmp_path: Path, clean: bool) -> None:
    leader = PartitionLog.in_memory("t-0", LogSettings(compacted=True, segment_bytes=300))
    for number in range(30):
        put(leader, (b"%d" % (number % 7), b"%d" % number))
    compact(leader)
    # The topic's policy was changed meanwhile.
    log = PartitionLog.open("t-1", tmp_path, LogSettings(segment_bytes=200))
    replicate(leader, log)
    log.check()
    log.close(clean=clean)
    log = PartitionLog.open("t-1", tmp_path, LogSettings(segment_bytes=200))
    log.check()
    assert (left(log), log.end_offset, log.cleaned_offset) == (left(leader), 30, 0)
    log.close()


def test_truncation_takes_compaction_back(make_log: MakeLog) -> None:
    log = make_log(compacted=True)
    for number in range(6):
        put(log, (b"%d" % (number % 2), b"x"))
    compact(log)
    put(log, (b"1", b"y"))
    log.truncate_to(6)
    assert (log.end_offset, log.cleaned_offset) == (6, 6)
    log.truncate_to(5)
    assert (log.end_offset, log.cleaned_offset) == (5, 5)
    log.check()
    log.truncate_to(3)  # In a gap: the log ends with the batch before it.
    log.check()
    assert (log.end_offset, log.cleaned_offset) == (1, 1)
    log.truncate_fully_and_start_at(0)
    assert log.cleaned_offset == 0
    put(log, (b"1", b"z"))
    log.check()


def test_damaged_batch_ends_the_pass(tmp_path: Path) -> None:
    log = PartitionLog.open("t-0", tmp_path, LogSettings(compacted=True))
    put(log, (b"a", b"1"), (b"a", b"2"))
    put(log, (b"b", b"1"))
    log.close(clean=True)
    (path,) = tmp_path.glob("*.log")
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    log = PartitionLog.open("t-0", tmp_path, LogSettings(compacted=True))
    log.roll()
    with refused(ErrorCode.CORRUPT_MESSAGE):
        list(compaction(log).run())
    assert [each.name for each in tmp_path.glob("*0.log*")] == [path.name]
    assert path.read_bytes() == data
    log.close()


# -- slices


def test_pass_takes_turns(make_log: MakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 50)
    log = make_log(compacted=True, segment_bytes=4_000)
    for number in range(100):
        put(log, *[(b"%d" % (number % 10), b"x")] * 10)
    log.roll()
    turns = 0
    for _ in compaction(log).run():
        turns += 1
        # Others append meanwhile, and read.
        put(log, (b"9", b"new"))
        assert log.read(0, 1, EVERYTHING, at_least_one=True)
    assert turns >= 2 * 1_000 // 50
    log.check()
    assert len([value for _, _, value in left(log) if value == b"x"]) == 10
    assert len(left(log)) == 10 + turns


CHANGES = {
    "deleted records": lambda log: log.advance_log_start_offset(15),
    "truncated": lambda log: log.truncate_to(2),
    "truncated and filled": lambda log: (log.truncate_to(15), put(log, (b"a", b"x")), log.roll()),
    "emptied": lambda log: log.truncate_fully_and_start_at(30),
    "closed": lambda log: log.close(),
    "deleted": lambda log: log.delete(),
}


@pytest.mark.parametrize("turns", [0, 3, 15])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_pass_ends_if_its_segments_change(
    make_log: MakeLog, change: object, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 1)
    log = make_log(compacted=True, segment_bytes=300)
    for number in range(20):
        put(log, (b"%d" % number, b"x"))
    log.roll()
    steps = compaction(log).run()
    for _ in range(turns):
        next(steps)
    change(log)  # type: ignore[operator]
    with pytest.raises(CompactionAbortedError):
        list(steps)


def test_pass_ends_if_its_last_segment_was_truncated_and_filled(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction_module, "RECORDS_PER_SLICE", 1)
    log = make_log(compacted=True)
    for number in range(10):
        put(log, (b"%d" % number, b"x"))
    log.roll()
    steps = compaction(log).run()
    next(steps)
    log.truncate_to(5)
    put(log, (b"a", b"x"))
    log.roll()
    with pytest.raises(CompactionAbortedError):
        list(steps)


def test_pass_that_changes_nothing_keeps_all(make_log: MakeLog) -> None:
    log = make_log(compacted=True, segment_bytes=300)
    for number in range(20):
        put(log, (b"%d" % number, b"x"))
    log.roll()
    before = log.read(0, EVERYTHING, EVERYTHING, at_least_one=True)
    for _ in range(2):
        compact(log)
        assert log.read(0, EVERYTHING, EVERYTHING, at_least_one=True) == before
