"""Idempotent producers."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import AppendInfo, PartitionLog
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from tests.broker.log.batches import NOW, SETTINGS, batch, replicate, with_fields

LAST = 2**31 - 1


@pytest.fixture
def log() -> PartitionLog:
    """Return an empty log in memory with small segments."""
    return PartitionLog.in_memory("t-0", LogSettings(segment_bytes=250, retention_ms=None))


def send(
    log: PartitionLog,
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = 7,
    at: int = NOW,
) -> AppendInfo:
    """Append `count` records of a producer."""
    data = batch(*[b"v"] * count, timestamps=[at] * count, producer=(producer_id, epoch, sequence))
    return log.append_as_leader(data, 1, NOW)


def refusal(log: PartitionLog, sequence: int, **arguments: int) -> ErrorCode:
    """Return the error code of a batch, which leaves the log unchanged."""
    before = (log.end_offset, log.size_bytes)
    with pytest.raises(RecordError) as caught:
        send(log, sequence, **arguments)
    assert (log.end_offset, log.size_bytes) == before
    log.check()
    return caught.value.code


def test_duplicate_is_not_appended(log: PartitionLog) -> None:
    first = [send(log, sequence, count=2, at=NOW + sequence) for sequence in range(0, 12, 2)]
    end = log.end_offset
    for sequence in range(2, 12, 2):
        again = send(log, sequence, count=2, at=NOW + sequence)
        assert again == first[sequence // 2]._replace(
            duplicate=True, log_append_time_ms=NOW + sequence
        )
    assert log.end_offset == end == 12
    assert refusal(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.check()


def test_part_of_a_batch_is_no_duplicate(log: PartitionLog) -> None:
    send(log, 0, count=3)
    assert refusal(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 1, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_gap_is_refused(log: PartitionLog) -> None:
    send(log, 0)
    assert refusal(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 1)
    assert send(log, 2).base_offset == 2


def test_unknown_producer_may_start_with_any_sequence(log: PartitionLog) -> None:
    assert send(log, 41).base_offset == 0
    assert refusal(log, 43) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 42).base_offset == 1


def test_new_epoch_starts_at_zero_and_ends_the_old_one(log: PartitionLog) -> None:
    send(log, 0)
    assert refusal(log, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, epoch=1)
    assert refusal(log, 0, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    again = send(log, 0, epoch=1)
    assert (again.duplicate, again.base_offset) == (True, 1)
    assert send(log, 1, epoch=1).base_offset == 2


def test_sequences_wrap_around(log: PartitionLog) -> None:
    send(log, LAST - 1, count=4)
    assert send(log, LAST - 1, count=4).duplicate
    assert refusal(log, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 2).base_offset == 4
    send(log, LAST, producer_id=8)
    assert send(log, 0, producer_id=8).base_offset == 6


def test_producers_have_separate_sequences(log: PartitionLog) -> None:
    for sequence in range(3):
        for producer_id in range(4):
            send(log, sequence, producer_id=producer_id)
    assert log.end_offset == 12
    assert len(log.producers) == 4


def test_follower_recognizes_duplicates(log: PartitionLog) -> None:
    follower = PartitionLog.in_memory("t-0", SETTINGS)
    first = [send(log, sequence) for sequence in range(7)]
    replicate(log, follower)
    follower.check()
    assert send(follower, 6).base_offset == first[6].base_offset
    assert refusal(follower, 8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(follower, 7).base_offset == 7


def test_truncated_batches_may_be_sent_again(log: PartitionLog) -> None:
    for sequence in range(9):
        send(log, sequence)
    send(log, 5, producer_id=8)
    send(log, 0, epoch=1)
    log.truncate_to(8)
    log.check()
    assert send(log, 7).base_offset == 7
    assert send(log, 3).duplicate
    assert refusal(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(log, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 8).base_offset == 8
    assert log.producers.get(8) is None


def test_truncated_batch_of_several_records_is_no_duplicate(log: PartitionLog) -> None:
    send(log, 0)
    send(log, 1, count=3)
    log.truncate_to(2)
    assert log.end_offset == 1
    assert not send(log, 1, count=3).duplicate


def test_truncation_keeps_the_state_of_other_producers(log: PartitionLog) -> None:
    for sequence in range(3):
        send(log, sequence)
    send(log, 0, producer_id=8)
    log.advance_log_start_offset(3)
    log.truncate_to(3)
    log.check()
    assert log.end_offset == 3
    assert log.producers.get(8) is None
    log = PartitionLog.in_memory("t-0", SETTINGS)
    for sequence in range(3):
        send(log, sequence)
    send(log, 0, producer_id=8)
    log.truncate_to(3)
    assert send(log, 1).duplicate


def test_producer_expires_after_a_day(log: PartitionLog) -> None:
    """The time since its last timestamp counts. Then it may start with any sequence."""
    send(log, 0)
    log.delete_old_segments(NOW + SETTINGS.producer_id_expiration_ms - 1, 0)
    assert refusal(log, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.delete_old_segments(NOW + SETTINGS.producer_id_expiration_ms, 0)
    assert send(log, 5).base_offset == 1


def test_internal_batches_have_epochs_but_no_sequences(log: PartitionLog) -> None:
    """In Kafka, the offset commits of a transaction are such batches."""
    data = batch(b"v", producer=(7, 3, -1))
    assert log.append_as_leader(data, 1, NOW, internal=True).base_offset == 0
    assert log.append_as_leader(data, 1, NOW, internal=True).base_offset == 1
    with pytest.raises(RecordError) as caught:
        log.append_as_leader(with_fields(data, producer_epoch=2), 1, NOW, internal=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
