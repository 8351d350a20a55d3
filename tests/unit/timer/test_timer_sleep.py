"""What a thread that sleeps in `advance_clock` is woken by, and what it is not woken by."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import (
    Clock,
    ManualClock,
    SystemTimer,
)
from request_purgatory._native.parker import Parker
from request_purgatory.purgatory.legacy import DelayQueueTimer
from tests.support.requests import fail
from tests.support.sleeping_threads import SleeperClock
from tests.support.thread_group import Crew
from tests.unit.timer.steps import Note

HOUR_MS = 3_600_000


def test_looking_returns_at_once(clock: ManualClock, timer: SystemTimer) -> None:
    """advance_clock(0) never sleeps, also between two milliseconds."""
    clock.advance_to_ns(1)
    assert timer.advance_clock(0) is False
    timer.call_later(10, fail)
    assert timer.advance_clock(0) is False


def test_sleeping_thread_is_woken_when_the_clock_reaches_its_bucket(crew: Crew) -> None:
    """It had asked the clock for exactly that time."""
    clock = SleeperClock()
    timer = SystemTimer("test", clock=clock)
    runs_ms: list[int] = []
    timer.add(Note(50, clock, runs_ms))
    came_due: list[bool] = []
    crew.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(1) == 40  # The bucket of [40, 60) of the second wheel.
    clock.advance(45)
    crew.join()
    assert (came_due, runs_ms) == ([True], [])
    crew.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(2) == 50
    clock.advance(5)
    crew.join()
    assert (came_due, runs_ms) == ([True, True], [50])


def test_sleeping_thread_is_woken_by_an_earlier_bucket(crew: Crew) -> None:
    """It sleeps on, but for less long."""
    clock = SleeperClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later(15, fail)
    runs_ms: list[int] = []
    crew.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 15
    timer.add(Note(5, clock, runs_ms))
    assert clock.wait_for_sleep(2) == 5
    clock.advance(5)
    crew.join()
    assert runs_ms == [5]


def test_thread_does_not_sleep_through_a_bucket_that_comes_before_its_sleep(crew: Crew) -> None:
    """Another thread adds it between the look at the next bucket and the sleep, or a finalizer does on this one."""

    class AddingClock(SleeperClock):
        def wait_until(self, parker: Parker, until_ms: int | None) -> None:
            if not self.sleeps:
                timer.add(Note(5, clock, runs_ms))
            super().wait_until(parker, until_ms)

    clock = AddingClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later(15, fail)
    runs_ms: list[int] = []
    crew.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(2) == 5
    clock.advance(5)
    crew.join()
    assert (runs_ms, clock.sleeps) == ([5], [15, 5])


def test_sleeping_thread_is_not_woken_by_later_buckets(crew: Crew) -> None:
    """Nor by a task that joins the next bucket, nor by cancels: it would wake for nothing."""
    clock = SleeperClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later(5, lambda: None)
    crew.start(timer.advance_clock, None)
    clock.wait_for_sleep(1)
    for delay_ms in (5, 6, 19, 500, HOUR_MS):
        timer.call_later(delay_ms, lambda: None).cancel()
        timer.call_later(delay_ms, lambda: None)
        assert clock.asleep == 1
    clock.advance(5)
    crew.join()
    assert clock.sleeps == [5]


def test_sleep_ends_when_its_limit_is_over(crew: Crew) -> None:
    """False says that nothing came due.

    The limit is not cut short by a fraction of a millisecond.
    """
    clock = SleeperClock()
    clock.advance_to_ns(1)
    timer = SystemTimer("test", clock=clock)
    timer.call_later(100, fail)
    came_due: list[bool] = []
    crew.start(lambda: came_due.append(timer.advance_clock(10)))
    assert clock.wait_for_sleep(1) == 11
    clock.advance_to_ns(11_000_000)
    crew.join()
    assert came_due == [False]


def test_wake_ends_the_sleep(crew: Crew) -> None:
    """Also one that has not begun yet."""
    clock = SleeperClock()
    timer = SystemTimer("test", clock=clock)
    came_due: list[bool] = []
    crew.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(1) is None
    timer.wake()
    crew.join()
    timer.wake()
    crew.start(lambda: came_due.append(timer.advance_clock(None)))
    crew.join()
    assert came_due == [False, False]


def test_shutdown_ends_the_sleep(crew: Crew) -> None:
    """Of every thread."""
    clock = SleeperClock()
    timer = SystemTimer("test", clock=clock)
    for _ in range(3):
        crew.start(timer.advance_clock, None)
    clock.wait_for_sleep(3)
    timer.shutdown()
    crew.join()


class InterposingClock(Clock):
    """Reads what it is told to, and calls what it is told to during a reading."""

    def __init__(self) -> None:
        self.now_ms_ = 0
        self.during: list[Callable[[], None] | None] = []

    @property
    def now_ns(self) -> int:
        action = self.during.pop(0) if self.during else None
        if action is not None:
            action()
        return self.now_ms_ * 1_000_000

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        pytest.fail(f"slept until {until_ms} with a task due")


def test_task_that_is_due_when_it_comes_is_not_slept_over() -> None:
    """A thread reads the clock, and adds its task only after another one has advanced past the task's time."""
    clock = InterposingClock()
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []

    def add_late() -> None:
        clock.now_ms_ = 0
        timer.call_later(5, ran.append, "ran")
        clock.now_ms_ = 10

    clock.now_ms_ = 10
    # The first reading collects what is due; the second one comes between that and the sleep.
    clock.during = [None, add_late]
    assert timer.advance_clock(1_000) is True
    assert ran == ["ran"]


@pytest.mark.parametrize("design", [SystemTimer, DelayQueueTimer])
def test_each_of_several_sleepers_keeps_to_its_own_limit(
    crew: Crew, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    """One that gives up leaves a later task to those that go on."""
    clock = SleeperClock()
    timer = design("test", clock=clock)
    came_due: list[bool] = []
    limited = crew.start(lambda: came_due.append(timer.advance_clock(10)))
    clock.wait_for_sleep(1)
    crew.start(lambda: came_due.append(timer.advance_clock(None)))
    clock.wait_for_sleep(2)
    runs_ms: list[int] = []
    timer.add(
        Note(15, clock, runs_ms)
    )  # Later than the first sleeper's limit: whoever looks again by then is enough.
    clock.advance(10)
    limited.join(20.0)
    assert came_due == [False]
    clock.advance(5)
    crew.join()
    assert (came_due, runs_ms) == ([False, True], [15])
