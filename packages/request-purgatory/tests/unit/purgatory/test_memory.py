"""Memory that runs out: a call fails, and the timer goes on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest

from request_purgatory import (
    DelayedOperation,
    DelayedOperationPurgatory,
    ManualClock,
    PurgatoryClosedError,
    SystemTimer,
)
from request_purgatory._native import primitives, states
from request_purgatory.error_log import ErrorLog
from request_purgatory.purgatory._counters import PurgatoryCounters
from request_purgatory.timer.wheel import max_buckets
from tests.support.failing_allocations import with_whole_lists
from tests.support.invariants import check_invariants
from tests.support.requests import Request, fail
from tests.support.thread_group import ThreadGroup

_testcapi = pytest.importorskip("_testcapi", reason="this Python has no tests of its own")

#: Allocations of a call, each of which fails once.
MOST = 60

compiled_only = pytest.mark.skipif(
    not primitives.COMPILED, reason="interpreted, each number is an object that needs memory"
)


@with_whole_lists
@compiled_only
def test_call_that_finds_no_memory_leaves_no_lock_held(thread_group: ThreadGroup) -> None:
    timer = SystemTimer("test", wheel_size=2)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    failed = 0
    for number in range(MOST):
        request = Request(2 ** (number % 30))
        for call in (
            # Farther ahead each time, so that levels are made, and buckets come into the delay
            # queue.
            partial(timer.call_later_ms, 2 ** (number % 40), fail),
            partial(purgatory.try_complete_else_watch, request, ["a"]),
        ):
            _testcapi.set_nomemory(number, number + 1)
            try:
                call()
            except MemoryError:
                failed += 1
            finally:
                _testcapi.remove_mem_hooks()
            thread_group.start(check_invariants, timer)
            thread_group.join()
    assert failed >= 5
    check_invariants(purgatory)
    assert purgatory.num_delayed == len(purgatory.close())
    timer.shutdown()
    check_invariants(timer)


@with_whole_lists
@compiled_only
def test_reading_that_finds_no_memory_leaves_no_lock_held(thread_group: ThreadGroup) -> None:
    counters = PurgatoryCounters()
    for _ in range(1_000):
        counters.count_ended(states.EXPIRED, 1_000)  # No small number, which Python keeps.
    failed = 0
    for number in range(MOST):
        _testcapi.set_nomemory(number, number + 1)
        try:
            counters.snapshot(0)
        except MemoryError:
            failed += 1
        finally:
            _testcapi.remove_mem_hooks()
        thread_group.start(counters.count_entered)
        thread_group.join()
    assert failed >= 5


@with_whole_lists
@compiled_only
def test_shutdown_that_finds_no_memory_can_be_repeated(thread_group: ThreadGroup) -> None:
    failed = 0
    for number in range(MOST):
        timer = SystemTimer("test")
        for delay_ms in range(1, 101):
            timer.call_later_ms(delay_ms, fail)
        drained: list[object] = []
        _testcapi.set_nomemory(number, number + 1)
        try:
            drained = timer.shutdown()
        except MemoryError:
            failed += 1
        finally:
            _testcapi.remove_mem_hooks()
        thread_group.start(lambda timer=timer, drained=drained: drained.extend(timer.shutdown()))
        thread_group.join()
        assert (len(drained), timer.size) == (100, 0)
        check_invariants(timer)
    assert failed >= 5


@pytest.mark.parametrize(
    ("tick_ms", "wheel_size"), [(1, 2), (1, 20), (7, 3), (1, 100_000), (250, 20)]
)
def test_delay_queue_has_room_for_every_bucket(tick_ms: int, wheel_size: int) -> None:
    timer = SystemTimer("test", tick_ms=tick_ms, wheel_size=wheel_size)
    timer.call_later_ms(primitives.MAX_DELAY_MS, fail)
    assert sum(len(wheel.buckets) for wheel in timer._wheel) <= max_buckets(tick_ms, wheel_size)
    timer.shutdown()


class Counted(DelayedOperation):
    """Counts its ends; small numbers need no memory."""

    def __init__(self) -> None:
        super().__init__(10)
        self.ready = False
        self.ended = 0

    def try_complete(self) -> bool:
        return self.ready and self.force_complete()

    def on_complete(self) -> None:
        self.ended += 1

    def on_cancellation(self) -> None:
        self.ended += 1


class Subclass(DelayedOperationPurgatory):
    """A class of Python, where every look for an override of a method makes an object."""


ENDS: dict[str, Callable[[DelayedOperationPurgatory, list[Counted]], object]] = {
    "complete": lambda purgatory, requests: requests[0].force_complete(),
    "cancel": lambda purgatory, requests: requests[0].cancel(),
    "discard": lambda purgatory, requests: purgatory._discard(requests[0]),
    "check": lambda purgatory, requests: purgatory.check_and_complete("a"),
    "expire": lambda purgatory, requests: purgatory.advance_clock(0),
    "cancel_for_key": lambda purgatory, requests: purgatory.cancel_for_key("a"),
    "close": lambda purgatory, requests: purgatory.close(),
}


@with_whole_lists
@compiled_only
@pytest.mark.parametrize("further", [1, 10**6], ids=["one", "all_further"])
@pytest.mark.parametrize("kind", [DelayedOperationPurgatory, Subclass])
@pytest.mark.parametrize("end", ENDS)
def test_end_that_finds_no_memory_is_counted_and_told(
    end: str, kind: type[DelayedOperationPurgatory], further: int
) -> None:
    # Once a tool has used `sys.monitoring`, as Hypothesis does, CPython 3.12 and later need memory
    # for the first call of a function.
    Counted().force_complete()
    Counted().cancel()
    for number in range(MOST):
        clock = ManualClock()
        purgatory = kind("test", timer=SystemTimer("test", clock=clock), reaper=False)
        requests = [Counted() for _ in range(40)]
        for request in requests:
            purgatory.try_complete_else_watch(request, ["a", "b"])
        requests[0].ready = requests[7].ready = True
        if end == "expire":
            clock.advance(10)
        call = ENDS[end]
        _testcapi.set_nomemory(number, number + further)
        try:
            call(purgatory, requests)
        except MemoryError:
            pass
        finally:
            _testcapi.remove_mem_hooks()
        ended = [request for request in requests if request.is_completed]
        assert sum(request.ended for request in requests) == len(ended)
        assert purgatory.num_delayed == len(requests) - len(ended)
        if not purgatory.is_closed:
            check_invariants(purgatory)
        clock.advance(10)
        if end != "close":
            purgatory.advance_clock(0)
        purgatory.close()
        assert [request.ended for request in requests] == [1] * len(requests)
        assert (purgatory.num_delayed, purgatory.watched, purgatory.timer.size) == (0, 0, 0)


@with_whole_lists
@compiled_only
@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ("expire", (TimeoutError, MemoryError)),
        ("close", (PurgatoryClosedError, MemoryError)),
    ],
)
def test_hold_whose_end_finds_no_memory_has_an_answer(
    end: str, expected: tuple[type[BaseException], ...]
) -> None:
    for number in range(MOST):
        clock = ManualClock()
        purgatory = DelayedOperationPurgatory(
            "test", timer=SystemTimer("test", clock=clock), reaper=False
        )
        held = purgatory.hold(["a", "b"], until=bool, timeout=0.01)
        called = [0]

        def note(_: object, called: list[int] = called) -> None:
            called[0] += 1

        held.add_done_callback(note)
        clock.advance(10)
        call = ENDS[end]
        _testcapi.set_nomemory(number, number + 1)
        try:
            call(purgatory, [])
        except MemoryError:
            pass
        finally:
            _testcapi.remove_mem_hooks()
        purgatory.close()
        assert isinstance(held.exception(timeout=0), expected)
        assert called == [1]


def test_end_whose_clock_raises_is_counted_where_nothing_can_be_logged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of an event loop the clock is its `time`, which may find no memory."""

    class FailingClock(ManualClock):
        def read_ns(self) -> int:
            if failing:
                raise MemoryError
            return super().read_ns()

    def log(log: ErrorLog, error: BaseException, message: str, *args: object) -> None:
        raise MemoryError

    failing = False
    timer = SystemTimer("test", clock=FailingClock())
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    request = Request(10)
    purgatory.try_complete_else_watch(request, ["a"])
    monkeypatch.setattr(ErrorLog, "log", log)
    failing = True
    assert request.force_complete()
    failing = False
    assert purgatory.num_delayed == 0
    check_invariants(purgatory)
    purgatory.close()


FIRST_CALLBACK = """
import _testcapi, os
from request_purgatory import DelayedOperation

class Counted(DelayedOperation):
    ended = 0

    def on_complete(self):
        Counted.ended = 1

for number in range(20):
    child = os.fork()
    if child == 0:
        request = Counted(10)
        end = request.force_complete
        _testcapi.set_nomemory(number, number + 1)
        try:
            end()
        except MemoryError:
            pass
        _testcapi.remove_mem_hooks()
        os._exit(request.is_completed and not request.ended)
    assert os.waitpid(child, 0)[1] == 0, f"allocation {number}"
"""


@with_whole_lists
@compiled_only
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_first_callback_of_a_process_needs_no_memory() -> None:
    subprocess.run([sys.executable, "-c", FIRST_CALLBACK], check=True)
