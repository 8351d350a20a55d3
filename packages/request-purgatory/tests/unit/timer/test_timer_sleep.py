"""The events that wake a thread in `advance_clock`, and those that do not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from request_purgatory import (
    Clock,
    ManualClock,
    SystemTimer,
)
from request_purgatory._native import primitives
from request_purgatory._native.parker import Parker
from request_purgatory.legacy import DelayQueueTimer
from tests.support.requests import fail
from tests.support.sleeping_threads import SleepRecordingClock
from tests.support.thread_group import ThreadGroup
from tests.unit.timer.steps import Note

HOUR_MS = 3_600_000
TIME_LIMIT = 20.0

BOTH_DESIGNS = pytest.mark.parametrize("design", [SystemTimer, DelayQueueTimer])


def test_advance_clock_without_a_timeout_returns_at_once(
    clock: ManualClock, timer: SystemTimer
) -> None:
    clock.advance_to_ns(1)
    assert timer.advance_clock(0) is False
    timer.call_later_ms(10, fail)
    assert timer.advance_clock(0) is False


def test_sleeping_thread_is_woken_when_the_clock_reaches_its_bucket(
    thread_group: ThreadGroup,
) -> None:
    clock = SleepRecordingClock()
    timer = SystemTimer("test", wheel_size=20, clock=clock)
    runs_ms: list[int] = []
    timer.add(Note(50, clock, runs_ms))
    came_due: list[bool] = []
    thread_group.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(1) == 40  # The bucket of [40, 60) of the second wheel.
    clock.advance(45)
    thread_group.join()
    assert (came_due, runs_ms) == ([True], [])
    thread_group.start(lambda: came_due.append(timer.advance_clock(None)))
    assert clock.wait_for_sleep(2) == 50
    clock.advance(5)
    thread_group.join()
    assert (came_due, runs_ms) == ([True, True], [50])


def test_sleeping_thread_is_woken_by_an_earlier_bucket(thread_group: ThreadGroup) -> None:
    clock = SleepRecordingClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(15, fail)
    runs_ms: list[int] = []
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 15
    timer.add(Note(5, clock, runs_ms))
    assert clock.wait_for_sleep(2) == 5
    clock.advance(5)
    thread_group.join()
    assert runs_ms == [5]


def test_thread_does_not_sleep_through_a_bucket_that_comes_before_its_sleep(
    thread_group: ThreadGroup,
) -> None:
    class AddingClock(SleepRecordingClock):
        def wait_until(self, parker: Parker, until_ms: int | None) -> None:
            if not self.sleeps:
                timer.add(Note(5, clock, runs_ms))
            super().wait_until(parker, until_ms)

    clock = AddingClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(15, fail)
    runs_ms: list[int] = []
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(2) == 5
    clock.advance(5)
    thread_group.join()
    assert (runs_ms, clock.sleeps) == ([5], [15, 5])


def test_sleeping_thread_is_not_woken_by_later_buckets(thread_group: ThreadGroup) -> None:
    clock = SleepRecordingClock()
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(5, lambda: None)
    thread_group.start(timer.advance_clock, None)
    clock.wait_for_sleep(1)
    for delay_ms in (5, 6, 19, 500, HOUR_MS):
        timer.call_later_ms(delay_ms, lambda: None).cancel()
        timer.call_later_ms(delay_ms, lambda: None)
        assert clock.asleep == 1
    clock.advance(5)
    thread_group.join()
    assert clock.sleeps == [5]


def test_sleep_ends_when_its_limit_is_over(thread_group: ThreadGroup) -> None:
    clock = SleepRecordingClock()
    clock.advance_to_ns(1)
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(100, fail)
    came_due: list[bool] = []
    thread_group.start(lambda: came_due.append(timer.advance_clock(10)))
    assert clock.wait_for_sleep(1) == 11
    clock.advance_to_ns(11_000_000)
    thread_group.join()
    assert came_due == [False]


@BOTH_DESIGNS
def test_wake_ends_one_sleep(
    thread_group: ThreadGroup, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    clock = SleepRecordingClock()
    timer = design("test", clock=clock)
    came_due: list[bool] = []

    def advance() -> None:
        came_due.append(timer.advance_clock(None))

    thread_group.start(advance)
    assert clock.wait_for_sleep(1) is None
    timer.wake()
    thread_group.join()
    timer.wake()
    thread_group.start(advance)
    thread_group.join()
    thread_group.start(advance)
    assert clock.wait_for_sleep(2) is None
    timer.wake()
    thread_group.join()
    assert came_due == [False, False, False]
    assert clock.sleeps == [None, None]


@BOTH_DESIGNS
def test_shutdown_ends_the_sleep(
    thread_group: ThreadGroup, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    clock = SleepRecordingClock()
    timer = design("test", clock=clock)
    for _ in range(3):
        thread_group.start(timer.advance_clock, None)
    clock.wait_for_sleep(3)
    timer.shutdown()
    thread_group.join()


class InterposingClock(Clock):
    """A clock with a settable time, which calls functions during its readings."""

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


def test_task_that_is_due_when_it_is_added_ends_the_wait() -> None:
    clock = InterposingClock()
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []

    def go_on() -> None:
        clock.now_ms_ = 10

    def add_late() -> None:
        clock.now_ms_ = 0
        clock.during = [None, go_on]
        timer.call_later_ms(5, ran.append, "ran")

    clock.now_ms_ = 10
    # The first reading collects due tasks; the second one is between that and the sleep.
    clock.during = [None, add_late]
    assert timer.advance_clock(1_000) is True
    assert ran == ["ran"]


@BOTH_DESIGNS
def test_each_of_several_sleepers_keeps_to_its_own_limit(
    thread_group: ThreadGroup, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    clock = SleepRecordingClock()
    timer = design("test", clock=clock)
    came_due: list[bool] = []
    limited = thread_group.start(lambda: came_due.append(timer.advance_clock(10)))
    clock.wait_for_sleep(1)
    thread_group.start(lambda: came_due.append(timer.advance_clock(None)))
    clock.wait_for_sleep(2)
    runs_ms: list[int] = []
    # Later than the first thread's limit: that thread checks the timer again in time.
    timer.add(Note(15, clock, runs_ms))
    clock.advance(10)
    limited.join(20.0)
    assert came_due == [False]
    clock.advance(5)
    thread_group.join()
    assert (came_due, runs_ms) == ([False, True], [15])


@BOTH_DESIGNS
def test_task_that_is_due_as_a_sleep_ends_does_not_wake_its_thread(
    thread_group: ThreadGroup, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    clock = SleepRecordingClock()
    timer = design("test", clock=clock)
    runs_ms: list[int] = []
    timer.add(Note(5, clock, runs_ms))
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 5
    timer.add(Note(5, clock, runs_ms))
    assert clock.asleep == 1
    clock.advance(5)
    thread_group.join()
    assert (runs_ms, clock.sleeps) == ([5, 5], [5])


@BOTH_DESIGNS
def test_wakeup_that_comes_too_late_for_one_sleep_does_not_end_the_next_one(
    thread_group: ThreadGroup, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    class LateClock(SleepRecordingClock):
        def wait_until(self, parker: Parker, until_ms: int | None) -> None:
            super().wait_until(parker, until_ms)
            if len(self.sleeps) == 1:
                parker.unpark()

    clock = LateClock()
    timer = design("test", clock=clock)
    runs_ms: list[int] = []
    came_due: list[bool] = []
    for number in (1, 2):
        timer.add(Note(5, clock, runs_ms))
        thread_group.start(lambda: came_due.append(timer.advance_clock(None)))
        clock.wait_for_sleep(number)
        clock.advance(5)
        thread_group.join()
    assert (came_due, runs_ms) == ([True, True], [5, 10])
    assert clock.sleeps == [5, 10]


class DeafClock(Clock):
    """A clock with a settable time, whose moves wake nobody: the test does so.

    Attributes:
        sleeps: The place and the end of each sleep so far.
    """

    def __init__(self) -> None:
        self.now_ms_ = 0
        self.sleeps: list[tuple[Parker, int | None]] = []
        self._slept = threading.Condition()

    @property
    def now_ns(self) -> int:
        return self.now_ms_ * 1_000_000

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        with self._slept:
            self.sleeps.append((parker, until_ms))
            self._slept.notify_all()
        assert parker.park(TIME_LIMIT), "was not woken"

    def wait_for_sleep(self, number: int) -> int | None:
        """Wait until `number` sleeps have begun, and return the end of the last one of these."""
        with self._slept:
            assert self._slept.wait_for(lambda: len(self.sleeps) >= number, TIME_LIMIT)
            return self.sleeps[number - 1][1]


@BOTH_DESIGNS
def test_thread_that_leaves_wakes_those_who_relied_on_it(
    thread_group: ThreadGroup, design: type[SystemTimer] | type[DelayQueueTimer]
) -> None:
    clock = DeafClock()
    timer = design("test", clock=clock)
    thread_group.start(timer.advance_clock, 10)
    assert clock.wait_for_sleep(1) == 10
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(2) is None
    runs_ms: list[int] = []
    timer.add(Note(15, clock, runs_ms))
    clock.now_ms_ = 10
    clock.sleeps[0][0].unpark()
    assert clock.wait_for_sleep(3) == 15
    clock.now_ms_ = 15
    clock.sleeps[2][0].unpark()
    thread_group.join()
    assert runs_ms == [15]


class JumpingClock(ManualClock):
    """A clock that is at the end of a sleep at once."""

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        assert until_ms is not None
        self.advance(until_ms - self.now_ms)


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, `_advance` is in C only")
def test_wake_that_another_thread_has_taken_ends_the_wait_of_one_that_came_before_it() -> None:
    clock = JumpingClock()
    timer = SystemTimer("test", clock=clock)
    num_wakes = timer._num_wakes
    timer.wake()
    assert timer.advance_clock(10) is False
    assert not timer._wake_requested
    assert timer._advance(10, num_wakes) is False
    assert clock.now_ms == 0


@pytest.mark.skipif(primitives.COMPILED, reason="compiled, the parker's methods are in C")
def test_look_for_an_earlier_wake_up_does_not_wait_for_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeouts: list[float | None] = []

    def park(_: Parker, timeout: float | None) -> bool:
        timeouts.append(timeout)
        return False

    monkeypatch.setattr(Parker, "park", park)
    assert SystemTimer("test", clock=JumpingClock()).advance_clock(10) is False
    assert timeouts == [0]
