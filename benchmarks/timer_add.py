"""Add timers and keep them all.

`count` timers with delays of 1 to 60,000 ms (uniform, seeded, drawn beforehand) are added to an
empty timer, and their handles are put into a list that was allocated beforehand. No event loop runs
and no clock advances, so nothing expires. The time per timer includes the garbage collections that
the kept objects cause. Small counts are repeated in the process, each time with a new timer, and
the median is the result. trio opens each scope inside the previous one; threading.Timer starts a
thread for each timer.
"""

from __future__ import annotations

import sched
import threading
from collections.abc import Callable
from contextlib import closing
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.delays import to_seconds, uniform_ms
from benchmarks.peers import no_op
from benchmarks.question import Case
from benchmarks.stopwatch import ns_after_gc, per_operation, repeats
from request_purgatory import ManualClock, SystemTimer
from request_purgatory.clock import Clock

QUESTION = "timer_add"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
SIDES = peers.TIMERS


def cases(quick: bool) -> list[Case]:
    """Return cases with powers of ten of `count`; 1,000 is possible with one thread per timer."""
    return [
        Case({"count": count}, count)
        for count in ((1_000, 10_000) if quick else (1_000, 100_000, 1_000_000))
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for too many threads."""
    return (
        peers.TOO_MANY_THREADS
        if side == peers.THREADING and case.size > peers.MAX_THREADS
        else None
    )


def measure(side: str, count: int) -> dict[str, float]:
    """Measure ns_per_operation."""
    delays = uniform_ms(count, 1, 60_000)
    add = _BY_SIDE[side]
    return per_operation([add(delays, [None] * count) for _ in range(repeats(count))], count)


def _system_timer(delays: list[int], handles: list[object], clock: Clock | None = None) -> int:
    timer = SystemTimer("benchmark", clock=clock)
    call_later_ms = timer.call_later_ms
    start_ns = ns_after_gc()
    for index, delay in enumerate(delays):
        handles[index] = call_later_ms(delay, no_op)
    elapsed_ns = perf_counter_ns() - start_ns
    if timer.size != len(delays):
        raise RuntimeError(f"expected {len(delays)} pending timers, got {timer.size}")
    return elapsed_ns


def _event_loop(side: str) -> Callable[[list[int], list[object]], int]:
    def measured(delays: list[int], handles: list[object]) -> int:
        with closing(peers.open_loop(side)) as loop:
            call_later = loop.call_later
            delays_s = to_seconds(delays)
            start_ns = ns_after_gc()
            for index, delay in enumerate(delays_s):
                handles[index] = call_later(delay, no_op)
            return perf_counter_ns() - start_ns

    return measured


def _heapq(delays: list[int], handles: list[object]) -> int:
    call_later = peers.HeapTimer().call_later
    delays_s = to_seconds(delays)
    start_ns = ns_after_gc()
    for index, delay in enumerate(delays_s):
        handles[index] = call_later(delay, no_op)
    return perf_counter_ns() - start_ns


def _trio(delays: list[int], handles: list[object]) -> int:
    import trio  # Optional.

    async def add() -> int:
        move_on_after = trio.move_on_after
        delays_s = to_seconds(delays)
        start_ns = ns_after_gc()
        for index, delay in enumerate(delays_s):
            handles[index] = scope = move_on_after(delay)
            scope.__enter__()
        elapsed_ns = perf_counter_ns() - start_ns
        for opened in reversed(handles):
            assert isinstance(opened, trio.CancelScope)
            opened.__exit__(None, None, None)
        return elapsed_ns

    return trio.run(add)


def _sched(delays: list[int], handles: list[object]) -> int:
    enter = sched.scheduler().enter
    delays_s = to_seconds(delays)
    start_ns = ns_after_gc()
    for index, delay in enumerate(delays_s):
        handles[index] = enter(delay, 0, no_op)
    return perf_counter_ns() - start_ns


def _threading(delays: list[int], handles: list[object]) -> int:
    # Each delay is a minute longer, so that all threads are alive at the end, when the timers of
    # every other side are pending.
    delays_s = [60 + delay for delay in to_seconds(delays)]
    with peers.cancel_started_timers():
        start_ns = ns_after_gc()
        for index, delay in enumerate(delays_s):
            handles[index] = timer = threading.Timer(delay, no_op)
            timer.start()
        return perf_counter_ns() - start_ns


_BY_SIDE: dict[str, Callable[[list[int], list[object]], int]] = {
    peers.OURS: _system_timer,
    peers.OURS_MANUAL: lambda delays, handles: _system_timer(delays, handles, ManualClock()),
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.HEAPQ: _heapq,
    peers.TRIO: _trio,
    peers.SCHED: _sched,
    peers.THREADING: _threading,
}
