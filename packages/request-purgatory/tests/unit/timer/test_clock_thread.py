"""The thread that advances a clock."""

from __future__ import annotations

import logging
import threading
import time

import pytest

from request_purgatory import PurgatoryClosedError, SystemTimer, TimerClosedError
from request_purgatory._native.parker import Parker
from request_purgatory.timer.clock_thread import ClockThread
from tests.support.sleeping_threads import SleepRecordingClock
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


class Advance:
    """An `advance` that sleeps until it is woken, and counts its calls."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0
        self.called = threading.Event()
        self.thread: threading.Thread | None = None
        self.wakes = threading.Semaphore(0)

    def __call__(self) -> None:
        self.thread = threading.current_thread()
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        self.called.set()
        assert self.wakes.acquire(timeout=TIME_LIMIT)

    def wake(self) -> None:
        self.wakes.release()


def test_thread_advances_repeatedly_until_stopped() -> None:
    advance = Advance()
    thread = ClockThread("a-reaper", advance, advance.wake)
    thread.start()
    assert any(other.name == "a-reaper" and other.daemon for other in threading.enumerate())
    for _ in range(5):
        assert advance.called.wait(TIME_LIMIT)
        advance.called.clear()
        advance.wake()
    assert advance.called.wait(TIME_LIMIT)
    assert thread._thread.is_alive()
    assert thread.stop() is True
    assert not thread._thread.is_alive()
    assert advance.calls >= 6
    assert all(other.name != "a-reaper" for other in threading.enumerate())


def test_stopping_twice_is_harmless() -> None:
    advance = Advance()
    thread = ClockThread("a-reaper", advance, advance.wake)
    thread.start()
    assert thread.stop() is True
    assert thread.stop() is True


@pytest.mark.parametrize(
    "error", [ValueError("meant"), SystemExit(), KeyboardInterrupt()], ids=repr
)
def test_error_does_not_end_the_thread(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    advance = Advance(error)
    thread = ClockThread("a-reaper", advance, advance.wake)
    thread.start()
    assert advance.called.wait(TIME_LIMIT)
    assert advance.calls == 2
    assert "a-reaper: advancing the clock raised" in caplog.text
    thread.stop()


class ExitingHandler(logging.Handler):
    """A handler that ends the program at each error, as it means to."""

    def emit(self, record: logging.LogRecord) -> None:
        raise SystemExit(1)


def test_log_handler_that_exits_does_not_end_the_thread() -> None:
    advance = Advance(SystemExit(), ValueError("meant"))
    thread = ClockThread("a-reaper", advance, advance.wake)
    handler = ExitingHandler()
    logger = logging.getLogger("request_purgatory.timer.clock_thread")
    logger.addHandler(handler)
    try:
        thread.start()
        assert advance.called.wait(TIME_LIMIT)
    finally:
        logger.removeHandler(handler)
    assert thread.stop() is True


def test_thread_that_starts_may_be_started_and_stopped_by_who_interrupts_that() -> None:
    advance = Advance()
    thread = ClockThread("a-reaper", advance, advance.wake)
    starts = thread._thread.start
    interrupted: list[object] = []

    def start() -> None:
        interrupted.extend([thread.start(), thread.stop()])
        starts()

    thread._thread.start = start  # type: ignore[method-assign]
    thread.start()
    thread._thread.join(TIME_LIMIT)
    assert interrupted == [None, True]
    assert advance.calls == 0


def test_thread_that_could_not_start_may_be_started_again() -> None:
    advance = Advance()
    thread = ClockThread("a-reaper", advance, advance.wake)
    starts = thread._thread.start

    def refuse() -> None:
        thread._thread.start = starts  # type: ignore[method-assign]
        raise RuntimeError("can't start new thread")

    thread._thread.start = refuse  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="can't start"):
        thread.start()
    thread.start()
    assert advance.called.wait(TIME_LIMIT)
    assert thread.stop() is True


class RecordedPause(Parker):
    """A place to pause that notes each pause, and makes none but the last."""

    def __init__(self, until: int) -> None:
        super().__init__()
        self.until = until
        self.pauses: list[float | None] = []
        self.reached = threading.Event()

    def park(self, timeout: float | None) -> bool:
        self.pauses.append(timeout)
        if len(self.pauses) < self.until:
            return False
        self.reached.set()
        return super().park(TIME_LIMIT)


def test_thread_pauses_ever_longer_while_advancing_raises() -> None:
    advance = Advance(*(ValueError("no time") for _ in range(100)))
    thread = ClockThread("a-reaper", advance, advance.wake)
    thread._pause = pause = RecordedPause(until=13)
    thread.start()
    assert pause.reached.wait(TIME_LIMIT)
    assert pause.pauses == [min(0.001 * 2**count, 1.0) for count in range(13)]
    assert thread.stop(join_timeout=TIME_LIMIT / 2) is True  # It ends the pause.
    assert advance.calls == 13


def test_pauses_begin_anew_once_advancing_succeeds() -> None:
    errors: list[BaseException | None] = [ValueError(), ValueError(), None, ValueError()]

    def advance() -> None:
        error = errors.pop(0)
        if error is not None:
            raise error

    thread = ClockThread("a-reaper", advance, lambda: None)
    thread._pause = pause = RecordedPause(until=3)
    thread.start()
    assert pause.reached.wait(TIME_LIMIT)
    assert pause.pauses == [0.001, 0.002, 0.001]
    assert thread.stop() is True


def test_exit_of_a_task_delays_no_other() -> None:
    advance = Advance(SystemExit(), KeyboardInterrupt(), SystemExit())
    thread = ClockThread("a-reaper", advance, advance.wake)
    thread._pause = pause = RecordedPause(until=1)
    thread.start()
    assert advance.called.wait(TIME_LIMIT)
    assert pause.pauses == []
    assert thread.stop() is True


@pytest.mark.parametrize("error", [PurgatoryClosedError("p"), TimerClosedError("t")], ids=repr)
def test_thread_ends_when_its_timer_is_closed(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    advance = Advance(error)
    thread = ClockThread("a-reaper", advance, lambda: None)
    thread.start()
    while advance.thread is None:
        time.sleep(0)
    advance.thread.join(TIME_LIMIT)
    assert not thread._thread.is_alive()
    assert advance.calls == 1
    assert caplog.text == ""


def test_stop_from_the_thread_itself_does_not_wait() -> None:
    answers: list[bool] = []
    ready, asked = threading.Event(), threading.Event()

    def advance() -> None:
        assert ready.wait(TIME_LIMIT)
        answers.append(thread.stop())
        asked.set()

    thread = ClockThread("a-reaper", advance, lambda: None)
    thread.start()
    ready.set()
    assert asked.wait(TIME_LIMIT)
    assert thread.stop() is True
    assert answers == [False]


def test_stop_gives_up_on_a_callback_that_does_not_end(caplog: pytest.LogCaptureFixture) -> None:
    started, release = threading.Event(), threading.Event()

    def advance() -> None:
        started.set()
        assert release.wait(TIME_LIMIT)

    thread = ClockThread("a-reaper", advance, lambda: None)
    thread.start()
    assert started.wait(TIME_LIMIT)
    assert thread.stop(join_timeout=0.01) is False
    assert "a-reaper: still busy" in caplog.text
    release.set()
    assert thread.stop() is True


def test_stop_wakes_a_thread_that_sleeps_on_a_timer_with_others(thread_group: ThreadGroup) -> None:
    clock = SleepRecordingClock()
    timer = SystemTimer("test", clock=clock)
    woken = threading.Semaphore(0)

    def other_sleeper() -> None:
        for _ in range(3):
            timer.advance_clock(None)
            woken.release()

    thread_group.start(other_sleeper)
    clock.wait_for_sleep(1)
    thread = ClockThread("a-reaper", lambda: timer.advance_clock(None), timer.wake)
    thread.start()
    clock.wait_for_sleep(2)
    assert thread.stop() is True
    for _ in range(3):
        while not woken.acquire(timeout=0.01):
            timer.wake()
    thread_group.join()


def test_thread_runs_from_its_start_to_its_end() -> None:
    seen: list[bool] = []

    def advance() -> None:
        seen.append(thread.is_running)
        raise TimerClosedError("test")

    thread = ClockThread("a-reaper", advance, lambda: None)
    assert not thread.is_running
    thread.start()
    thread._thread.join(10)
    assert seen == [True]
    assert not thread.is_running
