"""Rules for wrong arguments, the same on both builds; `tests/misuse` tries them everywhere."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from request_purgatory import (
    Clock,
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    NotInitializedError,
    SystemTimer,
    TimerHandle,
    TimerTask,
    aio,
)
from request_purgatory.clock import MonotonicClock
from request_purgatory.legacy import LegacyPurgatory
from request_purgatory.testing import ManualPurgatory, run
from tests.support.requests import Request
from tests.support.whole_numbers import Index


class Unprintable:
    """An object whose `repr` raises."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


class Name(str):
    """A str of a class of its own."""

    __slots__ = ()


NAMED: dict[str, Callable[..., Any]] = {
    "SystemTimer": SystemTimer,
    "ManualPurgatory": ManualPurgatory,
    "LegacyPurgatory": lambda name: LegacyPurgatory(name, reaper=False),
    "aio.Purgatory": aio.Purgatory,
}


def test_value_that_cannot_be_printed_is_named_by_its_type() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"got <Unprintable whose repr raises ZeroDivisionError>$"
    ):
        TimerTask(Unprintable())  # type: ignore[arg-type]


def test_class_is_no_whole_number() -> None:
    with pytest.raises(InvalidArgumentError, match=r"an int.*, got <class 'int'>"):
        TimerTask(int)  # type: ignore[arg-type]


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED)
def test_name_is_a_str(make: Callable[[object], object]) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^name must be a str, got 5$"):
        make(5)


@pytest.mark.parametrize("make", NAMED.values(), ids=NAMED)
def test_name_of_a_subclass_of_str_becomes_a_str(make: Callable[[object], Any]) -> None:
    assert type(make(Name("orders")).name) is str


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"purge_interval": 1.5}, "purge_interval must be a whole number .*, got 1.5"),
        ({"purge_interval": 2**64}, "purge_interval must be at most"),
        ({"shards": 0}, "shards must be at least 1, got 0"),
        ({"shards": 2**31}, "shards must be at most 1048576, got 2147483648"),
        ({"warn_after_ms": float("nan")}, "warn_after_ms must be whole milliseconds"),
        ({"on_watch": 5}, "on_watch must be a plain callable, or None, got 5"),
        ({"on_try": 5}, "on_try must be a plain callable, or None, got 5"),
        ({"on_end": 5}, "on_end must be a plain callable, or None, got 5"),
        (
            {"on_end": asyncio.sleep},
            "on_end must be a plain callable, or None, got <",
        ),
        ({"executor": 5}, "executor must be an Executor of concurrent.futures, got 5"),
    ],
)
def test_purgatory_names_the_argument_that_it_refuses(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DelayedOperationPurgatory(reaper=False, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"wheel_size": 2**31}, "wheel_size must be at most 1048576, got 2147483648"),
        ({"clock": 5}, "clock must be a Clock, got 5"),
        ({"executor": print}, "executor must be an Executor of concurrent.futures, got <built-in"),
    ],
)
def test_timer_names_the_argument_that_it_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        SystemTimer("test", **arguments)


@pytest.mark.parametrize("number", [1.5, "5", float("inf")])
def test_wait_of_a_clock_takes_whole_milliseconds(timer: SystemTimer, number: object) -> None:
    legacy = LegacyPurgatory(reaper=False)
    for advance in (timer.advance_clock, legacy.timer.advance_clock):
        with pytest.raises(InvalidArgumentError, match=r"^timeout_ms must be a whole number"):
            advance(number)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match=r"^at_most must be a whole number"):
        timer.run_due(number)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [2**64, Index(5)])
def test_whole_numbers_of_any_size_and_type_are_taken(timer: SystemTimer, number: int) -> None:
    timer.wake()
    assert timer.advance_clock(number) is False
    assert timer.run_due(number) is False


@pytest.mark.parametrize("kind", [Clock, MonotonicClock])
def test_clock_takes_no_arguments(kind: type) -> None:
    with pytest.raises(TypeError):
        kind(5)


def test_manual_clock_without_init_is_refused() -> None:
    clock = ManualClock.__new__(ManualClock)
    assert repr(clock) == "<ManualClock not initialized>"
    for use in (
        lambda: clock.now_ns,
        lambda: clock.advance(5),
        lambda: clock.advance_to_ns(5),
        lambda: SystemTimer("test", clock=clock),
    ):
        with pytest.raises(NotInitializedError, match="ManualClock"):
            use()


def test_arguments_of_a_handle_are_a_tuple() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^args must be a tuple, got \[5\]$"):
        TimerHandle(5, print, [5])  # type: ignore[arg-type]


def test_loop_purgatory_without_init_is_refused() -> None:
    purgatory = aio.Purgatory.__new__(aio.Purgatory)
    assert repr(purgatory) == "<request_purgatory.aio.purgatory.Purgatory not initialized>"
    uses: list[Callable[[], object]] = [
        lambda: purgatory.notify("a"),
        lambda: purgatory.hold(["a"], until=bool),
        lambda: purgatory.wait(Request(), ["a"]),
        lambda: purgatory.num_delayed,
        purgatory.close,
    ]
    for use in uses:
        with pytest.raises(NotInitializedError, match="Purgatory"):
            use()
    assert "hold" in dict(inspect.getmembers(aio.Purgatory))
    with pytest.raises(TypeError, match="Purgatory can't be copied"):
        copy.copy(purgatory)


def test_run_takes_a_coroutine() -> None:
    with pytest.raises(InvalidArgumentError, match=r"^main must be a coroutine, got 5$"):
        run(5)  # type: ignore[arg-type]
