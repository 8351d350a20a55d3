"""`hold`: waiting for a condition without a subclass, by a future."""

from __future__ import annotations

import concurrent.futures
import math
from concurrent.futures import Future
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    OperationCancelledError,
    PurgatoryClosedError,
    SystemTimer,
)
from request_purgatory.purgatory.hold import HoldOperation, timeout_to_ms
from request_purgatory.purgatory.hold_future import HoldFuture
from tests.support.requests import Fault, Request, fail
from tests.support.thread_group import ThreadGroup

TIME_LIMIT = 20.0


class Condition:
    """Returns what the test last put in."""

    def __init__(self, value: object = None) -> None:
        self.value = value
        self.calls = 0

    def __call__(self) -> object:
        self.calls += 1
        return self.value


def result(future: concurrent.futures.Future[Any]) -> Any:
    """Return the result of a future that is done, without waiting."""
    assert future.done()
    return future.result(timeout=0)


def test_condition_that_holds_gives_its_value_at_once(purgatory: DelayedOperationPurgatory) -> None:
    until = Condition("value")
    assert result(purgatory.hold(["a"], until=until, timeout=1.0)) == "value"
    assert (until.calls, purgatory.num_delayed, purgatory.watched) == (1, 0, 0)


def test_future_gets_the_first_true_value(purgatory: DelayedOperationPurgatory) -> None:
    until = Condition(0)
    future = purgatory.hold(["a", "b"], until=until, timeout=1.0)
    purgatory.check_and_complete("a")
    assert not future.done()
    until.value = [1, 2]
    assert purgatory.check_and_complete("b") == 1
    assert result(future) == [1, 2]
    assert purgatory.num_delayed == 0


def test_time_that_runs_out_is_a_timeout_error(
    purgatory: DelayedOperationPurgatory, clock: ManualClock
) -> None:
    future = purgatory.hold(["a"], until=Condition(), timeout=0.25)
    clock.advance(249)
    purgatory.advance_clock(0)
    assert not future.done()
    clock.advance(1)
    purgatory.advance_clock(0)
    with pytest.raises(TimeoutError, match="the condition did not hold within 250 ms"):
        result(future)


def test_timeout_of_zero_only_looks(purgatory: DelayedOperationPurgatory) -> None:
    with pytest.raises(TimeoutError):
        result(purgatory.hold(["a"], until=Condition(), timeout=0))
    assert result(purgatory.hold(["a"], until=Condition(1), timeout=0)) == 1


@pytest.mark.parametrize("failing_call", [1, 2])
def test_condition_that_raises_gives_its_error_to_the_future(
    purgatory: DelayedOperationPurgatory, failing_call: int
) -> None:
    calls: list[int] = []

    def until() -> None:
        calls.append(len(calls) + 1)
        if calls[-1] == failing_call:
            fail()

    future = purgatory.hold(["a"], until=until, timeout=1.0)
    if failing_call == 2:
        assert not future.done()
        assert purgatory.check_and_complete("a") == 1
    with pytest.raises(Fault):
        result(future)
    assert (purgatory.num_delayed, purgatory.metrics().callback_errors) == (0, 0)


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_coroutine_function_is_refused_as_a_condition(purgatory: DelayedOperationPurgatory) -> None:
    async def until() -> bool:
        return True

    with pytest.raises(
        InvalidArgumentError,
        match="until must be a plain function, because its result is not awaited",
    ):
        result(purgatory.hold(["a"], until=until, timeout=1.0))
    assert purgatory.num_delayed == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_exit_in_a_condition_reaches_whoever_tries_it(
    purgatory: DelayedOperationPurgatory,
    error: type[BaseException],
) -> None:
    until = Condition()

    def leave_once() -> object:
        if until() == "leave":
            raise error
        return until.value

    future = purgatory.hold(["a"], until=leave_once, timeout=1.0)
    until.value = "leave"
    with pytest.raises(error):
        purgatory.check_and_complete("a")
    assert (future.done(), purgatory.num_delayed) == (False, 1)
    until.value = "value"
    assert purgatory.check_and_complete("a") == 1
    assert result(future) == "value"


def test_try_that_began_before_the_end_does_not_call_the_condition() -> None:
    until = Condition("value")
    request = HoldOperation(until, 500, HoldFuture())
    assert request.cancel() is True
    assert (request.try_complete(), until.calls, request.outcome) == (False, 0, "cancelled")


def test_callback_of_a_cancelled_future_finds_the_purgatory_without_it(
    purgatory: DelayedOperationPurgatory,
) -> None:
    until = Condition()
    future = purgatory.hold(["a"], until=until, timeout=1.0)
    found: list[int] = []

    def bring_the_event(_: object) -> None:
        until.value = "done"
        found.extend((purgatory.num_delayed, purgatory.check_and_complete("a")))

    future.add_done_callback(bring_the_event)
    assert future.cancel() is True
    assert future.cancel() is True
    assert found == [0, 0]
    assert (future.cancelled(), until.calls) == (True, 1)
    metrics = purgatory.metrics()
    assert (metrics.completions, metrics.cancellations, metrics.callback_errors) == (0, 1, 0)


def test_cancelled_future_leaves_the_purgatory(purgatory: DelayedOperationPurgatory) -> None:
    until = Condition()
    future = purgatory.hold(["a"], until=until, timeout=1.0)
    assert future.cancel() is True
    assert purgatory.num_delayed == 0
    until.value = 1
    assert purgatory.check_and_complete("a") == 0
    assert (until.calls, future.cancelled()) == (1, True)


def test_key_that_is_gone_gives_the_future_an_error(purgatory: DelayedOperationPurgatory) -> None:
    future = purgatory.hold(["a"], until=Condition(), timeout=1.0)
    assert len(purgatory.cancel_for_key("a")) == 1
    with pytest.raises(OperationCancelledError, match="'test'"):
        result(future)


@pytest.mark.parametrize("by", ["its owner", "the purgatory"])
def test_cancelled_future_is_done_for_those_who_wait(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup, by: str
) -> None:
    future = purgatory.hold(["a"], until=Condition(), timeout=1.0)
    done: list[object] = []

    def wait() -> None:
        done.append(concurrent.futures.wait([future], TIME_LIMIT).done)
        done.append(set(concurrent.futures.as_completed([future], TIME_LIMIT)))

    if by == "its owner":
        future.cancel()
    else:
        purgatory.cancel_for_key("a")
    assert concurrent.futures.wait([future], timeout=0).done == {future}
    thread_group.start(wait)
    thread_group.join()
    assert done == [{future}, {future}]


def test_shutdown_gives_the_future_a_clear_error(purgatory: DelayedOperationPurgatory) -> None:
    future = purgatory.hold(["a"], until=Condition(), timeout=1.0)
    cancelled = purgatory.hold(["a"], until=Condition(), timeout=1.0)
    cancelled.cancel()
    assert len(purgatory.close()) == 1
    with pytest.raises(PurgatoryClosedError, match="'test'"):
        result(future)
    assert cancelled.cancelled()


class Whole(int):
    """An int of another class."""


@pytest.mark.parametrize(
    "timeout",
    [float("nan"), 1e306, 10**400, Whole(10**400), True, "1", 1j],
    ids=repr,
)
def test_timeout_that_is_no_span_of_time_is_refused(
    purgatory: DelayedOperationPurgatory, timeout: Any
) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout must be"):
        purgatory.hold(["a"], until=Condition(), timeout=timeout)


@pytest.mark.parametrize(
    "timeout", [-1, -0.001, -math.inf, -(10**400), Whole(-1), timedelta(seconds=-1)], ids=repr
)
def test_timeout_that_has_passed_only_looks(
    purgatory: DelayedOperationPurgatory, timeout: Any
) -> None:
    with pytest.raises(TimeoutError, match="did not hold within 0 ms"):
        result(purgatory.hold(["a"], until=Condition(), timeout=timeout))
    assert result(purgatory.hold(["a"], until=Condition(1), timeout=timeout)) == 1
    assert purgatory.metrics().expirations == 1


def test_infinite_timeout_waits_without_a_limit(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.hold(["a"], until=Condition(), timeout=math.inf)
    assert purgatory.snapshot().longest[0].deadline_ms is None


def test_numbers_of_any_class_are_timeouts() -> None:
    assert timeout_to_ms(Fraction(1, 4)) == 250  # type: ignore[arg-type]


def test_renewal_to_a_timeout_that_has_passed_expires(
    purgatory: DelayedOperationPurgatory,
) -> None:
    operation = Request(timeout_ms=1_000)
    purgatory.try_complete_else_watch(operation, ["a"])
    purgatory.renew(operation, -1)
    assert operation.outcome == "expired"


@pytest.mark.parametrize("offset_ms", [0, 0.4])
def test_deadline_is_a_moment_on_the_clock(offset_ms: float) -> None:
    clock = ManualClock(7_000)
    timer = SystemTimer("test", clock=clock)
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        held = purgatory.hold(["a"], until=Condition(), deadline=7.25 - offset_ms / 1000)
        clock.advance(249)
        purgatory.advance_clock(0)
        assert not held.done()
        clock.advance(1)
        purgatory.advance_clock(0)
        assert isinstance(held.exception(0), TimeoutError)


@pytest.mark.parametrize("deadline", [7, 6.9, 0, -1, -math.inf])
def test_deadline_that_has_passed_expires_at_once(deadline: float) -> None:
    timer = SystemTimer("test", clock=ManualClock(7_000))
    with DelayedOperationPurgatory("test", timer=timer, reaper=False) as purgatory:
        held = purgatory.hold(["a"], until=Condition(), deadline=deadline)
        assert isinstance(held.exception(0), TimeoutError)
        gathered = purgatory.gather([Future()], deadline=deadline)
        assert isinstance(gathered.exception(0), TimeoutError)


def test_infinite_deadline_waits_without_a_limit(purgatory: DelayedOperationPurgatory) -> None:
    purgatory.hold(["a"], until=Condition(), deadline=math.inf)
    assert purgatory.snapshot().longest[0].deadline_ms is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"deadline": "1"}, "deadline must be seconds .*, got '1'"),
        ({"deadline": timedelta(1)}, "deadline must be a moment in seconds, not a span"),
        ({"deadline": 1, "timeout": 1}, "deadline must be None where a timeout is given, got 1"),
    ],
)
def test_deadline_that_is_none_is_refused(
    purgatory: DelayedOperationPurgatory, arguments: Any, message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        purgatory.hold(["a"], until=Condition(), **arguments)
    with pytest.raises(InvalidArgumentError, match=message):
        purgatory.gather([], **arguments)
    assert purgatory.num_delayed == 0


def test_timeout_is_compared_as_a_number(purgatory: DelayedOperationPurgatory) -> None:
    class Odd(float):
        def __le__(self, other: object) -> bool:
            raise ZeroDivisionError

    for _ in range(100):
        assert timeout_to_ms(Odd(0.25)) == 250


def test_condition_that_cannot_be_called_is_refused(purgatory: DelayedOperationPurgatory) -> None:
    with pytest.raises(InvalidArgumentError, match="until must be callable, got 5"):
        purgatory.hold(["a"], until=5, timeout=1.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", ["topic", [], None, 5, [["a"]], ["a", {}]], ids=repr)
def test_keys_are_validated(purgatory: DelayedOperationPurgatory, keys: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^keys must be"):
        purgatory.hold(keys, until=Condition(), timeout=1.0)


@pytest.mark.parametrize(
    ("timeout", "delay_ms"),
    [
        (0, 0),
        (1, 1_000),
        (0.001, 1),
        (0.003, 3),
        (0.0011, 2),
        (0.0020004, 2),
        (0.0020006, 3),
        (2.007, 2_007),
        (1e-5, 1),
        (86_400.5, 86_400_500),
    ],
)
def test_timeout_is_rounded_up_to_whole_milliseconds(timeout: float, delay_ms: int) -> None:
    assert timeout_to_ms(timeout) == delay_ms


def test_one_thread_waits_while_another_brings_the_event(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup
) -> None:
    until = Condition()
    got: list[object] = []
    future = purgatory.hold(["a"], until=until, timeout=60.0)
    thread_group.start(lambda: got.append(future.result(TIME_LIMIT)))
    until.value = "done"
    purgatory.check_and_complete("a")
    thread_group.join()
    assert got == ["done"]


def test_cancel_that_races_with_the_event_ends_the_future_one_way(
    purgatory: DelayedOperationPurgatory, thread_group: ThreadGroup, switching: None
) -> None:
    held = [(Condition(), number) for number in range(300)]
    pending = [purgatory.hold([number], until=until, timeout=60.0) for until, number in held]

    def bring_events() -> None:
        for until, number in held:
            until.value = "done"
            purgatory.check_and_complete(number)

    def cancel() -> None:
        for future in pending:
            future.cancel()

    thread_group.start(bring_events)
    thread_group.start(cancel)
    thread_group.join()
    assert concurrent.futures.wait(pending, timeout=0).not_done == set()
    assert all(future.cancelled() or future.result() == "done" for future in pending)
    metrics = purgatory.metrics()
    assert (purgatory.num_delayed, metrics.callback_errors) == (0, 0)
    assert metrics.completions + metrics.cancellations == 300
