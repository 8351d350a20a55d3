"""What a purgatory refuses, and that nothing is left behind then. The same for both designs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    SystemTimer,
    TaskInUseError,
    TimerClosedError,
    aio,
)
from tests.conftest import MakePurgatory
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail


@pytest.fixture
def make_purgatory(make_either_purgatory: MakePurgatory) -> MakePurgatory:
    return make_either_purgatory


@pytest.mark.parametrize("keys", ["topic-0", b"topic-0"])
def test_string_is_refused_as_a_list_of_keys(
    purgatory: DelayedOperationPurgatory, keys: str
) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=r"watch_keys must be a list of keys, not one string, got b?'topic-0'",
    ):
        purgatory.try_complete_else_watch(Request(), keys)


def test_request_without_a_key_is_refused(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    with pytest.raises(
        InvalidArgumentError, match=r"watch_keys must be at least one key, got \[\]"
    ):
        purgatory.try_complete_else_watch(request, [])
    assert request.tries == 0


@pytest.mark.parametrize("first", ["pending", "completed", "expired", "at once", "raised"])
def test_operation_that_a_purgatory_had_is_refused(
    purgatory: DelayedOperationPurgatory, make_purgatory: MakePurgatory, first: str
) -> None:
    during = {"try": lambda: 1 / 0} if first == "raised" else {}
    request = Request(0 if first == "expired" else 10, ready=first == "at once", **during)
    try:
        purgatory.try_complete_else_watch(request, ["a"])
    except ZeroDivisionError:
        assert first == "raised"
    if first == "completed":
        request.force_complete()
    before = purgatory.metrics()
    for again in (purgatory, make_purgatory()):
        with pytest.raises(TaskInUseError, match="has been in purgatory 'test'"):
            again.try_complete_else_watch(request, ["a"])
    assert purgatory.metrics() == before
    check_invariants(purgatory)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"purge_interval": -1}, "purge_interval must be at least 0, got -1"),
        ({"shards": 0}, "shards must be at least 1, got 0"),
        ({"tick_ms": 0}, "tick_ms must be at least 1, got 0"),
        ({"wheel_size": 1}, "wheel_size must be at least 2, got 1"),
    ],
)
def test_arguments_are_validated(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DelayedOperationPurgatory("test", **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"executor": 5}, "executor must be None where a timer is given, which has its own, got 5"),
        ({"tick_ms": 2}, "tick_ms must be 1 where a timer is given, which has its own, got 2"),
        ({"wheel_size": 8}, "wheel_size must be 256 where a timer is given, .* got 8"),
    ],
)
def test_settings_of_a_timer_are_refused_beside_a_timer(
    timer: SystemTimer, arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        DelayedOperationPurgatory("test", timer=timer, **arguments)  # type: ignore[arg-type]


def test_usual_settings_are_taken_beside_a_timer(timer: SystemTimer) -> None:
    class Number(int):
        """Equals a number, and is another object."""

    purgatory = DelayedOperationPurgatory(
        timer=timer, tick_ms=Number(1), wheel_size=Number(256), executor=None, reaper=False
    )
    assert purgatory.timer is timer
    purgatory.close()


@pytest.mark.parametrize("wheel_size", [2, 8])
def test_purgatories_of_threads_and_of_loops_take_the_same_timer_settings(wheel_size: int) -> None:
    with DelayedOperationPurgatory(
        "test", tick_ms=5, wheel_size=wheel_size, reaper=False
    ) as purgatory:
        timers = [purgatory.timer]

    async def main() -> None:
        async with aio.Purgatory("test", tick_ms=5, wheel_size=wheel_size) as on_loop:
            timers.append(on_loop.timer)

    asyncio.run(main())
    for timer in timers:
        assert isinstance(timer, SystemTimer)
        assert (timer.tick_ms, len(timer.occupancy()[0].counts)) == (5, wheel_size)


def test_unhashable_key_leaves_nothing_behind(purgatory: DelayedOperationPurgatory) -> None:
    request = Request()
    with pytest.raises(InvalidArgumentError, match=r"^keys must be hashable, got \[\]$"):
        purgatory.try_complete_else_watch(request, ["a", [], "b"])
    assert (request.outcome, purgatory.num_delayed, purgatory.operations()) == ("cancelled", 0, [])
    check_invariants(purgatory)


@pytest.mark.parametrize("call", ["notify", "num_watchers", "cancel_for_key"])
def test_unhashable_key_of_an_event_is_named(
    purgatory: DelayedOperationPurgatory, call: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^key must be hashable, got \('a', \[\]\)$"):
        getattr(purgatory, call)(("a", []))
    with pytest.raises(InvalidArgumentError, match=r"^keys must be hashable, got \[\]$"):
        purgatory.notify_many(["a", []])


def test_what_the_hash_of_a_key_raises_is_raised(purgatory: DelayedOperationPurgatory) -> None:
    class Odd:
        def __hash__(self) -> int:
            raise ZeroDivisionError

    for call in (purgatory.notify, lambda key: purgatory.notify_many([key])):
        with pytest.raises(ZeroDivisionError):
            call(Odd())
    with pytest.raises(ZeroDivisionError):
        purgatory.hold([Odd()], until=lambda: False)


def test_key_whose_hash_begins_to_fail_does_not_hide_what_the_request_raised(
    purgatory: DelayedOperationPurgatory,
) -> None:
    class Odd:
        failing = False

        def __hash__(self) -> int:
            if self.failing:
                raise ValueError("odd")
            return 1

    odd, request = Odd(), Request()

    def fail_from_now_on() -> None:
        odd.failing = True
        fail()

    request.during["try"] = fail_from_now_on
    with pytest.raises(Fault):
        purgatory.try_complete_else_watch(request, [odd, "b"])
    assert (request.outcome, purgatory.num_delayed, purgatory.watched) == ("cancelled", 0, 0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SystemTimer("test", tick_ms=0),
        lambda: DelayedOperationPurgatory("test", shards=0),
        lambda: SystemTimer.__new__(SystemTimer),
        lambda: DelayedOperationPurgatory.__new__(DelayedOperationPurgatory),
    ],
    ids=["timer", "purgatory", "timer without __init__", "purgatory without __init__"],
)
def test_finalizer_of_what_was_never_initialized_raises_nothing(
    make: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    try:
        make()
    except InvalidArgumentError:
        pass
    assert reports == []


def test_error_of_a_try_that_closes_the_purgatory_reaches_the_caller(
    purgatory: DelayedOperationPurgatory,
) -> None:
    """Also where it is the one that a closed timer raises."""
    error = TimerClosedError("another")

    def close() -> None:
        purgatory.close()
        raise error

    request = Request(**{"try": close})
    with pytest.raises(TimerClosedError) as raised:
        purgatory.try_complete_else_watch(request, ["a"])
    assert raised.value is error
    assert request.outcome == "cancelled"
