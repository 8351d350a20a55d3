"""Idempotent producers."""

from __future__ import annotations

import pytest

from request_purgatory.broker.log import LogSettings, PartitionLog, RecordError
from request_purgatory.broker.log.log import Appended
from request_purgatory.broker.log.producers import EXPIRATION_MS
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import NOW, SETTINGS, batch, changed, replicate

LAST = 2**31 - 1


@pytest.fixture
def log() -> PartitionLog:
    """An empty log in memory, of small segments."""
    return PartitionLog.in_memory("t-0", LogSettings(segment_bytes=250, retention_ms=None))


def send(
    log: PartitionLog,
    sequence: int,
    *,
    count: int = 1,
    epoch: int = 0,
    producer_id: int = 7,
    at: int = NOW,
) -> Appended:
    """Append `count` records of a producer."""
    data = batch(*[b"v"] * count, timestamps=[at] * count, producer=(producer_id, epoch, sequence))
    return log.append_as_leader(data, 1, NOW)


def code(log: PartitionLog, sequence: int, **arguments: int) -> ErrorCode:
    """With what a batch is refused; the log is as it was."""
    before = (log.end_offset, log.size_bytes)
    with pytest.raises(RecordError) as caught:
        send(log, sequence, **arguments)
    assert (log.end_offset, log.size_bytes) == before
    log.check()
    return caught.value.code


def test_batch_that_is_sent_again_is_there_once(log: PartitionLog) -> None:
    """The answer is that of the first time, with its timestamp, for each of the last five."""
    first = [send(log, sequence, count=2, at=NOW + sequence) for sequence in range(0, 12, 2)]
    end = log.end_offset
    for sequence in range(2, 12, 2):
        again = send(log, sequence, count=2, at=NOW + sequence)
        assert again == first[sequence // 2]._replace(
            duplicate=True, log_append_time_ms=NOW + sequence
        )
    assert log.end_offset == end == 12
    assert code(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.check()


def test_part_of_a_batch_is_no_duplicate(log: PartitionLog) -> None:
    """Only the same range of sequences is."""
    send(log, 0, count=3)
    assert code(log, 0, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(log, 1, count=2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_gap_is_refused(log: PartitionLog) -> None:
    """Until what is missing comes."""
    send(log, 0)
    assert code(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 1)
    assert send(log, 2).base_offset == 2


def test_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    """What it wrote before may have been deleted."""
    assert send(log, 41).base_offset == 0
    assert code(log, 43) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 42).base_offset == 1


def test_new_epoch_begins_at_zero_and_ends_the_old_one(log: PartitionLog) -> None:
    """A batch of the old one is no duplicate either."""
    send(log, 0)
    assert code(log, 1, epoch=1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    send(log, 0, epoch=1)
    assert code(log, 0, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(log, 1, epoch=0) is ErrorCode.INVALID_PRODUCER_EPOCH
    again = send(log, 0, epoch=1)
    assert (again.duplicate, again.base_offset) == (True, 1)
    assert send(log, 1, epoch=1).base_offset == 2


def test_sequences_begin_again_after_the_last(log: PartitionLog) -> None:
    """Also in the middle of a batch."""
    send(log, LAST - 1, count=4)
    assert send(log, LAST - 1, count=4).duplicate
    assert code(log, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 2).base_offset == 4
    send(log, LAST, producer_id=8)
    assert send(log, 0, producer_id=8).base_offset == 6


def test_producers_do_not_know_of_each_other(log: PartitionLog) -> None:
    """Each has sequences of its own."""
    for sequence in range(3):
        for producer_id in range(4):
            send(log, sequence, producer_id=producer_id)
    assert log.end_offset == 12
    assert len(log.producers) == 4


def test_follower_knows_what_the_leader_knew(log: PartitionLog) -> None:
    """So that a batch sent again after a failover is there once."""
    follower = PartitionLog.in_memory("t-0", SETTINGS)
    first = [send(log, sequence) for sequence in range(7)]
    replicate(log, follower)
    follower.check()
    assert send(follower, 6).base_offset == first[6].base_offset
    assert code(follower, 8) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(follower, 7).base_offset == 7


def test_what_is_cut_off_may_be_sent_again(log: PartitionLog) -> None:
    """The last five that are left are known, over all segments, and in the epoch before."""
    for sequence in range(9):
        send(log, sequence)
    send(log, 5, producer_id=8)
    send(log, 0, epoch=1)
    log.truncate_to(8)
    log.check()
    assert send(log, 7).base_offset == 7
    assert send(log, 3).duplicate
    assert code(log, 2) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code(log, 9) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 8).base_offset == 8
    assert log.producers.get(8) is None


def test_producers_that_are_not_cut_keep_what_is_known(log: PartitionLog) -> None:
    """Also what the log has deleted meanwhile."""
    for sequence in range(3):
        send(log, sequence)
    send(log, 0, producer_id=8)
    log.advance_start(3)
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


def test_producer_is_forgotten_after_a_day(log: PartitionLog) -> None:
    """By its last timestamp; then it may begin anywhere."""
    send(log, 0)
    log.delete_old(NOW + EXPIRATION_MS - 1, 0)
    assert code(log, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    log.delete_old(NOW + EXPIRATION_MS, 0)
    assert send(log, 5).base_offset == 1


def test_brokers_own_batches_have_epochs_but_no_sequences(log: PartitionLog) -> None:
    """As offset commits of a transaction do in Kafka."""
    data = batch(b"v", producer=(7, 3, -1))
    assert log.append_as_leader(data, 1, NOW, internal=True).base_offset == 0
    assert log.append_as_leader(data, 1, NOW, internal=True).base_offset == 1
    with pytest.raises(RecordError) as caught:
        log.append_as_leader(changed(data, producer_epoch=2), 1, NOW, internal=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
