"""What a timer does at one certain moment: idle, due, asleep, closing."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from request_purgatory import (
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TimerClosedError,
    TimerTask,
)
from request_purgatory._native.parker import Parker
from request_purgatory.timer.clock_thread import ClockThread
from request_purgatory.timer.wheel import TimingWheel
from tests.support.interleaving import interleave_tasks, interpreted_only
from tests.support.invariants import check_invariants
from tests.support.sleeping_threads import has_token
from tests.unit.timer.scripted_clock import ScriptedClock
from tests.unit.timer.steps import Note, step

# -- after an idle time


@pytest.mark.parametrize("idle_ms", [1, 2, 3, 255, 256, 257, 1000, 65_536])
@pytest.mark.parametrize("delay_ms", [1, 2, 255, 256])
def test_task_after_an_idle_time_is_not_early(
    clock: ManualClock, timer: SystemTimer, idle_ms: int, delay_ms: int
) -> None:
    clock.advance(idle_ms)
    runs_ms: list[int] = []
    timer.add(Note(delay_ms, clock, runs_ms))
    timer.advance_clock(0)
    assert runs_ms == []
    step(clock, timer)
    assert runs_ms == [idle_ms + delay_ms]


@pytest.mark.parametrize(("delay_ms", "levels"), [(254, 1), (255, 2)])
def test_idle_time_leaves_the_finest_wheel_to_the_nearest_tasks(
    clock: ManualClock, timer: SystemTimer, delay_ms: int, levels: int
) -> None:
    clock.advance(1000)
    timer.call_later_ms(delay_ms, print)
    assert len(timer.occupancy()) == levels


def test_wheel_does_not_pass_a_bucket_that_nobody_has_collected(
    clock: ManualClock, timer: SystemTimer
) -> None:
    runs_ms: list[int] = []
    timer.add(Note(10, clock, runs_ms))
    clock.advance(11)
    timer.add(Note(50, clock, runs_ms))
    check_invariants(timer)
    timer.advance_clock(0)
    step(clock, timer)
    assert runs_ms == [11, 61]


@pytest.mark.parametrize("delay_ms", [1, 2, 3, 4, 5])
def test_tick_of_two_is_never_early(clock: ManualClock, delay_ms: int) -> None:
    timer = SystemTimer("test", tick_ms=2, wheel_size=4, clock=clock)
    runs_ms: list[int] = []
    timer.add(Note(delay_ms, clock, runs_ms))
    step(clock, timer)
    assert runs_ms == [delay_ms + delay_ms % 2]


@interpreted_only
@pytest.mark.parametrize("delay_ms", [15, 16, 17, 255, 256, 257])
def test_wheels_are_created_without_the_lock(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch, delay_ms: int
) -> None:
    timer = SystemTimer("test", wheel_size=16, clock=clock)
    lock = interleave_tasks(timer)
    held: list[bool] = []
    make = TimingWheel.make_overflow

    def make_overflow(wheel: TimingWheel) -> TimingWheel:
        held.append(lock._lock.locked())
        return make(wheel)

    monkeypatch.setattr(TimingWheel, "make_overflow", make_overflow)
    timer.call_later_ms(delay_ms, print)
    assert held == [False] * (0 if delay_ms < 16 else 1 if delay_ms < 256 else 2)


# -- due tasks


def test_rest_of_the_due_tasks_is_due_now(clock: ManualClock, timer: SystemTimer) -> None:
    for _ in range(3):
        timer.call_later_ms(10, int)
    clock.advance_to_ns(10_500_000)
    assert timer.run_due(1) is True
    assert (timer.size, timer.next_expiration_ms) == (2, 10)
    assert timer.run_due(2) is False
    assert (timer.size, timer.next_expiration_ms) == (0, None)


def test_handle_of_a_call_without_a_delay_is_complete(timer: SystemTimer) -> None:
    handle = timer.call_later_ms(0, int)
    assert handle._timer_expiration_ms == -1
    assert handle.cancel() is False


def test_coarse_bucket_that_is_due_is_an_answer() -> None:
    clock = ScriptedClock()
    timer = SystemTimer("test", wheel_size=4, clock=clock)
    timer.call_later_ms(6, int)
    clock.advance(4)
    assert timer.advance_clock(5) is True
    assert (clock.sleeps, timer.size) == ([], 1)
    assert timer.advance_clock(5) is True
    assert (clock.sleeps, timer.size) == ([6], 0)


def test_counts_of_a_picture_may_stop_at_one(clock: ManualClock, timer: SystemTimer) -> None:
    for _ in range(3):
        timer.call_later_ms(10, int)
    assert max(timer.occupancy(1)[0].counts) == 1
    with pytest.raises(InvalidArgumentError, match="at_most"):
        timer.occupancy(0)


# -- sleeps


def test_sleep_that_is_broken_off_goes_on_to_its_end() -> None:
    def nearly(parker: Parker) -> None:
        parker.unpark()
        clock.advance_to_ns(9_500_000)

    clock = ScriptedClock(nearly)
    timer = SystemTimer("test", clock=clock)
    assert timer.advance_clock(10) is False
    assert clock.sleeps == [10, 10]


def test_wake_at_the_end_of_a_sleep_ends_no_further_one() -> None:
    def end(parker: Parker) -> None:
        clock.advance(10)
        timer.wake()

    clock = ScriptedClock(end)
    timer = SystemTimer("test", clock=clock)
    assert timer.advance_clock(10) is False
    assert timer.advance_clock(7) is False
    assert clock.sleeps == [10, 17]


def test_earlier_task_shortens_a_sleep_once() -> None:
    def add(parker: Parker) -> None:
        timer.call_later_ms(5, int)
        assert has_token(parker)

    clock = ScriptedClock(add)
    timer = SystemTimer("test", clock=clock)
    timer.call_later_ms(50, int)
    assert timer.advance_clock(None) is True
    assert clock.sleeps == [50, 5]


# -- executors


class Refusing(Executor):
    """An executor whose `submit` raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_executor_that_is_interrupted_loses_no_task(
    clock: ManualClock, error: BaseException
) -> None:
    timer = SystemTimer("test", clock=clock, executor=Refusing(error))
    runs_ms: list[int] = []
    timer.add(Note(10, clock, runs_ms))
    clock.advance(10)
    with pytest.raises(type(error)):
        timer.advance_clock(0)
    assert runs_ms == [10]


class Dropping(Executor):
    """An executor that accepts a call and drops it."""

    def submit(self, call: Callable[..., Any], /, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.cancel()
        future.set_running_or_notify_cancel()
        return future


class Stubborn(TimerTask):
    """A task that raises when it is dropped."""

    def drop(self) -> None:
        raise ValueError("not me")

    def __repr__(self) -> str:
        return "the task"


def test_task_that_an_executor_drops_is_logged(
    clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    timer = SystemTimer("test", clock=clock, executor=Dropping())
    timer.add(Stubborn(10))
    clock.advance(10)
    timer.advance_clock(0)
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            "timer 'test': the executor dropped the task, which will not run",
        ),
        (logging.ERROR, "timer 'test': the task raised"),
    ]


# -- the end


def test_timer_that_is_dropped_frees_its_tasks(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock)
    note = Note(10, clock, [])
    ghost = weakref.ref(note)
    timer.add(note)
    gc.disable()
    try:
        del note, timer
        assert ghost() is None
    finally:
        gc.enable()


@interpreted_only
def test_task_that_is_added_while_its_timer_closes_is_returned(clock: ManualClock) -> None:
    def add() -> None:
        note._timer_delay_ms = 0
        with pytest.raises(TimerClosedError):
            timer.add(note)

    timer = SystemTimer("test", clock=clock)
    note = Note(10, clock, [])
    timer.add(note)
    interleave_tasks(timer).before(2, add)
    assert timer.shutdown() == [note]


class Interrupting(TimerTask):
    """A task that ends the program when it is dropped."""

    def drop(self) -> None:
        raise KeyboardInterrupt


def test_dropped_task_may_end_the_program(clock: ManualClock) -> None:
    timer = SystemTimer("test", clock=clock, executor=Dropping())
    timer.add(Interrupting(10))
    clock.advance(10)
    with pytest.raises(KeyboardInterrupt):
        timer.advance_clock(0)


@interpreted_only
def test_task_for_which_no_submission_can_be_made_runs_at_once(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise MemoryError

    monkeypatch.setattr("request_purgatory.timer.timer.Submission", fail)
    timer = SystemTimer("test", clock=clock, executor=Dropping())
    runs_ms: list[int] = []
    timer.add(Note(10, clock, runs_ms))
    clock.advance(10)
    timer.advance_clock(0)
    assert runs_ms == [10]


# -- threads


def test_clock_thread_that_was_stopped_before_does_not_start() -> None:
    thread = ClockThread("test", pytest.fail, lambda: None)
    assert thread.stop() is True
    thread.start()
    assert thread._thread.ident is None


@interpreted_only
@pytest.mark.parametrize("timeout", [1e-6, 0.5, 1.5])
def test_parker_waits_for_the_time_that_is_given(timeout: float) -> None:
    class Gate:
        def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
            waits.append(timeout)
            return False

    waits: list[float] = []
    parker = Parker()
    parker._gate = Gate()  # type: ignore[assignment]
    assert parker.park(timeout) is False
    assert waits == [timeout]


@interpreted_only
def test_task_that_is_cancelled_during_the_shutdown_is_not_returned(
    timer: SystemTimer,
) -> None:
    first, second = (timer.call_later_ms(delay_ms, print) for delay_ms in (5, 6))
    # Once for `shutdown` itself, and once for the number of tasks.
    interleave_tasks(timer).before(3, second.cancel)
    assert timer.shutdown() == [first]
    assert timer.size == 0
