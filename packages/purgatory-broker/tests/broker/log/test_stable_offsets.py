"""The last stable offset of a log, and the aborted transactions before it."""

from __future__ import annotations

from tests.broker.log.batches import NOW, append, batch
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import SMALL, segments
from tests.broker.log.transactions import (
    abort,
    aborted,
    commit,
    read_committed,
    stable_offset,
    write,
)

END = 10**6


def test_open_transaction_holds_the_stable_offset_back(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a")
    write(log, b"b")
    append(log, b"c")
    write(log, b"d", sequence=1)
    assert log.first_unstable_offset == 1
    assert [stable_offset(log, at) for at in (0, 1, 4)] == [0, 1, 1]
    commit(log)
    assert log.first_unstable_offset == 1
    log.replicated(4)
    assert log.first_unstable_offset == 1
    log.replicated(5)
    assert log.first_unstable_offset is None
    assert stable_offset(log, 5) == 5


def test_oldest_of_several_transactions_counts(make_log: MakeLog) -> None:
    log = make_log()
    for producer_id in (7, 8, 9):
        write(log, producer_id=producer_id)
    commit(log, producer_id=8)
    log.replicated(4)
    assert log.first_unstable_offset == 0
    abort(log, producer_id=7)
    assert log.first_unstable_offset == 0
    log.replicated(5)
    assert log.first_unstable_offset == 2
    commit(log, producer_id=9)
    log.replicated(6)
    assert log.first_unstable_offset is None


def test_stable_offset_does_not_go_back_while_an_abort_is_replicated(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=7)
    write(log, producer_id=8)
    abort(log, producer_id=8)
    abort(log, producer_id=7)
    seen = []
    for high_watermark in range(5):
        log.replicated(high_watermark)
        seen.append(stable_offset(log, high_watermark))
    assert seen == [0, 0, 0, 0, 4]


def test_records_outside_of_transactions_are_stable(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(batch(b"a", producer=(5, 0, 0)), 1, NOW)
    append(log, b"b")
    assert log.first_unstable_offset is None


def test_log_start_offset_limits_the_unstable_offset(make_log: MakeLog) -> None:
    log = make_log()
    write(log, b"a", b"b", b"c")
    log.advance_log_start_offset(2)
    assert log.first_unstable_offset == 2
    commit(log)
    log.advance_log_start_offset(4)
    assert log.first_unstable_offset is None


def test_aborted_transactions_of_a_read_are_those_with_records_in_it(make_log: MakeLog) -> None:
    log = make_log()
    sizes = []
    for producer_id, sequence in ((7, 0), (8, 0), (7, 1)):
        before = log.size_bytes
        write(log, b"v", producer_id=producer_id, sequence=sequence)
        sizes.append(log.size_bytes - before)
    abort(log, producer_id=8)
    abort(log, producer_id=7)
    write(log, sequence=2)
    commit(log)
    assert aborted(log, 0, END) == [(8, 1), (7, 0)]
    assert aborted(log, 0, sizes[0]) == [(7, 0)]
    assert aborted(log, 0, sizes[0] + sizes[1]) == [(8, 1), (7, 0)]
    assert aborted(log, 2, sizes[2]) == [(8, 1), (7, 0)]
    assert aborted(log, 4, 78) == [(7, 0)]
    assert aborted(log, 5, END) == []
    assert aborted(log, 0, 0) == []


def test_search_ends_where_everything_later_is_decided(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for sequence in range(9):
        write(log, sequence=sequence)
        abort(log)
    assert len(segments(log)) > 3
    first = segments(log)[0].aborted
    assert [first.overlapping(0, limit, []) for limit in (1, 2, 3)] == [True, True, False]
    assert aborted(log, 0, 1) == [(7, 0)]
    assert aborted(log, 5, END) == [(7, 4)]


def test_transaction_over_several_segments_is_found_from_each(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for sequence in range(8):
        write(log, b"v", sequence=sequence)
    append(log, b"c")
    abort(log)
    assert len(segments(log)) >= 4
    for offset in range(10):
        assert aborted(log, offset, 1) == [(7, 0)]
    assert read_committed(log, 0) == []
    log.replicated(10)
    assert read_committed(log, 10) == [(8, b"c")]


def test_deleted_segments_take_their_aborted_transactions_along(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    for sequence in range(6):
        write(log, sequence=sequence)
        abort(log)
    log.advance_log_start_offset(8)
    assert sum(len(segment.aborted) for segment in segments(log)) < 4
    assert aborted(log, 8, END) == [(7, 8)]
    log.truncate_to(9)
    assert aborted(log, 8, END) == []


def test_read_committed_consumer_reads_no_aborted_record(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    write(log, b"a", producer_id=7)
    write(log, b"b", producer_id=8)
    append(log, b"c")
    abort(log, producer_id=7)
    write(log, b"d", producer_id=7, sequence=1)
    commit(log, producer_id=8)
    write(log, b"e", producer_id=8, sequence=1)
    commit(log, producer_id=7)
    log.replicated(log.end_offset)
    assert read_committed(log, 8) == [(1, b"b"), (2, b"c"), (4, b"d")]
    abort(log, producer_id=8)
    log.replicated(log.end_offset)
    assert read_committed(log, 9) == [(1, b"b"), (2, b"c"), (4, b"d")]
