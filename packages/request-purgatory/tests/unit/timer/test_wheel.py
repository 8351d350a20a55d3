"""The timing wheel by itself: levels, slots, rounding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from request_purgatory import InvalidArgumentError, TimerTask
from request_purgatory.timer._bucket import PendingTasks
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer.task import remove_from
from request_purgatory.timer.wheel import TimingWheel
from tests.support.invariants import check_wheel


def make_wheel(tick_ms: int = 1, wheel_size: int = 20, start_ms: int = 0) -> TimingWheel:
    """Return a wheel with its own delay queue."""
    return TimingWheel(tick_ms, wheel_size, start_ms, PendingTasks(), DelayQueue())


def enter(wheel: TimingWheel, expiration_ms: int) -> TimerTask | None:
    """Add a new task to the wheel; None if the wheel reports that it is due already."""
    task = TimerTask(1)
    task._timer_expiration_ms = wheel.round_up(expiration_ms)
    return task if wheel.add(task) else None


def way_of(wheel: TimingWheel, task: TimerTask) -> list[int]:
    """Return when each bucket that holds the task is due; the last time is when the task runs."""
    way = []
    while True:
        bucket = wheel.queue.poll(10**18)
        assert bucket is not None
        way.append(bucket.expiration_ms)
        wheel.advance(bucket.expiration_ms)
        bucket.expiration_ms = -1
        remove_from(bucket, task)
        check_wheel(wheel)
        if not wheel.add(task):
            return way


@pytest.mark.parametrize("expiration_ms", [0, 99, 100])
def test_task_that_is_due_is_not_linked(expiration_ms: int) -> None:
    wheel = make_wheel(start_ms=100)
    assert enter(wheel, expiration_ms) is None
    assert check_wheel(wheel) == 0


@pytest.mark.parametrize(
    ("expiration_ms", "level"),
    [(1, 1), (19, 1), (20, 2), (399, 2), (400, 3), (7_999, 3), (8_000, 4)],
)
def test_task_enters_at_the_finest_level_that_reaches_it(expiration_ms: int, level: int) -> None:
    wheel = make_wheel()
    assert enter(wheel, expiration_ms) is not None
    assert len(list(wheel)) == level
    assert sum(not bucket.is_empty for bucket in list(wheel)[level - 1].buckets) == 1
    check_wheel(wheel)


@pytest.mark.parametrize(
    ("expiration_ms", "way"),
    [
        (2, [2]),
        (13, [9, 12, 13]),
        (9, [9]),
        (26, [18, 24, 26]),
        (27, [27]),
        (28, [27, 28]),
        (80, [54, 72, 78, 80]),
    ],
)
def test_task_goes_down_level_by_level_and_runs_on_its_tick(
    expiration_ms: int, way: list[int]
) -> None:
    wheel = make_wheel(1, 3)
    task = enter(wheel, expiration_ms)
    assert task is not None
    assert way_of(wheel, task) == way


def test_smallest_wheel_reaches_years() -> None:
    wheel = make_wheel(1, 2)
    ten_years_ms = 10 * 31_557_600_000
    task = enter(wheel, ten_years_ms)
    assert task is not None
    assert len(list(wheel)) == ten_years_ms.bit_length()
    assert way_of(wheel, task)[-1] == ten_years_ms


@pytest.mark.parametrize(
    ("expiration_ms", "rounded_ms"),
    [(0, 0), (1, 10), (9, 10), (10, 10), (11, 20), (10**15 + 1, 10**15 + 10)],
)
def test_expirations_are_rounded_up_to_the_tick(expiration_ms: int, rounded_ms: int) -> None:
    assert make_wheel(10).round_up(expiration_ms) == rounded_ms


@given(
    tick_ms=st.integers(1, 100),
    wheel_size=st.integers(2, 50),
    start_ms=st.integers(0, 10**12),
    delay_ms=st.one_of(st.integers(1, 1000), st.integers(1, 10**12)),
)
def test_any_task_runs_on_the_first_tick_not_before_its_time(
    tick_ms: int, wheel_size: int, start_ms: int, delay_ms: int
) -> None:
    wheel = make_wheel(tick_ms, wheel_size, start_ms)
    due_ms = start_ms + delay_ms
    task = enter(wheel, due_ms)
    assert task is not None
    check_wheel(wheel)
    way = way_of(wheel, task)
    assert way == sorted(set(way)), "it was in two buckets of one time"
    assert 0 <= way[-1] - due_ms < tick_ms
    assert len(way) <= len(list(wheel))


def test_wheel_starts_on_the_tick_before_its_start() -> None:
    wheel = make_wheel(10, 4, 1_234)
    enter(wheel, 10_000)
    assert [level.current_ms for level in wheel] == [1_230, 1_200, 1_120, 640, 0]
    check_wheel(wheel)


def test_advance_moves_every_level() -> None:
    wheel = make_wheel(1, 10)
    enter(wheel, 5_000)
    wheel.advance(1_234)
    assert [level.current_ms for level in wheel] == [1_234, 1_230, 1_200, 1_000]


def test_bucket_is_used_again_in_the_next_round() -> None:
    wheel = make_wheel(1, 10)
    first = enter(wheel, 3)
    assert first is not None
    assert way_of(wheel, first) == [3]
    wheel.advance(4)
    enter(wheel, 12)
    second = enter(wheel, 13)
    assert second is not None
    assert len(list(wheel)) == 1
    assert [bucket.expiration_ms for bucket in wheel.buckets if not bucket.is_empty] == [12, 13]
    check_wheel(wheel)


def test_tasks_of_one_tick_share_a_bucket_and_one_queue_entry() -> None:
    wheel = make_wheel(10)
    for expiration_ms in range(11, 21):
        enter(wheel, expiration_ms)
    assert check_wheel(wheel) == 10
    assert wheel.queue._length == 1


@pytest.mark.parametrize(
    ("tick_ms", "wheel_size", "message"),
    [
        (0, 20, "tick_ms must be at least 1, got 0"),
        (-5, 20, "tick_ms must be at least 1, got -5"),
        (1, 1, "wheel_size must be at least 2, got 1"),
    ],
)
def test_tick_or_size_below_its_minimum_is_refused(
    tick_ms: int, wheel_size: int, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        make_wheel(tick_ms, wheel_size)


def test_check_finds_a_task_in_a_bucket_of_another_time() -> None:
    wheel = make_wheel()
    task = enter(wheel, 5)
    assert task is not None
    task._timer_expiration_ms = 6
    with pytest.raises(AssertionError, match="bucket of another time"):
        check_wheel(wheel)
