"""Executors that fail in the middle, or belong to the parent process."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    SystemTimer,
    TimerTask,
)
from tests.support.children import in_child
from tests.support.requests import Request

TIME_LIMIT = 20.0


class Running(Executor):
    """An executor that runs a call at once, and then raises."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        call(*args, **kwargs)
        raise self.error


class Answering(Executor):
    """An executor that keeps its calls, and answers with one future."""

    def __init__(self, answer: object) -> None:
        self.answer = answer
        self.calls: list[Callable[[], object]] = []

    def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(lambda: call(*args, **kwargs))
        return self.answer


class Noted(TimerTask):
    """A task that notes what becomes of it."""

    def __init__(self, delay_ms: int, told: list[str]) -> None:
        super().__init__(delay_ms)
        self.told = told

    def run(self) -> None:
        self.told.append("run")

    def drop(self) -> None:
        self.told.append("dropped")


def test_executor_that_runs_a_task_and_raises_runs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    timer = SystemTimer("test", clock=clock, executor=Running(ValueError("late")))
    told: list[str] = []
    for _ in range(2):
        timer.add(Noted(1, told))
    clock.advance(1)
    assert timer.advance_clock(0)
    assert told == ["run", "run"]
    assert "timer 'test': the executor raised after it had begun <Noted" in caplog.text
    assert "refused" not in caplog.text


def test_exit_of_an_executor_that_ran_the_task_reaches_the_caller() -> None:
    timer = SystemTimer("test", clock=ManualClock(), executor=Running(SystemExit(3)))
    told: list[str] = []
    with pytest.raises(SystemExit):
        timer.add(Noted(0, told))
    assert told == ["run"]


def test_future_that_refuses_callbacks_loses_no_task_and_runs_none_twice(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Closed:
        def add_done_callback(self, callback: object) -> None:
            raise OSError("closed")

    executor = Answering(Closed())
    timer = SystemTimer("test", clock=ManualClock(), executor=executor)
    told: list[str] = []
    timer.add(Noted(0, told))
    assert told == ["run"]
    for call in executor.calls:
        call()
    assert told == ["run"]
    assert "OSError: closed" in caplog.text


def test_task_that_ran_is_not_dropped_though_its_future_fails() -> None:
    answer: Future[None] = Future()
    executor = Answering(answer)
    timer = SystemTimer("test", clock=ManualClock(), executor=executor)
    told: list[str] = []
    timer.add(Noted(0, told))
    executor.calls[0]()
    answer.set_exception(OSError("late"))
    assert told == ["run"]


@pytest.mark.parametrize("answer", [None, 5], ids=repr)
def test_task_for_which_the_executor_returns_no_future_runs_at_once_and_is_logged(
    caplog: pytest.LogCaptureFixture, answer: object
) -> None:
    executor = Answering(answer)
    timer = SystemTimer("test", clock=ManualClock(), executor=executor)
    told: list[str] = []
    timer.add(Noted(0, told))
    assert told == ["run"]
    executor.calls[0]()  # A queue of the executor's own.
    assert told == ["run"]
    assert [record.getMessage().partition("<Noted")[0] for record in caplog.records] == [
        "timer 'test': the executor returned no future for "
    ]


def test_executor_that_runs_a_task_and_returns_no_future_runs_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Direct(Executor):
        def submit(self, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
            call(*args, **kwargs)

    timer = SystemTimer("test", clock=ManualClock(), executor=Direct())
    told: list[str] = []
    timer.add(Noted(0, told))
    assert (told, caplog.records) == (["run"], [])


def test_exit_of_a_task_without_a_future_reaches_the_caller() -> None:
    class Exiting(TimerTask):
        def run(self) -> None:
            raise SystemExit(3)

    timer = SystemTimer("test", clock=ManualClock(), executor=Answering(None))
    with pytest.raises(SystemExit):
        timer.add(Exiting(0))


def interrupt(record: logging.LogRecord) -> bool:
    """Raise as a signal handler does while a record is logged."""
    raise KeyboardInterrupt


@pytest.fixture
def interrupted_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every record of the timer interrupted."""
    monkeypatch.setattr(logging.getLogger("request_purgatory.timer.timer"), "filters", [interrupt])


def refuse(call: object) -> None:
    raise RuntimeError("full")


@pytest.mark.usefixtures("interrupted_logging")
@pytest.mark.parametrize("refuses", [True, False], ids=["refused", "no future"])
def test_task_runs_though_the_log_of_its_refusal_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, refuses: bool
) -> None:
    executor = Answering(None)
    if refuses:
        monkeypatch.setattr(executor, "submit", refuse)
    timer = SystemTimer("test", clock=ManualClock(), executor=executor)
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        timer.add(Noted(0, told))
    assert told == ["run"]


@pytest.mark.usefixtures("interrupted_logging")
def test_task_is_dropped_though_the_log_of_it_is_interrupted() -> None:
    answer: Future[None] = Future()
    answer.set_exception(OSError("broken"))
    timer = SystemTimer("test", clock=ManualClock(), executor=Answering(answer))
    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        timer.add(Noted(0, told))
    assert told == ["dropped"]


def test_task_that_the_executor_lost_to_an_error_is_dropped() -> None:
    answer: Future[None] = Future()
    executor = Answering(answer)
    timer = SystemTimer("test", clock=ManualClock(), executor=executor)
    told: list[str] = []
    timer.add(Noted(0, told))
    answer.set_exception(OSError("broken"))
    assert told == ["dropped"]
    executor.calls[0]()
    assert told == ["dropped"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_operation_of_a_pool_whose_initializer_fails_ends_as_cancelled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on = threading.Event()

    def initialize() -> None:
        assert go_on.wait(TIME_LIMIT)
        raise ValueError("no database")

    clock = ManualClock()
    with ThreadPoolExecutor(1, initializer=initialize) as pool:
        timer = SystemTimer("test", clock=clock, executor=pool)
        with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
            request = Request(1)
            purgatory.try_complete_else_watch(request, ["a"])
            clock.advance(1)
            purgatory.advance_clock(0)
            go_on.set()
            pool.shutdown()
            assert request.calls == ["cancellation"]
            assert purgatory.num_delayed == 0
    assert "the executor dropped <Request" in caplog.text


def test_executor_of_other_processes_is_refused_by_name() -> None:
    with (
        # Other contexts leave a server process behind, which 3.14 has by default.
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as pool,
        pytest.raises(
            InvalidArgumentError,
            match=r"executor must be one that runs tasks in this process, such as a Thread.*"
            r"got <.*ProcessPoolExecutor",
        ),
    ):
        DelayedOperationPurgatory("test", executor=pool)


@pytest.mark.parametrize("executor", [7, "pool", ThreadPoolExecutor], ids=repr)
def test_what_is_no_executor_is_refused_by_its_value(executor: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="executor must be an Executor of concurrent"):
        SystemTimer("test", executor=executor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("used", [True, False], ids=["used before", "fresh"])
def test_timeouts_of_a_forked_child_run_without_the_executor_of_its_parent(
    used: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        ThreadPoolExecutor(1, "pool") as pool,
        DelayedOperationPurgatory("shop", executor=pool) as purgatory,
    ):
        threads: list[str] = []

        def expire() -> None:
            note = Request(1, complete=lambda: threads.append(threading.current_thread().name))
            purgatory.try_complete_else_watch(note, ["a"])
            held = purgatory.hold(["a"], until=lambda: False, timeout=0.002)
            assert isinstance(held.exception(TIME_LIMIT), TimeoutError)

        def child() -> None:
            threads.clear()
            caplog.clear()
            expire()
            expire()
            assert set(threads) == {"shop-reaper"}
            warnings = [
                record.getMessage()
                for record in caplog.records
                if record.levelno == logging.WARNING and "executor" in record.getMessage()
            ]
            assert warnings == [
                "timer 'shop': the executor belongs to the parent process, so tasks run on the "
                "clock's thread; make the timer or purgatory in this process to have one"
            ]
            purgatory.close()

        if used:
            expire()
        in_child(child)
        expire()
        assert set(threads) == {"pool_0"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_task_of_a_forked_child_runs_without_a_users_executor() -> None:
    clock = ManualClock()
    executor = Answering(None)
    timer = SystemTimer("test", clock=clock, executor=executor)
    ran: list[str] = []
    timer.call_later_ms(1, ran.append, "inherited")

    def child() -> None:
        clock.advance(1)
        timer.advance_clock(0)
        assert ran == ["inherited"]
        if (grandchild := os.fork()) == 0:  # Not `in_child`, whose watchdog is a thread.
            timer.call_later_ms(0, ran.append, "of the grandchild")
            os._exit(ran != ["inherited", "of the grandchild"])
        assert os.waitpid(grandchild, 0)[1] == 0
        assert executor.calls == []

    in_child(child)
    clock.advance(1)
    timer.advance_clock(0)
    assert len(executor.calls) == 1
    executor.calls[0]()
    assert ran == ["inherited"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_does_not_end_the_executor_of_its_parent() -> None:
    ended: list[bool] = []

    class Ending(Answering):
        def __del__(self) -> None:
            ended.append(True)

    timer = SystemTimer("test", clock=ManualClock(), executor=Ending(None))

    def child() -> None:
        gc.collect()
        assert ended == []
        assert timer.size == 0

    in_child(child)


def test_operation_that_was_renewed_outlives_its_dropped_expiration() -> None:
    clock = ManualClock()
    executor = ThreadPoolExecutor(1)
    blocked = threading.Event()
    executor.submit(blocked.wait, TIME_LIMIT)
    timer = SystemTimer("test", clock=clock, executor=executor)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        kept, lost = Request(5), Request(5)
        for request in (kept, lost):
            purgatory.try_complete_else_watch(request, ["a"])
        clock.advance(5)
        purgatory.advance_clock(0)  # Both wait for the executor now.
        assert purgatory.renew(kept, 1)
        executor.shutdown(wait=False, cancel_futures=True)
        blocked.set()
        executor.shutdown()
        assert (kept.outcome, lost.outcome) == (None, "cancelled")
        clock.advance(1000)
        purgatory.advance_clock(0)  # The executor refuses, so it runs here.
        assert kept.outcome == "expired"
    timer.shutdown()
