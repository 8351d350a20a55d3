"""An exit out of Python code that an end calls comes after the end's callbacks."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from request_purgatory import (
    Clock,
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
)
from request_purgatory._native.parker import Parker
from request_purgatory.legacy import LegacyPurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request

TIME_LIMIT = 20.0
EXITS = [KeyboardInterrupt, SystemExit, GeneratorExit]


class InterruptedClock(ManualClock):
    """A manual clock, written in Python, that raises once where a handler would.

    Attributes:
        error: What it raises at one of the next readings.
        readings: How many readings it answers before.
    """

    error: BaseException | None = None
    readings = 0

    def read_ns(self) -> int:
        if self.error is not None:
            if self.readings == 0:
                error, self.error = self.error, None
                raise error
            self.readings -= 1
        return super().read_ns()


@pytest.fixture
def clock() -> InterruptedClock:
    """Return a clock that stands at 0."""
    return InterruptedClock()


def on_timer(clock: InterruptedClock) -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory("test", timer=SystemTimer("test", clock=clock), reaper=False)


def on_queue(clock: InterruptedClock) -> LegacyPurgatory:
    return LegacyPurgatory("test", clock=clock, reaper=False)


@pytest.fixture(params=[on_timer, on_queue], ids=["wheel", "legacy"])
def purgatory(request: pytest.FixtureRequest, clock: InterruptedClock) -> DelayedOperationPurgatory:
    """Make a purgatory of either design on the test's clock."""
    return request.param(clock)  # type: ignore[no-any-return]


@pytest.mark.parametrize("exit_", EXITS)
@pytest.mark.parametrize(
    ("end", "outcome", "callback"),
    [
        (DelayedOperation.force_complete, "completed", "complete"),
        (DelayedOperation.cancel, "cancelled", "cancellation"),
    ],
    ids=["complete", "cancel"],
)
def test_exit_while_an_end_reads_the_clock_is_raised_after_the_callback(
    purgatory: DelayedOperationPurgatory,
    clock: InterruptedClock,
    exit_: type[BaseException],
    end: Callable[[DelayedOperation], bool],
    outcome: str,
    callback: str,
) -> None:
    request, other = Request(60_000), Request(60_000)
    for each in (request, other):
        purgatory.try_complete_else_watch(each, ["a"])
    clock.error = exit_()
    with pytest.raises(exit_):
        end(request)
    assert (request.outcome, request.calls) == (outcome, [callback])
    assert purgatory.num_delayed == 1
    assert end(other)
    assert purgatory.num_delayed == 0
    purgatory.purge()
    check_invariants(purgatory)


def test_exit_of_each_end_is_raised(
    purgatory: DelayedOperationPurgatory, clock: InterruptedClock
) -> None:
    for _ in range(3):
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a"])
        clock.error = KeyboardInterrupt()
        with pytest.raises(KeyboardInterrupt):
            request.force_complete()
    assert purgatory.num_delayed == 0


def test_check_tries_the_others_before_it_raises_an_exit_of_the_clock(
    purgatory: DelayedOperationPurgatory, clock: InterruptedClock
) -> None:
    requests = [Request(60_000) for _ in range(3)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
        request.ready = True
    clock.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        purgatory.check_and_complete("a")
    assert [request.calls for request in requests] == [["complete"]] * 3
    assert purgatory.num_delayed == 0


@pytest.mark.parametrize("readings", range(6))
def test_exit_at_any_reading_of_the_clock_loses_no_timeout(
    purgatory: DelayedOperationPurgatory, clock: InterruptedClock, readings: int
) -> None:
    requests = [Request(10) for _ in range(2)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    clock.advance(10)
    clock.readings = readings
    clock.error = KeyboardInterrupt()
    raised = 0
    for _ in range(3):
        try:
            purgatory.advance_clock(0)
        except KeyboardInterrupt:
            raised += 1
    assert raised + (clock.error is not None) == 1
    assert [request.calls for request in requests] == [["complete", "expiration"]] * 2
    assert purgatory.num_delayed == 0
    check_invariants(purgatory)


class MeasuringClock(Clock):
    """A clock written in Python that is no manual one: how late callbacks are is measured on it.

    Attributes:
        time_ms: What it reads.
        readings: How many readings it answers before it raises, once; -1 without an end.
    """

    def __init__(self) -> None:
        self.time_ms = 0
        self.readings = -1

    @property
    def now_ns(self) -> int:
        return self.read_ns()

    def read_ns(self) -> int:
        self.readings -= 1
        if self.readings == -1:
            raise KeyboardInterrupt
        return self.time_ms * 1_000_000

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        pytest.fail("no test sleeps on this clock")


@pytest.mark.parametrize("readings", range(6))
def test_exit_at_any_reading_of_the_clock_is_raised_by_the_call_that_reads_it(
    readings: int,
) -> None:
    clock = MeasuringClock()
    purgatory = DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock), reaper=False
    )
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.time_ms = 10
    clock.readings = readings
    try:
        purgatory.advance_clock(0)
        raised = False
    except KeyboardInterrupt:
        raised = True
    assert raised is (clock.readings < 0)
    if not request.is_completed:
        assert purgatory.advance_clock(0)
    assert request.calls == ["complete", "expiration"]
    assert purgatory.num_delayed == 0


def test_exit_while_the_timer_runs_an_operation_that_has_ended_is_raised(
    purgatory: DelayedOperationPurgatory, clock: InterruptedClock
) -> None:
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    assert request.force_complete()
    clock.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        request.run()
    assert request.calls == ["complete"]


def test_exit_while_a_request_is_refused_is_raised(clock: InterruptedClock) -> None:
    timer = SystemTimer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    timer.shutdown()
    request = Request(10)
    clock.readings = 1  # The second one is that of the end.
    clock.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        purgatory.try_complete_else_watch(request, ["a"])
    assert request.outcome == "cancelled"
    assert (purgatory.num_delayed, purgatory.watched) == (0, 0)


def test_exit_while_an_operation_that_ends_meanwhile_is_dropped_is_raised() -> None:
    class EndingClock(MeasuringClock):
        def read_ns(self) -> int:
            if self.readings == 0:
                assert request.force_complete()
                raise KeyboardInterrupt
            return super().read_ns()

    clock = EndingClock()
    purgatory = DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock), reaper=False
    )
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    request.during["complete"] = lambda: setattr(clock, "readings", -1)
    clock.readings = 0
    with pytest.raises(KeyboardInterrupt):
        request.drop()
    assert request.calls == ["complete"]


def test_exit_while_a_dropped_operation_reads_the_clock_leaves_it_ended(
    purgatory: DelayedOperationPurgatory, clock: InterruptedClock
) -> None:
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        request.drop()
    assert (request.outcome, request.calls) == ("cancelled", ["cancellation"])
    assert purgatory.num_delayed == 0


def test_error_of_the_clock_whose_logging_is_interrupted_is_no_obstacle(
    purgatory: DelayedOperationPurgatory,
    clock: InterruptedClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(record: logging.LogRecord) -> bool:
        raise KeyboardInterrupt

    request = Request(60_000)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.error = Fault()
    logger = logging.getLogger("request_purgatory.purgatory")
    monkeypatch.setattr(logger, "filters", [interrupt])
    with pytest.raises(KeyboardInterrupt):
        request.force_complete()
    assert request.calls == ["complete"]
    assert purgatory.num_delayed == 0


def test_exit_of_a_callback_that_was_interrupted_is_raised_on_its_own_thread(
    clock: InterruptedClock,
) -> None:
    """Another thread's end in between does not take it away."""
    purgatory = on_timer(clock)
    inner = Request(60_000)
    outer = Request(60_000)
    purgatory.try_complete_else_watch(inner, ["b"])
    purgatory.try_complete_else_watch(outer, ["a"])
    raised: list[BaseException] = []

    def end() -> None:
        try:
            inner.force_complete()
        except BaseException as error:
            raised.append(error)

    def elsewhere() -> None:
        thread = threading.Thread(target=end)
        thread.start()
        thread.join(TIME_LIMIT)

    outer.during["complete"] = elsewhere
    clock.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        outer.force_complete()
    assert (raised, inner.outcome) == ([], "completed")


def test_on_end_is_called_though_an_exit_was_put_off(clock: InterruptedClock) -> None:
    ended: list[DelayedOperation] = []
    purgatory = DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=clock), reaper=False, on_end=ended.append
    )
    request = Request(60_000)
    purgatory.try_complete_else_watch(request, ["a"])
    clock.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        request.force_complete()
    assert ended == [request]


def test_wake_that_is_interrupted_is_put_off_and_asked_for_again(clock: InterruptedClock) -> None:
    class Timer(SystemTimer):
        interrupted = 0

        def wake(self) -> None:
            if not self.interrupted:
                self.interrupted += 1
                raise KeyboardInterrupt
            super().wake()

    timer = Timer("test", clock=clock)
    purgatory = DelayedOperationPurgatory("test", timer=timer, purge_interval=0)
    try:
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a", "b"])
        with pytest.raises(KeyboardInterrupt):
            request.force_complete()
        assert request.calls == ["complete"]
        assert not purgatory._purge_requested
    finally:
        purgatory.close()
        timer.shutdown()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, Fault])
def test_operation_is_tried_again_after_logging_was_interrupted(
    purgatory: DelayedOperationPurgatory,
    monkeypatch: pytest.MonkeyPatch,
    interrupt: type[BaseException],
) -> None:
    """Between the failed try and the one for an event that came meanwhile."""

    def fail() -> None:
        request.during.clear()
        purgatory.check_and_complete("a")
        raise Fault

    def raise_it(record: logging.LogRecord) -> bool:
        raise interrupt

    request = Request(60_000)
    purgatory.try_complete_else_watch(request, ["a"])
    request.during["try"] = fail
    logger = logging.getLogger("request_purgatory.purgatory")
    monkeypatch.setattr(logger, "filters", [raise_it])
    with pytest.raises(interrupt) if interrupt is not Fault else nullcontext():
        purgatory.check_and_complete("a")
    monkeypatch.undo()
    assert (request.tries, request.outcome) == (3, None)
    request.ready = True
    assert purgatory.check_and_complete("a") == 1


class Nameless(type):
    """A metaclass whose classes lose their name."""

    lost = False

    @property
    def __name__(cls) -> str:  # type: ignore[override]
        if cls.lost:
            raise Fault
        return "Lying"


def test_operation_whose_error_can_not_be_made_is_tried_again(
    purgatory: DelayedOperationPurgatory,
) -> None:
    """It says that it completed, and did not, while another event came."""

    class Lying(Request, metaclass=Nameless):
        def try_complete(self) -> bool:
            self.tries += 1
            if self.tries == 2:
                purgatory.check_and_complete("a")
                Lying.lost = True
            return self.force_complete() if self.ready else self.tries == 2

    request = Lying(60_000)
    purgatory.try_complete_else_watch(request, ["a"])
    assert purgatory.check_and_complete("a") == 0
    assert (request.tries, request.outcome) == (3, None)
    request.ready = True
    assert purgatory.check_and_complete("a") == 1
