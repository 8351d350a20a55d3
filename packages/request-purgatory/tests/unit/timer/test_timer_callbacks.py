"""Tasks that raise, executors, finalizers, and the timer's end."""

from __future__ import annotations

import _thread
import queue
import signal
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
    TimerClosedError,
    TimerTask,
)
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail
from tests.support.thread_group import ThreadGroup
from tests.unit.timer.steps import Note, step

HOUR_MS = 3_600_000


# -- tasks that raise, executors


def test_task_that_raises_is_counted_and_the_next_one_runs(
    clock: ManualClock, timer: SystemTimer, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []
    timer.call_later_ms(1, fail)
    timer.call_later_ms(1, seen.append, "next")
    timer.call_later_ms(2, seen.append, "after")
    clock.advance(2)
    assert timer.advance_clock(0) is True
    assert seen == ["next", "after"]
    assert timer.callback_errors == 1
    assert "TimerHandle" in caplog.text
    assert "Fault" in caplog.text


def test_tasks_that_all_raise_leave_one_traceback(
    clock: ManualClock, timer: SystemTimer, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(100):
        timer.call_later_ms(1, fail)
    clock.advance(1)
    timer.advance_clock(0)
    assert timer.callback_errors == 100
    assert [record.exc_info is not None for record in caplog.records] == [True, False, False]


def test_handler_of_a_signal_runs_among_tasks_that_call_no_python_code(
    clock: ManualClock, timer: SystemTimer
) -> None:
    """And so do other threads, as the interpreter looks for both at the same places."""
    ran: list[int] = []
    timer.call_later_ms(1, _thread.interrupt_main)
    for number in range(1_000):
        timer.call_later_ms(1, ran.append, number)
    clock.advance(1)
    # Shells start background processes with this signal ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.advance_clock(0)
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(ran) < 100
    assert timer.size == 1_000 - len(ran)
    timer.advance_clock(0)
    assert ran == list(range(1_000))


def test_exception_of_a_task_without_a_delay_is_logged(
    timer: SystemTimer, caplog: pytest.LogCaptureFixture
) -> None:
    timer.call_later_ms(0, fail)
    assert timer.callback_errors == 1
    assert Fault.__name__ in caplog.text


def test_exit_raised_by_a_task_loses_no_other_task(clock: ManualClock, timer: SystemTimer) -> None:
    seen: list[str] = []

    def leave() -> None:
        raise SystemExit

    timer.call_later_ms(1, leave)
    timer.call_later_ms(2, seen.append, "kept")
    clock.advance(5)
    with pytest.raises(SystemExit):
        timer.advance_clock(0)
    assert (timer.size, timer.next_expiration_ms) == (1, 5)
    check_invariants(timer)
    assert timer.advance_clock(0) is True
    assert seen == ["kept"]


def test_executor_runs_the_tasks(clock: ManualClock) -> None:
    with ThreadPoolExecutor(1, "executor") as executor:
        timer = SystemTimer("test", clock=clock, executor=executor)
        ran: list[str] = []
        for delay_ms in (0, 1):
            timer.call_later_ms(delay_ms, lambda: ran.append(threading.current_thread().name))
        clock.advance(1)
        timer.advance_clock(0)
    assert ran == ["executor_0", "executor_0"]


def test_executor_that_was_shut_down_first_loses_no_task(clock: ManualClock) -> None:
    executor = ThreadPoolExecutor(1)
    timer = SystemTimer("test", clock=clock, executor=executor)
    runs_ms: list[int] = []
    timer.add(Note(1, clock, runs_ms))
    executor.shutdown()
    clock.advance(1)
    timer.advance_clock(0)
    assert runs_ms == [1]


@pytest.mark.parametrize("error", [queue.Full, ValueError, KeyboardInterrupt])
def test_executor_that_refuses_a_task_loses_none(
    clock: ManualClock, error: type[BaseException]
) -> None:
    class Refusing(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            raise error

    timer = SystemTimer("test", clock=clock, executor=Refusing(1))
    runs_ms: list[int] = []
    for _ in range(2):
        timer.add(Note(1, clock, runs_ms))
    clock.advance(1)
    for _ in range(2 if error is KeyboardInterrupt else 1):
        try:
            timer.advance_clock(0)
        except KeyboardInterrupt:
            assert error is KeyboardInterrupt
    assert runs_ms == [1, 1]


def test_operation_that_the_executor_drops_ends_as_cancelled(
    clock: ManualClock, thread_group: ThreadGroup
) -> None:
    executor = ThreadPoolExecutor(1)
    purgatory = DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock, executor=executor), reaper=False
    )
    release = threading.Event()
    running = executor.submit(release.wait, 20)
    requests = [Request(1), Request(1, cancellation=fail), Request(1)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(1)
    purgatory.advance_clock(0)
    executor.shutdown(wait=False, cancel_futures=True)
    assert [request.calls for request in requests] == [["cancellation"]] * 3
    assert purgatory.num_delayed == 0
    release.set()
    assert running.result(20)
    purgatory.close()
    executor.shutdown()


def test_user_defined_executor_may_return_anything(clock: ManualClock) -> None:
    class Direct(Executor):
        def submit(self, work: Any, /, *args: Any, **kwargs: Any) -> Any:
            work(*args, **kwargs)

    timer = SystemTimer("test", clock=clock, executor=Direct())
    runs_ms: list[int] = []
    timer.add(Note(1, clock, runs_ms))
    clock.advance(1)
    timer.advance_clock(0)
    assert runs_ms == [1]


def test_finalizer_of_a_task_may_use_the_timer(
    clock: ManualClock, timer: SystemTimer, thread_group: ThreadGroup
) -> None:
    revived: list[str] = []

    class Lease(TimerTask):
        def run(self) -> None:
            pass

        def __del__(self) -> None:
            timer.call_later_ms(1, revived.append, "finalized")

    for _ in range(3):
        timer.add(Lease(1))
    clock.advance(1)
    thread_group.start(timer.advance_clock, 0)
    thread_group.join()
    clock.advance(1)
    timer.advance_clock(0)
    assert revived == ["finalized"] * 3


# -- shutdown


def test_shutdown_returns_what_was_pending(clock: ManualClock, timer: SystemTimer) -> None:
    runs_ms: list[int] = []
    tasks = [Note(delay_ms, clock, runs_ms) for delay_ms in (1, 100, 10_000, HOUR_MS)]
    for task in tasks:
        timer.add(task)
    assert set(timer.shutdown()) == set(tasks)
    assert (timer.size, timer.next_expiration_ms) == (0, None)
    check_invariants(timer)
    assert timer.shutdown() == []
    other = SystemTimer("other", clock=clock)
    for task in tasks:
        other.add(task)
    step(clock, other)
    assert runs_ms == [1, 100, 10_000, HOUR_MS]


def test_shutdown_by_a_task_returns_the_due_ones_that_have_not_started(
    clock: ManualClock, timer: SystemTimer
) -> None:
    cancelled: list[TimerTask] = []
    timer.call_later_ms(1, lambda: cancelled.extend(timer.shutdown()))
    later = timer.call_later_ms(2, fail)
    clock.advance(10)
    timer.advance_clock(0)
    assert cancelled == [later]
    assert timer.callback_errors == 0


@pytest.mark.parametrize("delay_ms", [-1, 0, 10])
def test_closed_timer_takes_nothing(timer: SystemTimer, delay_ms: int) -> None:
    timer.shutdown()
    with pytest.raises(TimerClosedError, match="timer 'test' has been shut down"):
        timer.call_later_ms(delay_ms, fail)
    with pytest.raises(TimerClosedError):
        timer.advance_clock(0)
    assert timer.callback_errors == 0
