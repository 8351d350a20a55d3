"""The delay queue: buckets ordered by expiration."""

from __future__ import annotations

import random

import pytest

from request_purgatory import TimerTask
from request_purgatory.timer._bucket import Bucket, PendingTasks
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer.task import append_to
from tests.support.invariants import check_queue


@pytest.fixture
def queue() -> DelayQueue:
    """Return an empty delay queue."""
    return DelayQueue()


def push(queue: DelayQueue, expiration_ms: int, tasks: int = 1) -> Bucket:
    """Push a new bucket with `tasks` tasks into the queue."""
    bucket = Bucket(PendingTasks())
    for _ in range(tasks):
        append_to(bucket, TimerTask(1))
    queue.push(bucket, expiration_ms)
    return bucket


def test_empty_queue_has_neither_a_head_nor_anything_due(queue: DelayQueue) -> None:
    assert queue.head() is None
    assert queue.poll(10**15) is None
    assert queue._length == 0


def test_buckets_come_out_by_expiration_whatever_order_they_went_in(queue: DelayQueue) -> None:
    times = list(range(100))
    random.Random(1).shuffle(times)
    for time_ms in times:
        push(queue, time_ms)
        check_queue(queue)
    polled = []
    while (bucket := queue.poll(1000)) is not None:
        polled.append(bucket.expiration_ms)
        check_queue(queue)
    assert polled == list(range(100))


def test_bucket_is_due_at_its_expiration_and_not_before(queue: DelayQueue) -> None:
    bucket = push(queue, 20)
    assert queue.poll(19) is None
    assert queue.head() is bucket
    assert queue.poll(20) is bucket
    assert queue.head() is None


def test_polled_bucket_still_says_when_it_was_due(queue: DelayQueue) -> None:
    push(queue, 20)
    bucket = queue.poll(500)
    assert bucket is not None
    assert bucket.expiration_ms == 20


def test_bucket_that_cancelling_emptied_is_dropped(queue: DelayQueue) -> None:
    emptied = push(queue, 10, tasks=0)
    kept = push(queue, 20)
    assert queue.head() is kept
    assert emptied.expiration_ms == -1
    assert queue._length == 1
    append_to(emptied, TimerTask(1))
    queue.push(emptied, 15)
    assert queue.head() is emptied


def test_empty_bucket_never_comes_due(queue: DelayQueue) -> None:
    push(queue, 10, tasks=0)
    kept = push(queue, 20)
    assert queue.poll(15) is None
    assert queue.poll(20) is kept


def test_check_finds_a_bucket_that_is_in_the_queue_twice(queue: DelayQueue) -> None:
    bucket = push(queue, 10)
    queue.push(bucket, 10)
    with pytest.raises(AssertionError, match="twice"):
        check_queue(queue)
