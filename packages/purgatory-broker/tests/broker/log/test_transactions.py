"""Transactions in one log: markers, the last stable offset, and the aborted transactions."""

from __future__ import annotations

from pathlib import Path

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import read_header
from purgatory_broker.log.control_batch import EndMarker, marker_batch, read_end_marker
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.segment import Segment
from purgatory_broker.log.transaction_marker import TransactionMarker
from tests.broker.log.batches import NOW, append, batch, contents, replicate, with_fields
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import SMALL, refused, segments
from tests.broker.log.transactions import (
    abort,
    aborted,
    commit,
    read_committed,
    stable_offset,
    transactional,
    write,
)

END = 10**6


# -- markers


@pytest.mark.parametrize("is_commit", [True, False])
def test_marker_has_kafkas_bytes(is_commit: bool) -> None:
    data = marker_batch(TransactionMarker(4_000, 3, is_commit, 9), NOW)
    header = read_header(data)
    assert (header.size, header.attributes, header.record_count) == (78, 0x30, 1)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4_000, 3, -1)
    key = b"\x00\x00\x00\x01" if is_commit else b"\x00\x00\x00\x00"
    assert data[61:] == b"\x20\x00\x00\x00\x08" + key + b"\x0c\x00\x00\x00\x00\x00\x09\x00"
    assert read_end_marker(header, data) == EndMarker(is_commit, 9)


def test_other_control_records_are_no_markers() -> None:
    data = marker_batch(TransactionMarker(7, 0, is_commit=True, coordinator_epoch=0), NOW)
    leader_change = data[:69] + b"\x02" + data[70:]
    assert read_end_marker(read_header(data), leader_change) is None
    short = with_fields(batch(b"v", key=b"\x00", producer=(7, 0, -1)), attributes=0x30)
    assert read_end_marker(read_header(short), short) is None
    cut = data[:65]
    assert read_end_marker(read_header(data), cut) is None
    for key, value in ((None, b"\x00" * 6), (b"\x00" * 4, None)):
        null = with_fields(batch(value, key=key, producer=(7, 0, -1)), attributes=0x30)
        assert read_end_marker(read_header(null), null) is None
    empty = with_fields(data[:61], length=49, record_count=0)
    assert read_end_marker(read_header(empty), empty) is None


def test_marker_is_no_record_but_has_an_offset(make_log: MakeLog) -> None:
    log = make_log()
    write(log, b"a", b"b")
    assert commit(log) == 2
    append(log, b"c")
    assert contents(log) == [(0, b"a"), (1, b"b"), (3, b"c")]
    assert [log.record_count(0, limit) for limit in range(5)] == [0, 1, 2, 2, 3]
    log.advance_log_start_offset(2)
    assert log.record_count(0, 4) == 1
    log.truncate_to(3)
    assert log.record_count(0, 3) == 0


def test_marker_is_never_a_duplicate(make_log: MakeLog) -> None:
    log = make_log()
    write(log)
    assert [abort(log), abort(log), commit(log)] == [1, 2, 3]
    assert log.end_offset == 4
    assert aborted(log, 0, END) == [(7, 0)]


def test_marker_of_an_unknown_producer_changes_no_transaction(make_log: MakeLog) -> None:
    log = make_log()
    abort(log, epoch=5, coordinator_epoch=2)
    assert log.first_unstable_offset is None
    assert aborted(log, 0, END) == []
    state = log.producers[7]
    assert (state.epoch, state.coordinator_epoch, state.last_sequence) == (5, 2, -1)


def test_marker_of_a_fenced_producer_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    write(log, epoch=3)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        abort(log, epoch=2)
    assert (log.end_offset, log.first_unstable_offset) == (1, 0)
    assert abort(log, epoch=3) == 1


def test_marker_of_a_replaced_coordinator_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    write(log)
    commit(log, coordinator_epoch=4)
    write(log, sequence=1)
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        abort(log, coordinator_epoch=3)
    assert log.end_offset == 3
    assert commit(log, coordinator_epoch=4) == 3
    assert commit(log, coordinator_epoch=5) == 4


def test_internal_control_batch_that_is_no_marker_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    data = with_fields(batch(b"v", producer=(7, 0, -1)), attributes=0x30)
    with refused(ErrorCode.INVALID_RECORD):
        log.append_as_leader(data, 1, NOW, internal=True)
    assert log.end_offset == 0


# -- what is stable


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


# -- aborted transactions


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


# -- sequences and epochs


def test_batch_outside_of_an_open_transaction_of_its_producer_is_refused(
    make_log: MakeLog,
) -> None:
    log = make_log()
    write(log)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(batch(b"v", producer=(7, 0, 1)), 1, NOW)
    commit(log)
    log.append_as_leader(batch(b"v", producer=(7, 0, 1)), 1, NOW)
    assert log.end_offset == 3


def test_sequences_go_on_after_a_marker_of_the_same_epoch(make_log: MakeLog) -> None:
    log = make_log()
    write(log)
    commit(log)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        write(log, sequence=2)
    again = log.append_as_leader(transactional(), 1, NOW)
    assert (again.duplicate, again.base_offset) == (True, 0)
    assert write(log, sequence=1).base_offset == 2


def test_marker_of_a_higher_epoch_fences_and_restarts_the_sequences(make_log: MakeLog) -> None:
    log = make_log()
    write(log, epoch=2)
    commit(log, epoch=3)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        write(log, epoch=2, sequence=1)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.append_as_leader(transactional(epoch=2, sequence=0), 1, NOW)
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        write(log, epoch=3, sequence=1)
    assert write(log, epoch=3, sequence=0).base_offset == 2
    assert log.producers[7].transaction_start == 2


def test_batch_of_a_higher_epoch_goes_on_with_an_open_transaction(make_log: MakeLog) -> None:
    log = make_log()
    write(log, epoch=0)
    assert write(log, epoch=1).base_offset == 1
    assert log.producers[7].transaction_start == 0
    abort(log, epoch=1)
    assert aborted(log, 0, END) == [(7, 0)]


def test_offset_commits_of_a_transaction_have_no_sequences(make_log: MakeLog) -> None:
    log = make_log()
    guard = log.producers.start_verification(7, 0, 0, NOW, adds=False)
    for _ in range(2):
        log.append_as_leader(transactional(sequence=-1), 1, NOW, internal=True, guard=guard)
    assert (log.end_offset, log.first_unstable_offset) == (2, 0)
    commit(log)
    log.replicated(3)
    assert log.first_unstable_offset is None


def test_batch_without_a_producer_is_in_no_transaction(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(transactional(producer_id=-1, epoch=-1, sequence=-1), 1, NOW)
    assert log.first_unstable_offset is None


# -- verification


def test_first_batch_of_a_transaction_needs_its_verification(make_log: MakeLog) -> None:
    log = make_log()
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(transactional(), 1, NOW)
    guard = log.producers.start_verification(7, 0, 0, NOW, adds=False)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(transactional(), 1, NOW)
    log.append_as_leader(transactional(), 1, NOW, guard=guard)
    assert log.producers.start_verification(7, 0, 1, NOW, adds=False) is None
    log.append_as_leader(transactional(sequence=1), 1, NOW)
    assert log.end_offset == 2
    assert len(log.producers.verifications) == 0


def test_late_batch_after_the_marker_of_its_transaction_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    guard = log.producers.start_verification(7, 0, 0, NOW, adds=False)
    abort(log)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(transactional(), 1, NOW, guard=guard)
    other = log.producers.start_verification(7, 0, 0, NOW, adds=False)
    assert other is not guard
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(transactional(), 1, NOW, guard=guard)
    log.append_as_leader(transactional(), 1, NOW, guard=other)


def test_late_batch_without_a_verification_after_its_transaction_is_refused(
    make_log: MakeLog,
) -> None:
    log = make_log()
    write(log)
    commit(log)
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(transactional(sequence=1), 1, NOW)


def test_internal_batch_of_a_transaction_needs_its_verification(make_log: MakeLog) -> None:
    log = make_log()
    guard = log.producers.start_verification(7, 0, -1, NOW, adds=True)
    abort(log, epoch=1)
    data = transactional(sequence=-1, epoch=1)
    for shown in (guard, None):
        with refused(ErrorCode.INVALID_TXN_STATE):
            log.append_as_leader(data, 1, NOW, internal=True, guard=shown)
    guard = log.producers.start_verification(7, 1, -1, NOW, adds=True)
    log.append_as_leader(data, 1, NOW, internal=True, guard=guard)


def test_marker_of_the_last_transaction_leaves_the_next_ones_verification(
    make_log: MakeLog,
) -> None:
    log = make_log()
    write(log, epoch=0, adds=True)
    guard = log.producers.start_verification(7, 1, 0, NOW, adds=True)
    commit(log, epoch=1)
    log.append_as_leader(transactional(epoch=1), 1, NOW, guard=guard)
    assert log.producers[7].transaction_start == 2


def test_two_verifications_of_a_producer_share_a_guard(make_log: MakeLog) -> None:
    log = make_log()
    first = log.producers.start_verification(7, 0, 0, NOW, adds=False)
    second = log.producers.start_verification(7, 0, 1, NOW, adds=False)
    assert first is second
    log.append_as_leader(transactional(), 1, NOW, guard=first)
    log.append_as_leader(transactional(sequence=1), 1, NOW, guard=second)
    assert log.end_offset == 2


def test_lowest_verified_sequence_comes_first(make_log: MakeLog) -> None:
    log = make_log()
    guard = log.producers.start_verification(7, 0, 5, NOW, adds=False)
    log.producers.start_verification(7, 0, 3, NOW, adds=False)
    log.producers.start_verification(7, 0, 4, NOW, adds=False)
    for sequence in (5, 4):
        with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            log.append_as_leader(transactional(sequence=sequence), 1, NOW, guard=guard)
    log.append_as_leader(transactional(sequence=3), 1, NOW, guard=guard)
    log.producers.start_verification(8, 0, 3, NOW, adds=False)
    guard = log.producers.start_verification(8, 1, 5, NOW, adds=False)
    log.append_as_leader(transactional(producer_id=8, epoch=1, sequence=5), 1, NOW, guard=guard)
    assert log.end_offset == 2


def test_verification_of_an_old_epoch_does_not_lower_the_sequence(make_log: MakeLog) -> None:
    log = make_log()
    guard = log.producers.start_verification(7, 1, 5, NOW, adds=False)
    assert log.producers.start_verification(7, 0, 3, NOW, adds=False) is guard
    log.append_as_leader(transactional(epoch=1, sequence=5), 1, NOW, guard=guard)
    assert log.end_offset == 1


def test_producer_that_bumps_its_epochs_begins_at_sequence_0(make_log: MakeLog) -> None:
    log = make_log()
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        write(log, sequence=1, adds=True)
    assert write(log, sequence=1, producer_id=8).base_offset == 0
    assert write(log, adds=True).base_offset == 1
    commit(log)
    assert write(log, sequence=1, adds=True).base_offset == 3


def test_verification_of_a_fenced_producer_is_refused(make_log: MakeLog) -> None:
    log = make_log()
    write(log, epoch=2)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        log.producers.start_verification(7, 1, 0, NOW, adds=False)


def test_duplicate_of_an_ended_transaction_needs_no_verification(make_log: MakeLog) -> None:
    log = make_log()
    write(log)
    commit(log)
    assert log.append_as_leader(transactional(), 1, NOW).duplicate


# -- expiration


def test_producer_with_an_open_transaction_does_not_expire(make_log: MakeLog) -> None:
    log = make_log(producer_id_expiration_ms=1_000, retention_ms=None)
    write(log, producer_id=7)
    write(log, producer_id=8)
    commit(log, producer_id=8)
    log.delete_old_segments(NOW + 999, 0)
    assert sorted(log.producers) == [7, 8]
    log.delete_old_segments(NOW + 1_000, 0)
    assert list(log.producers) == [7]
    abort(log, producer_id=7)
    log.delete_old_segments(NOW + 1_000, 0)
    assert list(log.producers) == []


def test_verification_expires(make_log: MakeLog) -> None:
    log = make_log(producer_id_expiration_ms=1_000, retention_ms=None)
    guard = log.producers.start_verification(7, 0, 0, NOW, adds=False)
    log.delete_old_segments(NOW + 999, 0)
    assert log.producers.start_verification(7, 0, 0, NOW, adds=False) is guard
    log.delete_old_segments(NOW + 1_000, 0)
    assert len(log.producers.verifications) == 0
    with refused(ErrorCode.INVALID_TXN_STATE):
        log.append_as_leader(transactional(), 1, NOW, guard=guard)


# -- followers, truncation and recovery


def test_follower_has_the_leaders_transactions(make_log: MakeLog) -> None:
    log, follower = make_log(segment_bytes=SMALL), make_log(segment_bytes=1_000)
    write(log, b"a")
    abort(log, epoch=1, coordinator_epoch=3)
    write(log, b"b", producer_id=8)
    commit(log, producer_id=8)
    write(log, b"c", epoch=1)
    replicate(log, follower)
    assert follower.first_unstable_offset == 0
    follower.replicated(4)
    assert follower.first_unstable_offset == 4
    assert aborted(follower, 0, END) == [(7, 0)]
    state = follower.producers[7]
    assert (state.epoch, state.coordinator_epoch, state.transaction_start) == (1, 3, 4)


def test_follower_takes_no_verification(make_log: MakeLog) -> None:
    log, follower = make_log(), make_log()
    guard = follower.producers.start_verification(7, 0, 0, NOW, adds=False)
    write(log)
    commit(log)
    replicate(log, follower)
    with refused(ErrorCode.INVALID_TXN_STATE):
        follower.append_as_leader(transactional(sequence=1), 1, NOW, guard=guard)


def test_truncated_marker_opens_its_transaction_again(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=SMALL)
    write(log, b"a")
    append(log, b"b")
    abort(log)
    log.replicated(3)
    assert log.first_unstable_offset is None
    log.truncate_to(2)
    assert log.first_unstable_offset == 0
    assert log.producers[7].transaction_start == 0
    assert aborted(log, 0, END) == []
    commit(log)
    log.replicated(3)
    assert log.first_unstable_offset is None
    assert read_committed(log, 3) == [(0, b"a"), (1, b"b")]


def test_truncated_beginning_leaves_no_open_transaction(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=8)
    commit(log, producer_id=8, coordinator_epoch=4)
    write(log, producer_id=8, sequence=1)
    write(log)
    log.truncate_to(2)
    log.replicated(2)
    assert log.first_unstable_offset is None
    assert 7 not in log.producers
    state = log.producers[8]
    assert (state.transaction_start, state.coordinator_epoch, state.last_sequence) == (None, 4, 0)


def test_truncated_first_transaction_leaves_a_producer_without_one(make_log: MakeLog) -> None:
    log = make_log()
    log.append_as_leader(batch(b"v", producer=(7, 0, 0)), 1, NOW)
    write(log, sequence=1)
    log.truncate_to(1)
    assert (log.first_unstable_offset, log.producers[7].transaction_start) == (None, None)


def test_truncation_keeps_a_transaction_that_began_before(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=8)
    commit(log, producer_id=8, coordinator_epoch=4)
    write(log, producer_id=8, sequence=1)
    write(log, producer_id=8, sequence=2)
    log.truncate_to(3)
    state = log.producers[8]
    assert (state.transaction_start, state.coordinator_epoch, state.last_sequence) == (2, 4, 1)


@pytest.mark.parametrize("transactions", ["none", "open", "ended"])
def test_truncation_reads_no_more_of_the_log_than_it_needs(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch, transactions: str
) -> None:
    """Hypothesis would not notice: a look at the whole log gives the same states."""
    log = make_log(segment_bytes=SMALL)
    for sequence in range(40):
        if transactions == "none":
            log.append_as_leader(batch(b"v", producer=(7, 0, sequence)), 1, NOW)
        else:
            write(log, sequence=sequence)
        if transactions == "ended":
            commit(log)
    read: list[int] = []
    header = Segment.header
    monkeypatch.setattr(
        Segment, "header", lambda self, index: read.append(index) or header(self, index)
    )
    log.truncate_to(log.end_offset - 2)
    assert len(read) <= 11
    state = log.producers[7]
    assert (len(state.batches), state.last_timestamp) == (5, NOW)
    assert state.transaction_start == (0 if transactions == "open" else None)


def test_truncation_after_unreplicated_markers_keeps_them(make_log: MakeLog) -> None:
    log = make_log()
    write(log, producer_id=8)
    abort(log, producer_id=8)
    write(log, producer_id=7)
    abort(log, producer_id=7)
    log.truncate_to(2)
    assert log.first_unstable_offset == 0
    log.replicated(2)
    assert log.first_unstable_offset is None


def test_truncated_bump_of_the_epoch_restores_the_sequences(make_log: MakeLog) -> None:
    log = make_log()
    for sequence in range(3):
        write(log, sequence=sequence)
    commit(log, epoch=1)
    write(log, epoch=1)
    log.truncate_to(4)
    state = log.producers[7]
    assert (state.epoch, state.last_sequence, state.transaction_start) == (1, -1, None)
    log.truncate_to(3)
    state = log.producers[7]
    assert (state.epoch, state.last_sequence, state.transaction_start) == (0, 2, 0)


def test_empty_log_has_no_transactions(make_log: MakeLog) -> None:
    log = make_log()
    write(log)
    abort(log)
    write(log, sequence=1)
    log.producers.start_verification(8, 0, 0, NOW, adds=False)
    log.truncate_fully_and_start_at(1)
    assert log.first_unstable_offset is None
    assert len(log.producers.verifications) == 0
    log.check()


@pytest.mark.parametrize("clean", [True, False])
def test_recovery_reads_the_transactions(tmp_path: Path, clean: bool) -> None:
    settings = LogSettings(segment_bytes=SMALL)
    log = PartitionLog.open("t-0", tmp_path / "t-0", settings)
    write(log, b"a")
    abort(log, epoch=1, coordinator_epoch=5)
    write(log, b"b", epoch=1)
    write(log, b"c", producer_id=8)
    commit(log, producer_id=8)
    log.close(clean=clean)
    log = PartitionLog.open("t-0", tmp_path / "t-0", settings)
    log.check()
    assert aborted(log, 0, END) == [(7, 0)]
    assert log.first_unstable_offset == 0
    log.replicated(log.end_offset)
    assert log.first_unstable_offset == 2
    state = log.producers[7]
    assert (state.epoch, state.coordinator_epoch, state.transaction_start) == (1, 5, 2)
    assert log.record_count(0, log.end_offset) == 3
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        abort(log, epoch=1, coordinator_epoch=4)
    log.close()


def test_recovery_of_a_cut_marker_leaves_its_transaction_open(tmp_path: Path) -> None:
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    write(log, b"a")
    abort(log)
    log.close()
    path = next((tmp_path / "t-0").glob("*.log"))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    log.replicated(log.end_offset)
    assert (log.end_offset, log.first_unstable_offset) == (1, 0)
    assert aborted(log, 0, END) == []
    log.close()


def test_damaged_marker_of_a_closed_log_ends_no_transaction(tmp_path: Path) -> None:
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    write(log, b"a")
    size = log.size_bytes
    abort(log)
    append(log, b"b")
    log.close(clean=True)
    path = next((tmp_path / "t-0").glob("*.log"))
    with path.open("r+b") as file:
        file.seek(size + 77)
        file.write(b"\x01")
    log = PartitionLog.open("t-0", tmp_path / "t-0", LogSettings())
    log.replicated(log.end_offset)
    assert (log.end_offset, log.first_unstable_offset) == (3, 0)
    assert log.record_count(0, 3) == 2
    log.close()
