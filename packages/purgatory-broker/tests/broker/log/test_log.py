"""A partition's log."""

from __future__ import annotations

from pathlib import Path

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import read_header, split_batches
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.record import build_batch
from tests.broker.log.batches import (
    NOW,
    SETTINGS,
    append,
    batch,
    contents,
    headers_of,
)
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import EVERYTHING, SMALL, refused, segments

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
