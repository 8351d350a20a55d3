"""Memory that runs out: a call fails, and the timer goes on."""

from __future__ import annotations

from functools import partial

import pytest

from request_purgatory import DelayedOperationPurgatory, SystemTimer
from request_purgatory._native import primitives
from request_purgatory.timer.wheel import max_buckets
from tests.support.requests import Request, fail
from tests.support.thread_group import ThreadGroup

_testcapi = pytest.importorskip("_testcapi", reason="this Python has no tests of its own")

#: Allocations of a call, each of which fails once.
MOST = 60


@pytest.mark.skipif(
    not primitives.COMPILED, reason="interpreted, each number is an object that needs memory"
)
def test_call_that_finds_no_memory_leaves_no_lock_held(thread_group: ThreadGroup) -> None:
    """Whichever allocation of it fails; others add, cancel and time out afterwards."""
    timer = SystemTimer("test", wheel_size=2)
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    failed = 0
    for number in range(1, MOST):
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
            thread_group.start(timer.check)
            thread_group.join()
    assert failed >= 5
    purgatory._check_invariants()
    assert purgatory.num_delayed == len(purgatory.close())
    timer.shutdown()
    timer.check()


@pytest.mark.skipif(
    not primitives.COMPILED, reason="interpreted, each number is an object that needs memory"
)
def test_shutdown_that_finds_no_memory_can_be_repeated(thread_group: ThreadGroup) -> None:
    failed = 0
    for number in range(1, MOST):
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
        timer.check()
    assert failed >= 5


@pytest.mark.parametrize(
    ("tick_ms", "wheel_size"), [(1, 2), (1, 20), (7, 3), (1, 100_000), (250, 20)]
)
def test_delay_queue_has_room_for_every_bucket(tick_ms: int, wheel_size: int) -> None:
    """Of as many levels as the longest delay needs."""
    timer = SystemTimer("test", tick_ms=tick_ms, wheel_size=wheel_size)
    timer.call_later_ms(primitives.MAX_DELAY_MS, fail)
    assert sum(len(wheel.buckets) for wheel in timer._wheel) <= max_buckets(tick_ms, wheel_size)
    timer.shutdown()
