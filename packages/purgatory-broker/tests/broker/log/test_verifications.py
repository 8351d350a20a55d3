"""The verification of the first batch of each transaction (KIP-890)."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.log.batches import NOW
from tests.broker.log.conftest import MakeLog
from tests.broker.log.log_checks import refused
from tests.broker.log.transactions import (
    abort,
    commit,
    transactional,
    write,
)


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
