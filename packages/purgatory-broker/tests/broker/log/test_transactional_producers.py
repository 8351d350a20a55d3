"""Producers with transactions: sequences, epochs and expiration."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.log.batches import NOW, batch
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import refused
from tests.broker.log.transactions import (
    abort,
    aborted,
    commit,
    transactional,
    write,
)

END = 10**6


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
