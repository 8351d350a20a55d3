"""Tests of the records of a share partition, by hand."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.sharing.records import (
    AcknowledgementBatch,
    AcquisitionLock,
    ShareError,
    StateBatch,
    check_acknowledgements,
)
from purgatory_broker.sharing.share_partition import SharePartition

GAP, ACCEPT, RELEASE, REJECT = range(4)


def opened(start: int = 0, *batches: tuple[int, int, int, int], limit: int = 2) -> SharePartition:
    """Return a share partition with stored batches."""
    return SharePartition(
        start,
        [StateBatch(*batch) for batch in batches],
        max_in_flight=10,
        max_delivery_count=limit,
    )


def acquire(
    partition: SharePartition, member: str = "m", *fetched: tuple[int, int], max_records: int = 100
) -> tuple[AcquisitionLock | None, list[tuple[int, ...]]]:
    """Acquire from batches at the next offset; a batch of ten records if none is given."""
    lock, acquired = partition.acquire(
        member,
        partition.next_fetch_offset,
        fetched or [(0, 9)],
        max_records=max_records,
        batch_size=100,
    )
    partition.check()
    return lock, [tuple(each) for each in acquired]


def acknowledge(partition: SharePartition, *given: tuple[int, int, int], member: str = "m") -> None:
    """Acknowledge batches of one type each, and store it."""
    batches = [AcknowledgementBatch(first, last, (kind,)) for first, last, kind in given]
    partition.commit(partition.acknowledge(member, batches))
    partition.check()


def test_released_records_are_delivered_until_the_limit() -> None:
    """The last release archives them."""
    partition = opened()
    acquire(partition)
    acknowledge(partition, (0, 9, RELEASE))
    assert acquire(partition)[1] == [(0, 9, 2)]
    acknowledge(partition, (0, 9, RELEASE))
    assert (partition.start_offset, partition.next_fetch_offset) == (10, 10)


def test_release_of_a_session_does_not_count() -> None:
    """A member that has failed may not have seen the records."""
    partition = opened()
    for _ in range(5):
        assert acquire(partition)[1] == [(0, 9, 1)]
        partition.commit(partition.release("m"))


def test_release_that_is_rolled_back_counts_as_before() -> None:
    """The member has the records still."""
    partition = opened()
    acquire(partition)
    partition.roll_back(partition.release("m"))
    acknowledge(partition, (0, 9, RELEASE))
    assert acquire(partition)[1] == [(0, 9, 2)]


def test_lock_that_ends_during_a_write_releases_after_a_rollback() -> None:
    """Otherwise the records would stay acquired for ever."""
    partition = opened()
    lock, _ = acquire(partition)
    assert lock is not None
    update = partition.acknowledge("m", [AcknowledgementBatch(0, 4, (ACCEPT,))])
    assert partition.expire(lock).batches == [(5, 9, 0, 1)]
    assert partition.next_fetch_offset == 5
    (released,) = partition.roll_back(update)
    assert released.batches == [(0, 4, 0, 1)]
    assert partition.next_fetch_offset == 0


def test_pending_records_are_not_acquired() -> None:
    """A release takes effect when it is stored."""
    partition = opened()
    acquire(partition)
    update = partition.acknowledge("m", [AcknowledgementBatch(0, 9, (RELEASE,))])
    assert partition.next_fetch_offset == 10
    partition.commit(update)
    assert partition.next_fetch_offset == 0


@pytest.mark.parametrize(
    ("first", "last", "error"),
    [
        (3, 5, ErrorCode.INVALID_RECORD_STATE),
        (0, 2, ErrorCode.INVALID_RECORD_STATE),
        (12, 13, ErrorCode.INVALID_REQUEST),
        (7, 12, ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_acknowledgement_changes_nothing(first: int, last: int, error: ErrorCode) -> None:
    """Neither do the batches before the one that is refused."""
    partition = opened()
    acquire(partition)
    acknowledge(partition, (4, 4, ACCEPT))
    member = "m" if first else "other"
    with pytest.raises(ShareError) as refused:
        partition.acknowledge(
            member,
            [AcknowledgementBatch(0, 0, (ACCEPT,)), AcknowledgementBatch(first, last, (ACCEPT,))],
        )
    assert refused.value.code is error
    acknowledge(partition, (0, 3, ACCEPT))
    assert partition.start_offset == 5


def test_types_of_each_record() -> None:
    """A batch may have one type for each record; a gap is archived."""
    partition = opened()
    acquire(partition)
    batch = AcknowledgementBatch(0, 3, (ACCEPT, GAP, RELEASE, REJECT))
    update = partition.acknowledge("m", [batch])
    assert update.batches == [(0, 0, 2, 1), (1, 1, 4, 1), (2, 2, 0, 1), (3, 3, 4, 1)]
    partition.commit(update)
    assert (partition.start_offset, partition.next_fetch_offset) == (2, 2)


@pytest.mark.parametrize(
    "batches",
    [
        [(5, 4, (1,))],
        [(0, 4, ())],
        [(0, 4, (1, 1))],
        [(0, 0, (4,))],
        [(0, 0, (-1,))],
        [(0, 4, (1,)), (3, 5, (1,))],
        [(6, 7, (1,)), (0, 1, (1,))],
    ],
)
def test_malformed_acknowledgements(batches: list[tuple[int, int, tuple[int, ...]]]) -> None:
    """Kafka refuses them before it looks at the records."""
    with pytest.raises(ShareError) as refused:
        check_acknowledgements([AcknowledgementBatch(*batch) for batch in batches], may_renew=False)
    assert refused.value.code is ErrorCode.INVALID_REQUEST


def test_batches_of_the_log_are_not_divided() -> None:
    """The limit on records is exceeded up to the end of a batch."""
    partition = opened()
    lock, acquired = acquire(partition, "m", (0, 3), (4, 7), (8, 9), max_records=5)
    assert acquired == [(0, 7, 1)]
    assert lock is not None
    assert lock.num_records == 8


def test_limit_of_records_in_flight() -> None:
    """Only what is released can be acquired then."""
    partition = opened(limit=5)
    acquire(partition)
    assert not partition.can_acquire
    acknowledge(partition, (3, 3, RELEASE))
    assert partition.can_acquire
    assert acquire(partition)[1] == [(3, 3, 2)]
    acknowledge(partition, (0, 1, ACCEPT))
    assert partition.can_acquire
    assert acquire(partition, "m", (10, 11))[1] == [(10, 11, 1)]


def test_start_from_stored_batches() -> None:
    """What was acquired before a restart is in no batch, and is delivered again."""
    partition = opened(2, (2, 3, 2, 1), (6, 7, 0, 1), (9, 9, 4, 2))
    partition.check()
    assert (partition.start_offset, partition.next_offset) == (4, 10)
    assert acquire(partition)[1] == [(4, 5, 1), (6, 7, 2), (8, 8, 1)]


def test_records_that_were_compacted() -> None:
    """Nobody waits for records that the log does not have any more."""
    partition = opened()
    partition.acquire("m", 0, [(3, 4)], max_records=9, batch_size=9)
    assert partition.start_offset == 3
    acknowledge(partition, (3, 4, RELEASE))
    _, acquired = partition.acquire("m", 3, [(4, 4)], max_records=9, batch_size=9)
    assert acquired == [(4, 4, 2)]
    assert partition.start_offset == 4


def test_deleted_records_are_skipped() -> None:
    """Their acknowledgements are accepted and have no effect."""
    ended: list[AcquisitionLock] = []
    partition = SharePartition(0, max_in_flight=10, max_delivery_count=5, on_lock_end=ended.append)
    lock, _ = acquire(partition)
    partition.move_start(5)
    partition.check()
    acknowledge(partition, (0, 6, ACCEPT))
    assert partition.start_offset == 7
    assert not ended
    partition.move_start(20)
    assert ended == [lock]
    assert (partition.start_offset, partition.next_fetch_offset) == (20, 20)


def test_aborted_transactions_are_not_delivered() -> None:
    """Their records are archived when they are read."""
    partition = opened()
    lock, acquired = partition.acquire(
        "m", 0, [(0, 3), (4, 7)], max_records=9, batch_size=9, aborted=[(0, 3)]
    )
    assert [tuple(each) for each in acquired] == [(4, 7, 1)]
    assert partition.start_offset == 4
    partition.check()
    assert lock is not None
    assert lock.num_records == 4
