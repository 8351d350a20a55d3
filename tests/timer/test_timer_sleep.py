"""What a thread that sleeps in `advance_clock` is woken by, and what it is not woken by."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from request_purgatory import (
    Clock,
    ManualClock,
    SystemTimer,
)
from tests.crew import Crew
from tests.interleaving import interleave_sleep
from tests.requests import fail
from tests.sleepers import SleeperClock
from tests.timer.steps import Note

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
    """Another thread adds it between the look at the next bucket and the sleep."""
    clock = SleeperClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later(15, fail)
    runs_ms: list[int] = []
    interleave_sleep(timer).before(1, lambda: timer.add(Note(5, clock, runs_ms)))
    crew.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 5
    clock.advance(5)
    crew.join()
    assert (runs_ms, clock.sleeps) == ([5], [5])


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
    """False says that nothing came due; the limit is not cut short by a fraction of a millisecond."""
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
    """A clock that does something during a reading: what another thread might do then."""

    def __init__(self) -> None:
        self.reads_ms = 0
        self.during: list[Callable[[], object]] = []

    @property
    def now_ns(self) -> int:
        if self.during:
            self.during.pop(0)()
        return self.reads_ms * 1_000_000

    def wait_until(self, condition: threading.Condition, until_ms: int | None) -> None:
        pytest.fail(f"slept until {until_ms} with a task due")


def test_task_that_is_due_when_it_is_linked_is_not_slept_over() -> None:
    """A thread reads the clock, and links its task only after another one has advanced past it."""
    clock = InterposingClock()
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []

    def link_late() -> None:
        clock.reads_ms = 0
        timer.call_later(5, ran.append, "ran")
        clock.reads_ms = 10

    clock.reads_ms = 10
    # The first reading is for what is due; the second one comes between that and the sleep.
    clock.during = [int, link_late]
    assert timer.advance_clock(1_000) is True
    assert ran == ["ran"]
