"""An exception that can't be logged harms nothing but the operation that raised it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from request_purgatory.aio import Purgatory
from request_purgatory.legacy import LegacyPurgatory
from tests.support.hostile_errors import HOSTILE_ERRORS
from tests.support.invariants import check_invariants
from tests.support.requests import Request
from tests.unit.aio.virtual import run

#: Twice as often as a kind is logged in one way: as a traceback, and as a line with the number.
TIMES = 10


@pytest.fixture(params=HOSTILE_ERRORS)
def hostile(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return a function that raises a hostile exception."""

    def raise_it() -> None:
        raise HOSTILE_ERRORS[request.param]

    return raise_it


def on_timer() -> DelayedOperationPurgatory:
    return DelayedOperationPurgatory(
        "test", timer=SystemTimer("test", clock=ManualClock()), reaper=False
    )


def on_queue() -> LegacyPurgatory:
    return LegacyPurgatory("test", clock=ManualClock(), reaper=False)


@pytest.fixture(params=[on_timer, on_queue], ids=["wheel", "legacy"])
def purgatory(request: pytest.FixtureRequest) -> DelayedOperationPurgatory:
    """Make a purgatory of either design on a clock that a test advances."""
    return request.param()  # type: ignore[no-any-return]


def is_hostile(error: BaseException | None) -> bool:
    """Return True for an exception of the table, by identity alone."""
    return any(type(error) is kind for kind in HOSTILE_ERRORS.values())


def test_check_tries_the_others(
    purgatory: DelayedOperationPurgatory, hostile: Callable[[], None]
) -> None:
    for _ in range(TIMES):
        request = Request(60_000)
        purgatory.try_complete_else_watch(request, ["a"])
        request.during["try"] = hostile
    after = Request(60_000)
    purgatory.try_complete_else_watch(after, ["a"])
    after.ready = True
    assert purgatory.check_and_complete("a") == 1
    assert (purgatory.num_delayed, purgatory.metrics().callback_errors) == (TIMES, TIMES)
    check_invariants(purgatory)
    assert len(purgatory.close()) == TIMES


def test_close_cancels_the_others(
    purgatory: DelayedOperationPurgatory, hostile: Callable[[], None]
) -> None:
    requests = [Request(60_000, cancellation=hostile) for _ in range(TIMES)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a", "b"])
    assert purgatory.close() == requests
    assert (purgatory.num_delayed, purgatory.watched) == (0, 0)
    assert purgatory.metrics().callback_errors == TIMES


def test_timeouts_behind_it_come(
    purgatory: DelayedOperationPurgatory, hostile: Callable[[], None]
) -> None:
    requests = [Request(5, complete=hostile) for _ in range(TIMES)] + [Request(5)]
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a"])
    assert isinstance(purgatory.timer.clock, ManualClock)
    purgatory.timer.clock.advance(5)
    assert purgatory.advance_clock(0)
    assert {request.outcome for request in requests} == {"expired"}
    assert purgatory.metrics().callback_errors == TIMES
    purgatory.close()


def test_tasks_behind_it_run(hostile: Callable[[], None]) -> None:
    timer = SystemTimer("test", clock=ManualClock())
    ran: list[str] = []
    for _ in range(TIMES):
        timer.call_later_ms(0, hostile)
    timer.call_later_ms(0, ran.append, "behind")
    assert (ran, timer.callback_errors) == (["behind"], TIMES)


def test_future_has_the_error_of_its_condition(
    purgatory: DelayedOperationPurgatory, hostile: Callable[[], None]
) -> None:
    looks = iter([lambda: None, hostile])
    held = purgatory.hold(["a"], until=lambda: next(looks)(), timeout=60)  # type: ignore[func-returns-value]
    purgatory.notify("a")
    assert is_hostile(held.exception(0))
    purgatory.close()


def test_stop_iteration_without_a_text_is_wrapped(purgatory: DelayedOperationPurgatory) -> None:
    class Silent(StopIteration):
        def __repr__(self) -> str:
            raise ValueError

    def until() -> bool:
        raise Silent

    error = purgatory.hold(["a"], until=until, timeout=60).exception(0)
    assert str(error) == "the condition raised <Silent whose repr raises ValueError>"
    purgatory.close()


def test_waiter_on_a_loop_has_the_error_of_its_condition(hostile: Callable[[], None]) -> None:
    async def scenario() -> None:
        looks = iter([lambda: None, hostile])
        async with Purgatory("test") as purgatory:
            held = purgatory.hold(["a"], until=lambda: next(looks)(), timeout=60)  # type: ignore[func-returns-value]
            request = Request(60_000)
            waiting = purgatory.wait(request, ["a"])
            request.during["try"] = hostile
            purgatory.notify("a")
            assert purgatory.metrics().callback_errors == 1
            assert is_hostile(held.exception())
            assert waiting.cancel()

    run(scenario)
