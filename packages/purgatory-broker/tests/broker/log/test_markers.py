"""Markers: control batches that end transactions."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import read_header
from purgatory_broker.log.control_batch import EndMarker, marker_batch, read_end_marker
from purgatory_broker.log.transaction_marker import TransactionMarker
from tests.broker.log.batches import NOW, append, batch, contents, with_fields
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import refused
from tests.broker.log.transactions import (
    abort,
    aborted,
    commit,
    write,
)

END = 10**6


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
