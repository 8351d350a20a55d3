"""Cancel all pending timers, in random order.

`count` timers with delays of 30 to 90 s (uniform, seeded) are added, the list of their handles is
shuffled (seeded), and then every one is cancelled. What cancelling leaves to be done later is timed
with it: one iteration of an event loop, in which asyncio drops the cancelled timers and uvloop
frees them; a checkpoint of trio. Small counts are repeated in the process, each time with a new
timer, and the median taken. trio's scopes end in the reverse order of their opening only, so the
deadline of each is taken back instead (`scope.deadline = inf`).
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
from benchmarks.delays import pending_ms, seconds
from benchmarks.peers import nothing
from benchmarks.question import Case
from benchmarks.stopwatch import per_operation, repeats, settled_ns
from request_purgatory import SystemTimer

QUESTION = "timer_cancel_random"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
# Cancelling reads no clock, so there is no side with another one.
SIDES = tuple(side for side in peers.TIMERS if side != peers.OURS_MANUAL)

_Handle = TypeVar("_Handle")


def cases(quick: bool) -> list[Case]:
    """`count` by powers of ten; 1,000 is what one thread per timer survives."""
    return [
        Case({"count": count}, count)
        for count in ((1_000, 10_000) if quick else (1_000, 100_000, 1_000_000))
    ]


def left_out(side: str, case: Case) -> str | None:
    """The sides that do not survive as many, or not in a lifetime."""
    if side == peers.THREADING and case.size > peers.MOST_THREADS:
        return peers.TOO_MANY_THREADS
    if side == peers.SCHED and case.size > peers.MOST_SCHED:
        return peers.SCHED_IS_LINEAR
    return None


def measure(side: str, count: int) -> dict[str, float]:
    """ns_per_operation."""
    delays = pending_ms(count)
    cancel = _BY_SIDE[side]
    return per_operation([cancel(delays) for _ in range(repeats(count))], count)


def _shuffled(handles: list[_Handle]) -> list[_Handle]:
    random.Random(2).shuffle(handles)
    return handles


def _nothing_left(pending: int) -> None:
    if pending:
        raise RuntimeError(f"{pending} timers are pending after all were cancelled")


def _system_timer(delays: list[int]) -> int:
    timer = SystemTimer("benchmark")
    handles = _shuffled([timer.call_later(delay, nothing) for delay in delays])
    start_ns = settled_ns()
    for handle in handles:
        handle.cancel()
    timer.advance_clock(0)
    elapsed_ns = perf_counter_ns() - start_ns
    _nothing_left(timer.size)
    return elapsed_ns


def _event_loop(side: str) -> Callable[[list[int]], int]:
    def measured(delays: list[int]) -> int:
        async def cancel() -> int:
            handles = _shuffled([loop.call_later(delay, nothing) for delay in seconds(delays)])
            start_ns = settled_ns()
            for handle in handles:
                handle.cancel()
            await peers.let_loop_run()
            return perf_counter_ns() - start_ns

        with closing(peers.open_loop(side)) as loop:
            return loop.run_until_complete(cancel())

    return measured


def _heapq(delays: list[int]) -> int:
    timer = peers.HeapTimer()
    cancel = timer.cancel
    handles = _shuffled([timer.call_later(delay, nothing) for delay in seconds(delays)])
    start_ns = settled_ns()
    for handle in handles:
        cancel(handle)
    elapsed_ns = perf_counter_ns() - start_ns
    _nothing_left(timer.size)
    return elapsed_ns


def _trio(delays: list[int]) -> int:
    import trio  # Not everywhere to be had.

    async def cancel() -> int:
        opened = [trio.move_on_after(delay) for delay in seconds(delays)]
        for scope in opened:
            scope.__enter__()
        handles = _shuffled(opened[:])
        never = math.inf
        start_ns = settled_ns()
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
    handles = _shuffled([scheduler.enter(delay, 0, nothing) for delay in seconds(delays)])
    start_ns = settled_ns()
    for event in handles:
        cancel(event)
    elapsed_ns = perf_counter_ns() - start_ns
    _nothing_left(len(scheduler.queue))
    return elapsed_ns


def _threading(delays: list[int]) -> int:
    handles = _shuffled([threading.Timer(delay, nothing) for delay in seconds(delays)])
    for timer in handles:
        timer.start()
    start_ns = settled_ns()
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
