"""The links of a list, on the interpreted build: compiled, they are in C."""

from __future__ import annotations

import pytest

import request_purgatory
from request_purgatory import TimerTask
from request_purgatory._native import linked_list, primitives
from request_purgatory.timer._bucket import Bucket, PendingTasks
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer.wheel import TimingWheel, max_buckets
from tests.support.invariants import check_wheel

pytestmark = pytest.mark.skipif(
    request_purgatory.__compiled__, reason="compiled, lists are in C and wheels are created by C"
)


def filled(count: int) -> tuple[Bucket, list[TimerTask]]:
    bucket = Bucket(PendingTasks())
    tasks = [TimerTask(number) for number in range(count)]
    for task in tasks:
        linked_list.append(bucket, task)
    return bucket, tasks


@pytest.mark.parametrize("count", [1, 2, 3])
def test_list_is_whole_after_each_step_of_a_move(count: int) -> None:
    bucket, tasks = filled(count)
    for number, task in enumerate(tasks):
        assert linked_list.detach_first(bucket) is task
        assert bucket.tasks() == tasks[number + 1 :]
        bucket.check()
    assert linked_list.detach_first(bucket) is None


def test_object_behind_one_that_was_detached_can_be_removed() -> None:
    bucket, (first, second, third) = filled(3)
    linked_list.detach_first(bucket)
    linked_list.remove(bucket, second)
    assert bucket.tasks() == [third]
    linked_list.remove(bucket, third)
    assert bucket.is_empty
    other = Bucket(PendingTasks())
    linked_list.append(other, first)
    assert other.tasks() == [first]


def test_longest_wheel_ends_where_64_bits_do() -> None:
    longest = primitives.LIMIT // 2
    assert TimingWheel(longest, 2, 0, PendingTasks(), DelayQueue()).interval_ms == 2 * longest
    wheel = TimingWheel(longest + 1, 2, 0, PendingTasks(), DelayQueue())
    assert wheel.interval_ms == primitives.LIMIT


def test_overflow_wheel_stands_where_the_finer_one_does() -> None:
    wheel = TimingWheel(1, 4, 0, PendingTasks(), DelayQueue())
    overflow = wheel.make_overflow()
    wheel.advance(10)
    wheel.set_overflow(overflow)
    assert (wheel.current_ms, overflow.current_ms) == (10, 8)
    check_wheel(wheel)


def test_buckets_are_enough_for_the_longest_delay_and_no_more() -> None:
    assert max_buckets(1, 256) == 6 * 256 + 256 * (2 * primitives.MAX_DELAY_MS >= 256**6)
    assert max_buckets(2, 2 * primitives.MAX_DELAY_MS) == 2 * primitives.MAX_DELAY_MS
    assert max_buckets(primitives.MAX_DELAY_MS, 2) == 4
