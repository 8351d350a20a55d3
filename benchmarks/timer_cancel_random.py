"""Cancel all pending timers, in random order.

`count` timers with delays of 30 to 90 s (uniform, seeded) are added, the list of their handles is
shuffled (seeded), and every one is cancelled. The time includes work that cancelling defers: one
run of an event loop, in which asyncio removes the cancelled timers and uvloop frees them; a
checkpoint of trio. Small counts are repeated in the process, each time with a new timer, and the
median is the result. trio's scopes can only end in the reverse order of their start, so the
deadline of each is removed instead (`scope.deadline = inf`).
"""

from __future__ import annotations

import math
import random
import sched
import threading
from collections.abc import Callable
from contextlib import closing
from time import perf_counter_ns
from typing import TypeVar

from benchmarks import peers
from benchmarks.delays import pending_ms, to_seconds
from benchmarks.peers import no_op
from benchmarks.question import Case
from benchmarks.stopwatch import ns_after_gc, per_operation, repeats
from request_purgatory import SystemTimer

QUESTION = "timer_cancel_random"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
# Cancelling reads no clock, so a side with a ManualClock would not differ.
SIDES = tuple(side for side in peers.TIMERS if side != peers.OURS_MANUAL)

_Handle = TypeVar("_Handle")


def cases(quick: bool) -> list[Case]:
    """Return cases with powers of ten of `count`; 1,000 is possible with one thread per timer."""
    return [
        Case({"count": count}, count)
        for count in ((1_000, 10_000) if quick else (1_000, 100_000, 1_000_000))
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for too many threads and for sides with linear costs."""
    if side == peers.THREADING and case.size > peers.MAX_THREADS:
        return peers.TOO_MANY_THREADS
    if side == peers.SCHED and case.size > peers.MAX_SCHED:
        return peers.SCHED_IS_LINEAR
    return None


def measure(side: str, count: int) -> dict[str, float]:
    """Measure ns_per_operation."""
    delays = pending_ms(count)
    cancel = _BY_SIDE[side]
    return per_operation([cancel(delays) for _ in range(repeats(count))], count)


def _shuffled(handles: list[_Handle]) -> list[_Handle]:
    random.Random(2).shuffle(handles)
    return handles


def _check_none_pending(pending: int) -> None:
    if pending:
        raise RuntimeError(f"{pending} timers are pending after all were cancelled")


def _system_timer(delays: list[int]) -> int:
    timer = SystemTimer("benchmark")
    handles = _shuffled([timer.call_later_ms(delay, no_op) for delay in delays])
    start_ns = ns_after_gc()
    for handle in handles:
        handle.cancel()
    timer.advance_clock(0)
    elapsed_ns = perf_counter_ns() - start_ns
    _check_none_pending(timer.size)
    return elapsed_ns


def _event_loop(side: str) -> Callable[[list[int]], int]:
    def measured(delays: list[int]) -> int:
        async def cancel() -> int:
            handles = _shuffled([loop.call_later(delay, no_op) for delay in to_seconds(delays)])
            start_ns = ns_after_gc()
            for handle in handles:
                handle.cancel()
            await peers.run_loop_once()
            return perf_counter_ns() - start_ns

        with closing(peers.open_loop(side)) as loop:
            return loop.run_until_complete(cancel())

    return measured


def _heapq(delays: list[int]) -> int:
    timer = peers.HeapTimer()
    cancel = timer.cancel
    handles = _shuffled([timer.call_later(delay, no_op) for delay in to_seconds(delays)])
    start_ns = ns_after_gc()
    for handle in handles:
        cancel(handle)
    elapsed_ns = perf_counter_ns() - start_ns
    _check_none_pending(timer.size)
    return elapsed_ns


def _trio(delays: list[int]) -> int:
    import trio  # Optional.

    async def cancel() -> int:
        opened = [trio.move_on_after(delay) for delay in to_seconds(delays)]
        for scope in opened:
            scope.__enter__()
        handles = _shuffled(opened[:])
        never = math.inf
        start_ns = ns_after_gc()
        for scope in handles:
            scope.deadline = never
        await trio.lowlevel.checkpoint()
        elapsed_ns = perf_counter_ns() - start_ns
        for scope in reversed(opened):
            scope.__exit__(None, None, None)
        return elapsed_ns

    return trio.run(cancel)


def _sched(delays: list[int]) -> int:
    scheduler = sched.scheduler()
    cancel = scheduler.cancel
    handles = _shuffled([scheduler.enter(delay, 0, no_op) for delay in to_seconds(delays)])
    start_ns = ns_after_gc()
    for event in handles:
        cancel(event)
    elapsed_ns = perf_counter_ns() - start_ns
    _check_none_pending(len(scheduler.queue))
    return elapsed_ns


def _threading(delays: list[int]) -> int:
    handles = _shuffled([threading.Timer(delay, no_op) for delay in to_seconds(delays)])
    for timer in handles:
        timer.start()
    start_ns = ns_after_gc()
    for timer in handles:
        timer.cancel()
    # The threads still have to wake up and end.
    for timer in handles:
        timer.join()
    return perf_counter_ns() - start_ns


_BY_SIDE: dict[str, Callable[[list[int]], int]] = {
    peers.OURS: _system_timer,
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.HEAPQ: _heapq,
    peers.TRIO: _trio,
    peers.SCHED: _sched,
    peers.THREADING: _threading,
}
