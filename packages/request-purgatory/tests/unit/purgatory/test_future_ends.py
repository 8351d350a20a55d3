"""Single steps of a future's end that raise, and who is told then."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, _base
from types import TracebackType
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    OperationCancelledError,
)
from request_purgatory.purgatory import hold
from request_purgatory.purgatory.hold import HoldOperation
from request_purgatory.purgatory.hold_future import HoldFuture
from request_purgatory.testing import ManualPurgatory
from tests.support.interleaving import interpreted_only

#: How often a step of an end is made again.
MOST_TRIES = 100

#: What a step raises, and whether the caller hears of it.
heard = pytest.mark.parametrize(
    ("error", "is_heard"), [(KeyboardInterrupt, True), (MemoryError, False)]
)


@pytest.fixture
def purgatory() -> ManualPurgatory:
    """Return a purgatory in virtual time, which logs what callbacks raise."""
    return ManualPurgatory(raise_callback_errors=False)


def hold_until(purgatory: ManualPurgatory, ready: list[int]) -> HoldFuture[Any]:
    held = purgatory.hold(["a"], until=lambda: ready and "yes", timeout=0.5)
    assert isinstance(held, HoldFuture)
    return held


class Steps(threading.Condition):
    """The condition of a future, in which a signal handler raises.

    Attributes:
        done: For each time that the condition was entered, whether the future was done.
    """

    def __init__(
        self,
        future: Future[Any],
        entering: list[type[BaseException] | None],
        leaving: list[type[BaseException] | None] | None = None,
    ) -> None:
        """Take the place of a future's condition.

        Args:
            future: The future.
            entering: What is raised where the condition is entered; None for nothing.
            leaving: What is raised once it was left.
        """
        super().__init__()
        self.done: list[bool] = []
        self._future = future
        self._entering = entering
        self._leaving = leaving or []
        self._held = False
        future._condition = self  # type: ignore[attr-defined]

    def __enter__(self) -> bool:
        self.done.append(self._future._state == _base.FINISHED)
        error = self._entering.pop(0) if self._entering else None
        if error is not None:
            raise error
        return super().__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        leaving = self._leaving.pop(0) if self._leaving else None
        if leaving is not None:
            raise leaving


class Waiter(_base._AllCompletedWaiter):
    """A call of `concurrent.futures.wait`, which notes how it is told.

    Attributes:
        calls: The methods that it was told by.
        error: Raised once, after the future was noted and before the call is woken.
    """

    def __init__(self, future: Future[Any], pending: int = 1) -> None:
        super().__init__(pending, stop_on_exception=False)
        self.calls: list[str] = []
        self.error: type[BaseException] | None = None
        future._waiters.append(self)

    def add_result(self, future: Future[Any]) -> None:
        self._note("result", future, super().add_result)

    def add_exception(self, future: Future[Any]) -> None:
        self._note("exception", future, super().add_exception)

    def add_cancelled(self, future: Future[Any]) -> None:
        self._note("cancelled", future, super().add_cancelled)

    def _note(self, how: str, future: Future[Any], call: Callable[[Future[Any]], None]) -> None:
        self.calls.append(how)
        if self.error is not None:
            error, self.error = self.error, None
            self.finished_futures.append(future)
            raise error
        call(future)


# -- the end of the future


@heard
@pytest.mark.parametrize("step", ["end", "tell"])
@pytest.mark.parametrize("times", [1, 2, MOST_TRIES - 1])
def test_future_ends_though_a_step_raises(
    purgatory: ManualPurgatory,
    error: type[BaseException],
    is_heard: bool,
    step: str,
    times: int,
) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    told: list[object] = []
    held.add_done_callback(told.append)
    ready.append(1)
    before: list[type[BaseException] | None] = [None] if step == "tell" else []
    steps = Steps(held, [*before, *[error] * times])
    if is_heard:
        with pytest.raises(error):
            purgatory.notify("a")
    else:
        purgatory.notify("a")
    assert purgatory.metrics().callback_errors == 0
    undone = times + 1 if step == "end" else 1
    assert steps.done[: times + 2] == [False] * undone + [True] * (times + 2 - undone)
    assert held.result(0) == "yes"
    assert told == [held]


def test_future_that_ends_as_a_handler_raises_tells_everybody(purgatory: ManualPurgatory) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    told: list[object] = []
    held.add_done_callback(told.append)
    waiter = Waiter(held)
    ready.append(1)
    Steps(held, [], [KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt):
        purgatory.notify("a")
    assert (held.result(0), told, waiter.calls) == ("yes", [held], ["result"])


@pytest.mark.parametrize("end", ["completed", "expired"])
def test_future_whose_condition_can_not_be_entered_has_its_answer(
    purgatory: ManualPurgatory, end: str
) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    told: list[object] = []
    held.add_done_callback(told.append)
    steps = Steps(held, [MemoryError] * (MOST_TRIES + 50))
    if end == "completed":
        ready.append(1)
        purgatory.notify("a")
        assert held.result(0) == "yes"
    else:
        purgatory.advance(0.5)
        assert isinstance(held.exception(0), TimeoutError)
    assert steps.done[: MOST_TRIES + 51] == [False] * MOST_TRIES + [True] * 51
    # The first answer gave up, and the second one told.
    assert told == [held]
    assert purgatory.metrics().callback_errors == 1


def test_waiters_that_can_not_be_told_are_tried_a_limited_number_of_times(
    purgatory: ManualPurgatory,
) -> None:
    held = hold_until(purgatory, [])
    steps = Steps(held, [None, *[KeyboardInterrupt] * 1_000])
    with pytest.raises(KeyboardInterrupt):
        held.answer("yes", None)
    assert len(steps.done) == 1 + MOST_TRIES
    assert held._state == _base.FINISHED


@pytest.mark.parametrize("end", ["cancel", "notify"])
def test_future_that_somebody_waits_for_changes_under_its_condition(
    purgatory: ManualPurgatory, end: str
) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    states: list[str] = []

    class Noting(threading.Condition):
        def __enter__(self) -> bool:
            states.append(held._state)
            return super().__enter__()

    held._condition = Noting()
    ready.append(1)
    held.cancel() if end == "cancel" else purgatory.notify("a")
    assert states[0] == _base.PENDING
    assert held.done()


def test_future_that_was_set_running_ends_and_is_not_cancelled(purgatory: ManualPurgatory) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    assert held.set_running_or_notify_cancel()
    assert held.running()
    assert not held.cancel()
    assert not held.done()
    ready.append(1)
    purgatory.notify("a")
    assert held.result(0) == "yes"


def test_future_that_is_disowned_is_cancelled_and_tells_nobody(purgatory: ManualPurgatory) -> None:
    held = hold_until(purgatory, [])
    told: list[object] = []
    held.add_done_callback(told.append)
    waiter = Waiter(held)
    before = held._condition
    held.disown()
    assert held.cancelled()
    assert concurrent.futures.wait([held], 0).done == {held}
    assert held._condition is not before
    assert held._waiters == []
    assert held._done_callbacks == []
    held.answer("yes", None)
    assert (told, waiter.calls) == ([], [])


# -- calls of `concurrent.futures.wait`


@pytest.mark.parametrize("end", ["result", "exception", "cancelled"])
def test_each_call_that_waits_is_told_once_how_the_future_ended(
    purgatory: ManualPurgatory, end: str
) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    waiters = [Waiter(held) for _ in range(2)]
    if end == "result":
        ready.append(1)
        purgatory.notify("a")
    elif end == "exception":
        purgatory.advance(0.5)
    else:
        held.cancel()
    for waiter in waiters:
        assert waiter.calls == [end]
        assert waiter.finished_futures == [held]
        assert waiter.event.is_set()


@pytest.mark.parametrize("interrupted", [0, 1, 2])
def test_call_that_waits_is_woken_though_a_handler_raises_as_it_is_told(
    purgatory: ManualPurgatory, interrupted: int
) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    waiters = [Waiter(held) for _ in range(3)]
    waiters[interrupted].error = KeyboardInterrupt
    ready.append(1)
    with pytest.raises(KeyboardInterrupt):
        purgatory.notify("a")
    for waiter in waiters:
        assert waiter.calls == ["result"]
        assert waiter.finished_futures == [held]
        assert waiter.event.is_set()
        assert waiter.event._cond.acquire(blocking=False), "its lock is free"


def test_call_that_waits_for_another_future_too_is_not_woken_by_an_interruption(
    purgatory: ManualPurgatory,
) -> None:
    ready: list[int] = []
    held = hold_until(purgatory, ready)
    patient, interrupted = Waiter(held, pending=2), Waiter(held)
    interrupted.error = KeyboardInterrupt
    ready.append(1)
    with pytest.raises(KeyboardInterrupt):
        purgatory.notify("a")
    assert patient.finished_futures == [held]
    assert not patient.event.is_set()


def test_call_that_begins_to_wait_after_the_cancellation_is_not_told(
    purgatory: ManualPurgatory,
) -> None:
    """It has counted the future as done; the second answer is interrupted, and does nothing."""
    held = hold_until(purgatory, [])
    held.cancel()
    late = Waiter(held)
    Steps(held, [KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt):
        held.answer(None, None)
    assert late.calls == []


# -- operations


class Looking(HoldOperation):
    """Looks after each callback whether the future has ended."""

    def __init__(self, ready: list[int], answer: HoldFuture[Any]) -> None:
        super().__init__(lambda: ready, 500, answer)
        self.answer = answer
        self.seen: list[bool] = []

    def on_complete(self) -> None:
        super().on_complete()
        self.seen.append(self.answer.done())

    def on_cancellation(self) -> None:
        super().on_cancellation()
        self.seen.append(self.answer.done())


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_future_has_ended_once_the_callback_returns(purgatory: ManualPurgatory, end: str) -> None:
    """So an override that comes after it can look at the answer."""
    operation = Looking([], HoldFuture())
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.force_complete() if end == "complete" else operation.cancel()
    assert operation.seen == [True]


def test_end_of_a_held_request_is_reported() -> None:
    ended: list[DelayedOperation] = []
    with DelayedOperationPurgatory("test", reaper=False, on_end=ended.append) as purgatory:
        held = purgatory.hold(["a"], until=bool)
        assert isinstance(held, HoldFuture)
        held.cancel()
        assert ended == [held.operation]


def test_operation_that_is_cancelled_before_it_is_anywhere_says_so() -> None:
    answer: HoldFuture[object] = HoldFuture()
    operation = HoldOperation(bool, 500, answer)
    assert operation.cancel()
    assert isinstance(answer.exception(0), OperationCancelledError)


def test_operation_that_is_abandoned_in_a_child_forgets_condition_and_future() -> None:
    answer: HoldFuture[object] = HoldFuture()
    operation = HoldOperation(bool, 500, answer)
    assert operation.condition_name == "bool"
    operation._abandon_in_child()
    assert operation.condition_name == ""
    assert answer.cancelled()
    assert operation.future is None


class Refusing:
    """A future that can not be ended some times.

    Attributes:
        operation: What ends it.
        calls: How often that was tried.
    """

    operation: DelayedOperation

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    def answer(self, value: object, error: BaseException | None) -> None:
        self.calls += 1
        if self.calls <= self.times:
            raise ValueError(self.calls)

    def disown(self) -> None:
        pass


@pytest.mark.parametrize("times", [1, 2, MOST_TRIES - 1, 1_000])
def test_future_that_can_not_be_ended_is_tried_a_limited_number_of_times(
    purgatory: ManualPurgatory, times: int
) -> None:
    answer = Refusing(times)
    operation = HoldOperation(bool, 500, answer)
    purgatory.try_complete_else_watch(operation, ["a"])
    with pytest.raises(ValueError, match=str(min(times, MOST_TRIES))):
        operation.force_complete()
    assert answer.calls == min(times + 1, MOST_TRIES)
    assert operation.future is None


class Remote:
    """A future that raises at its second look, with which its gather makes the answer."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.looks = 0
        self.callbacks: list[Callable[[object], object]] = []

    def done(self) -> bool:
        return bool(self.looks)

    def cancelled(self) -> bool:
        return False

    def exception(self) -> BaseException | None:
        self.looks += 1
        if self.looks == 3:
            raise self.error
        return None

    def add_done_callback(self, callback: Callable[[object], object]) -> None:
        self.callbacks.append(callback)


@heard
def test_answer_is_made_again_though_a_look_raises(
    purgatory: ManualPurgatory, error: type[BaseException], is_heard: bool
) -> None:
    remote = Remote(error)
    gathered = purgatory.gather([remote], timeout=5)
    remote.looks = 1
    if is_heard:
        with pytest.raises(error):
            remote.callbacks[0](remote)
    else:
        remote.callbacks[0](remote)
    assert gathered.result(0).succeeded == (remote,)
    assert purgatory.metrics().callback_errors == 0


@interpreted_only
@pytest.mark.parametrize(("times", "kind"), [(1, TimeoutError), (2, MemoryError)])
def test_timeout_for_whose_error_there_is_no_memory_is_told_all_the_same(
    purgatory: ManualPurgatory,
    monkeypatch: pytest.MonkeyPatch,
    times: int,
    kind: type[BaseException],
) -> None:
    held = hold_until(purgatory, [])
    left = [MemoryError] * times

    def make(*args: object) -> TimeoutError:
        if left:
            raise left.pop()
        return TimeoutError(*args)

    monkeypatch.setattr(hold, "TimeoutError", make, raising=False)
    purgatory.advance(0.5)
    error = held.exception(0)
    assert (type(error), str(error)) == (kind, "")


def test_error_of_a_done_callback_is_logged(
    purgatory: ManualPurgatory, caplog: pytest.LogCaptureFixture
) -> None:
    """As a future of `concurrent.futures` logs it."""

    def fail(ended: object) -> None:
        raise ValueError("of the callback")

    ready: list[int] = []
    held = hold_until(purgatory, ready)
    held.add_done_callback(fail)
    ready.append(1)
    purgatory.notify("a")
    assert concurrent.futures.wait([held], 0).done == {held}
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("concurrent.futures", logging.ERROR)
    assert "exception calling callback for \"<HoldFuture 'hold()'" in record.getMessage()
    assert "of the callback" in caplog.text
