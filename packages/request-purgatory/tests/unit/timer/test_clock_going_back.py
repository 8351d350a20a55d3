"""A clock that goes back, against its contract: no task is early, and no thread is kept busy."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from request_purgatory import DelayedOperationPurgatory, SystemTimer, TimerTask
from request_purgatory._native.parker import Parker
from request_purgatory.clock import Clock
from request_purgatory.timer.timer import MOST_BACK_MS
from tests.support.invariants import check_invariants
from tests.support.requests import Request, fail
from tests.support.sleeping_threads import SleepRecordingClock
from tests.support.thread_group import ThreadGroup

LATEST_MS = 10_000
YEARS_MS = 20 * 31_557_600_000


class Settable(Clock):
    """A clock whose time is an attribute, in milliseconds; nobody sleeps on it."""

    def __init__(self) -> None:
        self.time_ms: float = LATEST_MS
        self.readings = 0
        self.after_reading: float | None = None

    @property
    def now_ns(self) -> int:
        return self.read_ns()

    def read_ns(self) -> int:
        self.readings += 1
        assert self.readings < 100, "the clock is read without end"
        now_ms = self.time_ms
        if self.after_reading is not None:
            self.time_ms, self.after_reading = self.after_reading, None
        return round(now_ms * 1_000_000)

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        pytest.fail("no test sleeps on this clock")


@pytest.fixture
def clock() -> Settable:
    """Return a clock that stands at LATEST_MS."""
    return Settable()


@pytest.mark.parametrize("back_ms", [1, 50, 99, 100, 101, 1000, LATEST_MS])
@pytest.mark.parametrize("tick_ms", [1, 7])
def test_task_is_not_early(clock: Settable, back_ms: int, tick_ms: int) -> None:
    timer = SystemTimer("test", tick_ms=tick_ms, wheel_size=4, clock=clock)
    ran: list[float] = []
    clock.time_ms = now_ms = LATEST_MS - back_ms
    timer.call_later_ms(100, lambda: ran.append(clock.time_ms))
    check_invariants(timer)
    expiration_ms = timer.next_expiration_ms
    assert expiration_ms is not None
    timer.advance_clock(0)
    assert ran == []
    for clock.time_ms in range(now_ms, max(now_ms + 100, LATEST_MS) + 2 * tick_ms):
        clock.readings = 0
        timer.advance_clock(0)
    assert len(ran) == 1
    latest_ms = LATEST_MS if back_ms <= MOST_BACK_MS else 0
    assert now_ms + 100 <= ran[0] <= max(now_ms + 100, latest_ms) + tick_ms
    assert timer.size == 0


@pytest.mark.parametrize("wheel_size", [2, 4, 256])
@pytest.mark.parametrize("tick_ms", [1, 7])
@pytest.mark.parametrize("back_ms", [1_002, 7_654, LATEST_MS, LATEST_MS + YEARS_MS])
def test_wheel_goes_back_with_the_clock_and_all_tasks_keep_their_instants(
    clock: Settable, back_ms: int, tick_ms: int, wheel_size: int
) -> None:
    clock.time_ms += YEARS_MS
    timer = SystemTimer("test", tick_ms=tick_ms, wheel_size=wheel_size, clock=clock)
    ran: list[tuple[float, int]] = []

    def add(delay_ms: int) -> None:
        at_ms = round(clock.time_ms) + delay_ms
        clock.readings = 0
        timer.call_later_ms(delay_ms, lambda: ran.append((clock.time_ms, at_ms)))
        instants.append(at_ms)

    instants: list[int] = []
    for delay_ms in (1, 40, 5_000, 86_400_000, 3 * YEARS_MS):
        add(delay_ms)
    clock.time_ms -= back_ms
    for delay_ms in (1, 90, 600, 9_000):
        add(delay_ms)
    check_invariants(timer)
    assert timer.size == len(instants)
    for at_ms in sorted(instants):
        for clock.time_ms in (at_ms - 1, at_ms + tick_ms - 1):
            clock.readings = 0
            timer.advance_clock(0)
    assert sorted(at_ms for _, at_ms in ran) == sorted(instants)
    assert all(at_ms <= time_ms < at_ms + tick_ms for time_ms, at_ms in ran)
    assert timer.size == 0
    check_invariants(timer)


def test_task_that_is_due_before_the_time_that_the_wheel_goes_back_to_runs_next(
    clock: Settable,
) -> None:
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []
    timer.call_later_ms(5, ran.append, "first")
    clock.time_ms += 5_000
    timer.call_later_ms(100, ran.append, "second")
    clock.time_ms -= 2_000
    timer.call_later_ms(100, ran.append, "third")
    check_invariants(timer)
    timer.advance_clock(0)
    assert ran == ["first"]
    clock.time_ms += 100
    timer.advance_clock(0)
    assert ran == ["first", "third"]
    clock.time_ms += 2_000
    timer.advance_clock(0)
    assert ran == ["first", "third", "second"]


@pytest.mark.parametrize("back_ms", [1, 50, 100, 1000, LATEST_MS])
def test_operation_is_not_early_and_keeps_nobody_busy(clock: Settable, back_ms: int) -> None:
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    request = Request(100)
    clock.time_ms -= back_ms
    purgatory.try_complete_else_watch(request, ["a"])
    assert not purgatory.advance_clock(0)
    assert (request.outcome, timer.size) == (None, 1)
    clock.time_ms = LATEST_MS + 100
    purgatory.advance_clock(0)
    assert request.outcome == "expired"
    check_invariants(purgatory)


def test_operation_that_is_due_waits_for_a_clock_that_goes_back_before_it_runs(
    clock: Settable,
) -> None:
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    request = Request(100)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.time_ms += 200
    clock.after_reading = LATEST_MS - 1000
    assert purgatory.advance_clock(0)
    assert (request.outcome, timer.size) == (None, 1)
    assert not purgatory.advance_clock(0)
    clock.time_ms = LATEST_MS + 201
    purgatory.advance_clock(0)
    assert request.outcome == "expired"
    check_invariants(purgatory)


@pytest.mark.parametrize(
    ("time_ms", "is_due"), [(LATEST_MS, True), (LATEST_MS - 900, True), (LATEST_MS - 900.5, False)]
)
def test_task_that_a_clock_goes_past_while_it_goes_back_is_due_at_once(
    clock: Settable, time_ms: float, is_due: bool
) -> None:
    """The clock is read again before the task is taken for early."""
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []
    clock.time_ms -= 1000
    clock.after_reading = time_ms
    timer.call_later_ms(100, ran.append, "ran")
    assert timer.advance_clock(0) is is_due
    assert ran == ["ran"] * is_due
    check_invariants(timer)


def test_task_that_is_added_again_while_the_clock_is_read_again_runs_at_its_last_time() -> None:
    class Adding(Settable):
        def read_ns(self) -> int:
            if timer is not None and timer.size and not added:
                added.extend(timer._pending_tasks())
                self.time_ms = LATEST_MS
                timer.add(added[0])
            return super().read_ns()

    clock = Adding()
    timer: SystemTimer | None = None
    timer = SystemTimer("test", clock=clock)
    added: list[TimerTask] = []
    ran: list[str] = []
    clock.time_ms -= 1000
    timer.call_later_ms(100, ran.append, "ran")
    assert timer.next_expiration_ms == LATEST_MS + 100
    assert not timer.advance_clock(0)
    clock.time_ms += 100
    assert timer.advance_clock(0)
    assert ran == ["ran"]


@pytest.mark.parametrize("again_ms", [LATEST_MS, LATEST_MS - 5_000])
def test_task_that_is_cancelled_while_the_clock_is_read_again_does_not_run(again_ms: int) -> None:
    class Cancelling(Settable):
        def read_ns(self) -> int:
            for task in waiting():
                assert task.cancel()
            return super().read_ns()

    def waiting() -> list[TimerTask]:
        return timer._pending_tasks() if timer else []

    clock = Cancelling()
    timer: SystemTimer | None = None
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []
    clock.time_ms -= 5_000
    clock.after_reading = again_ms
    timer.call_later_ms(100, ran.append, "ran")
    assert timer.size == 0
    clock.time_ms = LATEST_MS + 200
    timer.advance_clock(0)
    assert ran == []
    check_invariants(timer)


def test_task_that_is_added_again_as_the_wheel_goes_back_keeps_its_last_time() -> None:
    class Adding(Settable):
        def read_ns(self) -> int:
            if timer is not None and timer.size == 1 and not added:
                added.extend(timer._pending_tasks())
                self.time_ms = LATEST_MS
                timer.add(added[0])
                self.time_ms = LATEST_MS - 5_000
            return super().read_ns()

    clock = Adding()
    timer: SystemTimer | None = None
    timer = SystemTimer("test", clock=clock)
    added: list[TimerTask] = []
    ran: list[str] = []
    clock.time_ms -= 5_000
    timer.call_later_ms(100, ran.append, "ran")
    check_invariants(timer)
    assert timer.next_expiration_ms is not None
    clock.time_ms = LATEST_MS + 99
    timer.advance_clock(0)
    assert ran == []
    clock.time_ms += 1
    timer.advance_clock(0)
    assert ran == ["ran"]


def test_clock_that_raises_at_its_second_reading_leaves_the_task_pending(clock: Settable) -> None:
    timer = SystemTimer("test", clock=clock)
    ran: list[str] = []
    clock.time_ms -= 1000
    clock.readings = 98
    timer.call_later_ms(100, ran.append, "ran")
    clock.readings = 0
    assert timer.size == 1
    assert not timer.advance_clock(0)
    clock.time_ms = LATEST_MS + 1
    assert timer.advance_clock(0)
    assert ran == ["ran"]


class Late(SleepRecordingClock):
    """A clock that some readings find where it was a while ago.

    Attributes:
        back_ms: How far it has gone back.
        at_second_reading: Called before the test's own second reading from now on.
    """

    def __init__(self) -> None:
        super().__init__(100)
        self.back_ms = 0
        self.at_second_reading: Callable[[], object] | None = None
        self._reader = threading.get_ident()
        self._readings = 0

    def read_ns(self) -> int:
        if self.at_second_reading is not None and threading.get_ident() == self._reader:
            self._readings += 1
            if self._readings == 2:
                self.at_second_reading()
        return super().read_ns() - self.back_ms * 1_000_000


def test_thread_that_sleeps_learns_of_a_task_that_the_wheel_has_passed(
    thread_group: ThreadGroup,
) -> None:
    clock = Late()
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(100, fail)
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 200
    clock.back_ms = 50
    ran: list[str] = []
    timer.call_later_ms(10, ran.append, "ran")
    assert clock.wait_for_sleep(2) == 101
    clock.back_ms = 0
    clock.advance(1)
    thread_group.join()
    assert ran == ["ran"]


def test_thread_that_sleeps_learns_that_the_wheel_has_gone_back(
    thread_group: ThreadGroup,
) -> None:
    clock = Late()
    clock.advance(9_900)
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(100, fail)
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 10_100
    clock.back_ms = 5_000
    slept: list[int | None] = []
    clock.at_second_reading = lambda: slept.append(clock.wait_for_sleep(2))
    ran: list[str] = []
    timer.call_later_ms(10, ran.append, "ran")
    assert slept == [10_001]
    assert clock.wait_for_sleep(3) == 5_010
    clock.back_ms = 4_990
    clock.advance(0)
    thread_group.join()
    assert ran == ["ran"]


def test_thread_that_sleeps_again_while_the_clock_is_read_again_learns_that_a_task_is_due(
    thread_group: ThreadGroup,
) -> None:
    clock = Late()
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(100, fail)
    thread_group.start(timer.advance_clock, None)
    assert clock.wait_for_sleep(1) == 200

    def come_back() -> None:
        assert clock.wait_for_sleep(2) == 101
        clock.back_ms = 0

    clock.back_ms = 50
    clock.at_second_reading = come_back
    ran: list[str] = []
    timer.call_later_ms(10, ran.append, "ran")
    thread_group.join()
    assert (ran, clock.now_ms) == (["ran"], 100)
