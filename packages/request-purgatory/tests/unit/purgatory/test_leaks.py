"""A dropped request, handle, timer or purgatory is freed, whatever ring it was part of."""

from __future__ import annotations

import gc
import logging
import sys
import weakref
from collections.abc import Callable
from concurrent.futures import Future

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
    TimerHandle,
    TimerTask,
)
from request_purgatory.legacy import LegacyPurgatory
from tests.support.garbage import Payload, collect_automatically, make_timer
from tests.support.invariants import check_invariants
from tests.support.requests import Fault, Request, fail

pytestmark = pytest.mark.usefixtures("collector_at_rest")


def blocks_kept(step: Callable[[], object], rounds: int = 2_000) -> int:
    """How many more memory blocks the process has after many rounds of `step` than after a few."""
    for _ in range(50):
        step()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(rounds):
        step()
    gc.collect()
    return sys.getallocatedblocks() - before


# -- handles


def test_what_a_handle_refers_to_goes_when_it_fires_or_is_cancelled() -> None:
    timer, clock = make_timer()
    fired, cancelled = Payload(), Payload()
    ghosts = [weakref.ref(fired), weakref.ref(cancelled)]
    handles = [timer.call_later_ms(10, fired, fired), timer.call_later_ms(10, cancelled, cancelled)]
    del fired, cancelled
    handles[1].cancel()
    clock.advance(10)
    timer.advance_clock(0)
    assert [ghost() for ghost in ghosts] == [None, None]
    assert all(handle.delay_ms == 10 for handle in handles)


def test_handles_come_and_go_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    """Fired, cancelled, forgotten before they fired, and with a callback that raises.

    No block of memory stays.
    """
    timer, clock = make_timer()
    caplog.set_level(logging.CRITICAL)

    def step() -> None:
        timer.call_later_ms(1, Payload())
        timer.call_later_ms(1, Payload(), 1, 2).cancel()
        timer.call_later_ms(1, fail)
        timer.call_later_ms(70_000, Payload()).cancel()
        clock.advance(1)
        timer.advance_clock(0)

    assert blocks_kept(step) < 100
    assert timer.size == 0


def test_timer_that_is_dropped_with_handles_pending_takes_them_along() -> None:
    timer, _ = make_timer()
    payload = Payload()
    ghost = weakref.ref(payload)
    for number in range(100_000):
        timer.call_later_ms(1 + number * 7, payload)
    gone = weakref.ref(timer)
    del timer, payload
    gc.collect()
    assert (gone(), ghost()) == (None, None)


def test_ring_through_a_callback_is_found() -> None:
    """The timer holds the handle, the handle the callback, the callback the timer.

    Only the collector can see that.
    """
    timer, _ = make_timer()
    payload = Payload()
    payload.ring = timer
    ghosts = [weakref.ref(timer), weakref.ref(payload)]
    timer.call_later_ms(10, payload)
    timer.call_later_ms(50_000, payload.__call__, timer)
    timer.call_later_ms(10, timer.advance_clock, 0)
    del timer, payload
    assert any(ghost() is not None for ghost in ghosts), (
        "no ring was made: this would prove nothing"
    )
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


def test_ring_through_a_task_of_a_subclass_is_found() -> None:
    class Task(TimerTask):
        ring: object

        def run(self) -> None:
            """Never called here."""

    timer, _ = make_timer()
    ghost = weakref.ref(timer)
    for delay_ms in (10, 10, 10, 900):
        task = Task(delay_ms)
        task.ring = timer
        timer.add(task)
        timer.call_later_ms(delay_ms, task.cancel)
    del timer, task
    gc.collect()
    assert ghost() is None


def test_handle_of_a_timer_that_was_shut_down_has_forgotten_what_it_calls() -> None:
    timer, _ = make_timer()
    payload = Payload()
    ghost = weakref.ref(payload)
    handle = timer.call_later_ms(1_000, payload, payload)
    assert timer.shutdown() == [handle]
    del payload
    assert ghost() is None


def test_handle_that_is_kept_survives_its_timer() -> None:
    timer, _ = make_timer()
    first, second = timer.call_later_ms(10, fail), timer.call_later_ms(10, fail)
    ghost = weakref.ref(timer)
    del timer
    gc.collect()
    assert ghost() is None
    assert isinstance(first, TimerHandle)
    assert (first.cancel(), second.cancel()) == (False, False)
    assert "delay_ms=10" in repr(first)


def test_handle_that_is_kept_keeps_what_it_refers_to() -> None:
    """The collector must not take a callback apart that a handle still has.

    Once the handle goes, all goes.
    """
    timer, clock = make_timer()
    payload = Payload()
    payload.ring = timer
    ghost = weakref.ref(payload)
    handle = timer.call_later_ms(10, payload)
    timer.call_later_ms(10, fail)
    del timer, payload
    gc.collect()
    kept = ghost()
    assert kept is not None
    timer = kept.ring  # type: ignore[assignment]
    assert isinstance(timer, SystemTimer)
    assert handle.cancel()
    assert (timer.size, clock.now_ms) == (1, 0)
    del timer, kept
    gc.collect()
    assert ghost() is None


def test_collections_while_handles_are_pending_change_nothing() -> None:
    timer, clock = make_timer()
    payload = Payload()
    payload.ring = timer
    called: list[int] = []
    handles = [
        timer.call_later_ms(1 + number % 500, called.append, number) for number in range(1_000)
    ]
    timer.call_later_ms(40, payload)
    del payload
    for _ in range(3):
        gc.collect()
        check_invariants(timer)
    for handle in handles[::2]:
        handle.cancel()
    clock.advance(500)
    timer.advance_clock(0)
    assert sorted(called) == list(range(1, 1_000, 2))


# -- operations


@pytest.mark.parametrize("design", [DelayedOperationPurgatory, LegacyPurgatory])
def test_requests_come_and_go_without_a_trace(design: type[DelayedOperationPurgatory]) -> None:
    clock = ManualClock()
    purgatory: DelayedOperationPurgatory
    if design is LegacyPurgatory:
        purgatory = LegacyPurgatory("leaks", clock=clock, purge_interval=0, reaper=False)
    else:
        purgatory = DelayedOperationPurgatory(
            "leaks", timer=SystemTimer("leaks", clock=clock), purge_interval=0, reaper=False
        )

    def step() -> None:
        completed, expired, cancelled = Request(1_000), Request(1), Request(1_000)
        for request in (completed, expired, cancelled):
            purgatory.try_complete_else_watch(request, ["a", ("b", 1)])
        completed.ready = True
        purgatory.check_and_complete("a")
        cancelled.cancel()
        clock.advance(1)
        purgatory.advance_clock(0)
        purgatory.purge()

    assert blocks_kept(step, 500) < 100
    assert (purgatory.watched, purgatory.num_delayed) == (0, 0)


def test_request_is_freed_when_it_was_answered() -> None:
    purgatory = DelayedOperationPurgatory("leaks", timer=make_timer()[0], reaper=False)
    payload = Payload()
    ghost = weakref.ref(payload)

    class Holding(DelayedOperation):
        payload: Payload
        ready = False

        def try_complete(self) -> bool:
            return self.ready and self.force_complete()

        def on_complete(self) -> None:
            """Nothing to do."""

    request = Holding(10)
    request.payload = payload
    purgatory.try_complete_else_watch(request, ["a"])
    request.ready = True
    purgatory.check_and_complete("a")
    del request, payload
    assert ghost() is None


@pytest.mark.parametrize("keys", [["a"], ["a", "b", "b", ("c", 1)]])
def test_purgatory_that_is_dropped_with_requests_pending_takes_them_along(
    keys: list[object],
) -> None:
    timer, _ = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    payload = Payload()
    payload.ring = purgatory
    ghosts: list[weakref.ref[object]] = [
        weakref.ref(timer),
        weakref.ref(purgatory),
        weakref.ref(payload),
    ]
    for number in range(50):
        request = Request(10 + number * 100)
        request.during["complete"] = payload
        purgatory.try_complete_else_watch(request, keys)
    del timer, purgatory, payload, request
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None, None]


def test_ring_through_a_watch_key_is_found() -> None:
    timer, _ = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    ghosts: list[weakref.ref[object]] = [weakref.ref(timer), weakref.ref(purgatory)]
    wait: Future[object] = Future()
    purgatory.gather([wait], timeout=1)
    del timer, purgatory, wait
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None, None]


@pytest.mark.parametrize("keys", [[], ["a"]], ids=["one key", "two keys"])
@pytest.mark.parametrize(
    "end", ["a check", "time", "its owner", "discard", "its key's end", "shutdown", "refusal"]
)
def test_request_that_is_its_own_key_is_freed(end: str, keys: list[object]) -> None:
    timer, clock = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    payload = Payload()
    ghost = weakref.ref(payload)
    ends: dict[str, Callable[[Request], object]] = {
        "a check": purgatory.check_and_complete,
        "time": lambda _request: (clock.advance(10), purgatory.advance_clock(0)),
        "its owner": Request.force_complete,
        "discard": purgatory._discard,
        "its key's end": purgatory.cancel_for_key,
        "shutdown": lambda _request: purgatory.close(),
    }
    request = Request(10, complete=payload)
    del payload
    if end == "refusal":
        request.during["try"] = fail
        with pytest.raises(Fault):
            purgatory.try_complete_else_watch(request, [request, *keys])
    else:
        purgatory.try_complete_else_watch(request, [request, *keys])
        request.ready = True
        ends[end](request)
    assert request.is_completed
    del request
    purgatory.purge()
    gc.collect()
    assert ghost() is None


def test_ring_through_a_request_that_its_caller_holds_is_found() -> None:
    timer, clock = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)

    def expire(request: Request) -> None:
        clock.advance(10)
        request.run()

    ghosts: list[weakref.ref[object]] = [weakref.ref(purgatory)]
    for end in (Request.force_complete, Request.cancel, expire, None):
        request, payload = Request(10), Payload()
        payload.ring = (request, purgatory)
        request.during["complete"] = payload
        ghosts.append(weakref.ref(payload))
        purgatory.try_complete_else_watch(request, ["a", "b"])
        if end is not None:
            end(request)
    del timer, purgatory, request, payload, expire
    gc.collect()
    assert [ghost() for ghost in ghosts] == [None] * 5


# -- collections that the interpreter starts by itself


@pytest.mark.parametrize("keys", [["a"], ["a", "b"]], ids=["one key", "two keys"])
def test_automatic_collection_finds_a_dropped_ring(keys: list[str]) -> None:
    timer, _ = make_timer()
    purgatory = DelayedOperationPurgatory("leaks", timer=timer, reaper=False)
    payload = Payload()
    payload.ring = purgatory
    ghosts = [weakref.ref(purgatory), weakref.ref(payload)]
    purgatory.try_complete_else_watch(Request(1_000, complete=payload), keys)
    del timer, purgatory, payload
    assert all(ghost() is not None for ghost in ghosts), "no ring: this would prove nothing"
    collect_automatically(lambda: all(ghost() is None for ghost in ghosts))
