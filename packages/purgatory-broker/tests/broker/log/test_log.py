"""A partition's log."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import read_header, split_batches
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.record import build_batch
from purgatory_broker.log.segment import Segment
from tests.broker.log.batches import (
    NOW,
    SETTINGS,
    append,
    batch,
    contents,
    headers_of,
    replicate,
    with_fields,
)
from tests.broker.log.conftest import MakeLog

#: A segment of two or three batches of the tests.
SMALL = 250
EVERYTHING = 10**9


def refused(code: ErrorCode) -> pytest.RaisesExc[RecordError]:
    """Return a context manager that expects a RecordError with this code."""
    return pytest.raises(RecordError, check=lambda error: error.code is code)


# -- appending and reading


def test_empty_log_has_no_records(make_log: MakeLog) -> None:
    log = make_log()
    assert (log.log_start_offset, log.end_offset, log.latest_epoch, log.size_bytes) == (0, 0, -1, 0)
    assert log.read(0, 100, EVERYTHING, at_least_one=True) == b""
    assert (log.end_offset_for_epoch(3), log.epoch_start_offset(3), log.epoch_at(0)) == (
        (-1, -1),
        0,
        -1,
    )
    assert (
        log.offset_for_timestamp(0, EVERYTHING),
        log.max_timestamp_offset(),
        list(log.batches()),
    ) == (
        None,
        None,
        [],
    )
    assert (log.bytes_between(0, 100), log.delete_old_segments(NOW, 0)) == (0, 0)


def test_records_keep_their_offsets(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    bases = [append(log, *[b"%d" % number] * (number % 3 + 1)) for number in range(20)]
    values = [b"%d" % number for number in range(20) for _ in range(number % 3 + 1)]
    assert contents(log) == list(enumerate(values))
    assert [header.base_offset for header in headers_of(log)] == bases
    assert contents(log)[5:] == [(record.offset, record.value) for record in log.records(5)]
    assert log.size_bytes == sum(header.size for header in headers_of(log))


def test_read_stops_at_the_end_of_a_segment(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for number in range(9):
        append(log, b"%d" % number)
    offset, reads = 0, []
    while data := log.read(offset, EVERYTHING, EVERYTHING, at_least_one=False):
        assert len(data) <= SMALL
        reads.append(data)
        offset = [header.next_offset for header, _ in split_batches(data)][-1]
    assert offset == 9
    assert len(reads) > 2
    assert (
        sum(map(len, reads))
        == log.size_bytes
        == log.bytes_between(0, 9)
        == log.bytes_between(0, EVERYTHING)
    )
    assert log.bytes_between(3, 8) == sum(header.size for header in headers_of(log)[3:8])
    assert log.bytes_between(8, 3) == 0


def test_read_outside_the_log_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    for _ in range(3):
        append(log)
    log.advance_log_start_offset(1)
    for offset in (-1, 0, 4):
        with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
            log.read(offset, 100, 3, at_least_one=True)
    assert log.read(3, 100, 3, at_least_one=True) == b""
    assert log.read(2, 100, 1, at_least_one=True) == b""
    assert read_header(log.read(1, 0, 2, at_least_one=True)).base_offset == 1


def test_batch_larger_than_a_segment_has_its_own_segment(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    append(log)
    append(log, b"x" * 1_000)
    append(log)
    assert len(list(log._segments)) == 3
    assert contents(log)[1] == (1, b"x" * 1_000)


def test_internal_batches_are_read_back(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(build_batch([(b"a", b"1"), (b"b", None)], NOW), 3, NOW, internal=True)
    log.append_as_leader(build_batch([(b"a", b"2")], NOW + 1), 3, NOW, internal=True)
    assert [tuple(record) for record in log.records()] == [
        (0, b"a", b"1", NOW),
        (1, b"b", None, NOW),
        (2, b"a", b"2", NOW + 1),
    ]


def test_closed_log_refuses_every_operation(make_log: MakeLog) -> None:
    log = make_log()
    append(log)
    log.close()
    log.close()
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        append(log)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.read(0, 1, 1, at_least_one=True)
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        log.flush()


def test_deleted_log_leaves_no_files(tmp_path: Path) -> None:
    log = PartitionLog.open("t-0", tmp_path / "t-0", SETTINGS)
    append(log)
    log.delete()
    log.delete()
    assert list(tmp_path.iterdir()) == []


# -- the follower


def test_follower_has_the_leaders_bytes(make_log: MakeLog) -> None:
    leader, follower = (
        make_log(message_timestamp_type="LogAppendTime"),
        make_log(segment_bytes=SMALL),
    )
    for number in range(7):
        append(leader, b"%d" % number, epoch=number // 3)
    leader.append_as_leader(batch(b"z" * 5_000, codec=1), 4, NOW)
    replicate(leader, follower)
    assert [bytes(data) for _, data in follower.batches()] == [
        bytes(data) for _, data in leader.batches()
    ]
    assert [follower.end_offset_for_epoch(epoch) for epoch in range(6)] == [
        leader.end_offset_for_epoch(epoch) for epoch in range(6)
    ]
    assert follower.latest_epoch == 4


def test_follower_skips_a_torn_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    append(leader, b"a")
    append(leader, b"b")
    data = leader.read(0, EVERYTHING, EVERYTHING, at_least_one=True)
    follower.append_as_follower(data[:-1])
    assert follower.end_offset == 1
    follower.append_as_follower(leader.read(1, EVERYTHING, EVERYTHING, at_least_one=True)[:30])
    assert follower.end_offset == 1
    follower.append_as_follower(b"")
    replicate(leader, follower)
    assert contents(follower) == contents(leader)


def test_follower_refuses_gaps_and_overlaps(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    for _ in range(4):
        append(leader)
    parts = [bytes(data) for _, data in leader.batches()]
    for wrong in (parts[1], parts[0] + parts[2], parts[0] + parts[0]):
        with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
            follower.append_as_follower(wrong)
    follower.append_as_follower(parts[0] + parts[1])
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.append_as_follower(parts[1] + parts[2])
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.append_as_follower(with_fields(batch(b"a", b"b", b"c"), base_offset=1))
    assert follower.end_offset == 2


def test_follower_refuses_a_corrupt_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    append(leader, b"a")
    append(leader, b"b")
    data = bytearray(leader.read(0, EVERYTHING, EVERYTHING, at_least_one=True))
    data[-3] ^= 1
    with refused(ErrorCode.CORRUPT_MESSAGE):
        follower.append_as_follower(bytes(data))
    assert (follower.end_offset, follower.size_bytes, follower.latest_epoch) == (0, 0, -1)


def test_follower_skips_batches_of_a_later_epoch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    for epoch in (1, 2, 3):
        append(leader, epoch=epoch)
    data = leader.read(0, EVERYTHING, EVERYTHING, at_least_one=True)
    follower.append_as_follower(data, max_epoch=2)
    assert (follower.end_offset, follower.latest_epoch) == (2, 2)


def test_empty_follower_may_start_inside_a_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(), make_log()
    append(leader, *[b"v"] * 10)
    append(leader, b"w")
    leader.advance_log_start_offset(4)
    follower.truncate_fully_and_start_at(4)
    replicate(leader, follower)
    follower.check()
    assert (follower.log_start_offset, follower.end_offset, follower.epoch_start_offset(1)) == (
        4,
        11,
        4,
    )
    assert contents(follower) == contents(leader)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        follower.read(3, 1, 11, at_least_one=True)


# -- epochs


def test_new_epoch_starts_at_the_end_of_the_log(make_log: MakeLog) -> None:
    log = make_log()
    log.begin_epoch(2)
    assert (log.latest_epoch, log.end_offset_for_epoch(2), log.epoch_start_offset(2)) == (
        2,
        (2, 0),
        0,
    )
    append(log, b"a", b"b", epoch=2)
    log.begin_epoch(5)
    assert (
        log.end_offset_for_epoch(2),
        log.end_offset_for_epoch(4),
        log.end_offset_for_epoch(5),
        log.end_offset_for_epoch(6),
    ) == (
        (2, 2),
        (2, 2),
        (5, 2),
        (-1, -1),
    )
    assert log.epoch_start_offset(5) == 2
    log.truncate_to(2)
    assert log.latest_epoch == 2


def test_diverging_follower_finds_where_to_truncate(make_log: MakeLog) -> None:
    old, new = make_log(), make_log()
    append(old, b"both", epoch=1)
    replicate(old, new)
    append(old, b"lost", epoch=1)
    append(old, b"lost too", epoch=1)
    new.begin_epoch(2)
    append(new, b"kept", epoch=2)
    epoch, end = new.end_offset_for_epoch(old.latest_epoch)
    assert (epoch, end) == (1, 1)
    old.truncate_to(end)
    replicate(new, old)
    assert contents(old) == contents(new) == [(0, b"both"), (1, b"kept")]


# -- truncation


@pytest.mark.parametrize("offset", range(12))
def test_truncated_log_ends_at_a_batch(make_log: MakeLog, offset: int) -> None:
    log = make_log(segment_bytes=SMALL)
    for number in range(5):
        append(log, b"%d" % number, b"%d" % number, epoch=number)
    before = contents(log)
    log.truncate_to(offset)
    log.check()
    end = min(offset // 2 * 2, 10)
    assert (log.end_offset, contents(log)) == (end, before[:end])
    assert log.latest_epoch == end // 2 - 1
    assert append(log, b"new", epoch=9) == end
    assert contents(log)[-1] == (end, b"new")


def test_truncation_before_the_start_leaves_an_empty_log(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for _ in range(6):
        append(log)
    log.advance_log_start_offset(4)
    log.truncate_to(2)
    log.check()
    assert (log.log_start_offset, log.end_offset, log.latest_epoch) == (2, 2, -1)
    assert append(log) == 2


def test_truncation_of_all_records_keeps_the_log_start_offset(make_log: MakeLog) -> None:
    log = make_log()
    append(log, *[b"v"] * 10)
    log.advance_log_start_offset(4)
    log.truncate_to(7)
    log.check()
    assert (log.log_start_offset, log.end_offset, log.size_bytes) == (4, 4, 0)


@pytest.mark.parametrize("offset", [0, 2, 3, 5, 6, 7, 100])
def test_fully_truncated_log_starts_at_any_offset(make_log: MakeLog, offset: int) -> None:
    log = make_log(segment_bytes=SMALL)
    for _ in range(6):
        append(log)
    log.truncate_fully_and_start_at(offset)
    log.check()
    assert (log.log_start_offset, log.end_offset, log.latest_epoch, log.size_bytes) == (
        offset,
        offset,
        -1,
        0,
    )
    assert append(log, b"new") == offset
    assert contents(log) == [(offset, b"new")]


# -- the log start offset


def test_deleted_records_are_not_read(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for number in range(6):
        append(log, b"%d" % number, b"%d" % number)
    size, before = log.size_bytes, contents(log)
    for start in range(1, 13):
        log.advance_log_start_offset(start)
        log.check()
        assert (log.log_start_offset, contents(log)) == (start, before[start:])
        if start < 12:
            assert (
                read_header(log.read(start, 1, 12, at_least_one=True)).base_offset == start // 2 * 2
            )
    assert log.size_bytes == size // 2
    log.advance_log_start_offset(3)
    assert log.log_start_offset == 12
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.advance_log_start_offset(13)
    assert append(log) == 12
    assert log.delete_old_segments(NOW, 0) == 1
    assert len(segments(log)) == 1


def test_epochs_before_the_log_start_offset_are_removed(make_log: MakeLog) -> None:
    log = make_log()
    for epoch in (1, 2, 3):
        append(log, b"a", b"b", epoch=epoch)
    log.advance_log_start_offset(3)
    assert (
        log.end_offset_for_epoch(1),
        log.epoch_start_offset(2),
        log.end_offset_for_epoch(2),
    ) == ((1, 3), 3, (2, 4))


# -- timestamps


def test_first_record_at_or_after_a_time_is_found(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    times = [10, 30, 20, 40, 40, 5, 60]
    for time in times:
        append(log, b"v", now_ms=NOW + time)
    for time in range(65):
        later = [offset for offset, each in enumerate(times) if each >= time]
        wanted = (NOW + times[later[0]], later[0]) if later else None
        assert log.offset_for_timestamp(NOW + time, EVERYTHING) == wanted
    assert log.max_timestamp_offset() == (NOW + 60, 6)


def test_record_of_a_time_is_found_inside_a_batch(make_log: MakeLog) -> None:
    log = make_log()
    for codec in (0, 1):
        log.append_as_leader(
            batch(*[b"v" * 50] * 3, timestamps=[NOW, NOW + 2, NOW + 1], codec=codec), 1, NOW
        )
    assert log.offset_for_timestamp(NOW + 1, EVERYTHING) == (NOW + 2, 1)
    assert log.max_timestamp_offset() == (NOW + 2, 1)
    log.advance_log_start_offset(2)
    assert log.offset_for_timestamp(NOW + 2, EVERYTHING) == (NOW + 2, 4)
    assert log.offset_for_timestamp(NOW, EVERYTHING) == (NOW + 1, 2)


def test_record_beyond_the_limit_is_not_found(make_log: MakeLog) -> None:
    log = make_log()
    append(log, now_ms=NOW)
    append(log, now_ms=NOW + 10)
    assert log.offset_for_timestamp(NOW + 5, 2) == (NOW + 10, 1)
    assert log.offset_for_timestamp(NOW + 5, 1) is None


def test_deleted_timestamps_do_not_hide_later_ones(make_log: MakeLog) -> None:
    log = make_log()
    for time in (0, 90, 10, 50, 20):
        append(log, now_ms=NOW + time)
    log.advance_log_start_offset(2)
    assert log.offset_for_timestamp(NOW + 40, EVERYTHING) == (NOW + 50, 3)
    assert log.offset_for_timestamp(NOW + 60, EVERYTHING) is None


def test_truncated_timestamps_are_not_found(make_log: MakeLog) -> None:
    log = make_log()
    append(log, now_ms=NOW)
    append(log, now_ms=NOW + 10)
    log.truncate_to(1)
    assert log.offset_for_timestamp(NOW + 5, EVERYTHING) is None
    assert log.max_timestamp_offset() == (NOW, 0)


def test_records_without_timestamps_have_no_latest_one(make_log: MakeLog) -> None:
    log = make_log(retention_ms=1)
    log.append_as_leader(batch(b"v", timestamps=[-1]), 1, NOW)
    assert log.max_timestamp_offset() is None
    assert log.delete_old_segments(NOW + 10**12, 1) == 0


# -- retention


def segments(log: PartitionLog) -> list[Segment]:
    """Return the segments of a log."""
    return list(log._segments)


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


# -- the disk


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
