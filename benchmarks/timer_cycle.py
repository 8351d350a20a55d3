"""Schedule a timer and cancel it, while others are pending.

This is the timer's cost of a request that is answered in time. `pending` timers of 30 to 90 s
(uniform, seeded) are pending. Measured is `handle = call_later(delay, callback); handle.cancel()`
with 1,024 other delays of the same kind, repeatedly. After every 1,024 cycles each side may do its
housekeeping, which is included in the time. An event loop runs once, in which asyncio removes
cancelled timers and uvloop frees its own; trio runs a checkpoint; our timer and the heap check
their clock. Sides that keep cancelled timers and remove all of them at once are measured over at
least as many cycles as there are pending timers, so that every batch includes a removal. The result
is the median batch of a process. Each side reads its own real clock, except our side with a
ManualClock. trio opens and closes `move_on_after`.
"""

from __future__ import annotations

import sched
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from time import monotonic, perf_counter_ns

from benchmarks import peers
from benchmarks.delays import SHORTEST_PENDING_MS, pending_ms, to_seconds
from benchmarks.peers import no_op
from benchmarks.question import Case, JvmCall
from benchmarks.stopwatch import ns_after_gc, per_operation
from request_purgatory import ManualClock, SystemTimer
from request_purgatory.clock import Clock

QUESTION = "timer_cycle"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
SIDES = peers.TIMERS

_CYCLED = 1024
#: Cycles in a batch.
OPERATIONS = 32 * _CYCLED
_JVM_OPERATIONS = 1_000_000
#: Sides that remove cancelled timers at once when they are more than half of all timers.
_REMOVE_LATER = (peers.ASYNCIO, peers.HEAPQ, peers.TRIO)
#: Sides whose cycle takes microseconds or more, so that fewer cycles are enough.
_SLOW = (peers.SCHED, peers.THREADING)
_MAX_TRIO = 100_000


@dataclass(frozen=True)
class _Work:
    pending: list[int]
    cycled: list[int]
    batches: int
    repeats: int


def cases(quick: bool) -> list[Case]:
    """Return cases with powers of ten of `pending`."""
    return [
        case(pending)
        for pending in ((1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000))
    ]


def case(pending: int) -> Case:
    """Return the case of that many pending timers."""
    return Case(
        {"pending": pending},
        pending,
        JvmCall(QUESTION, {"pending": pending, "operations": _JVM_OPERATIONS}),
    )


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for too many threads and for sides with linear costs."""
    if side == peers.THREADING and case.size > peers.MAX_THREADS:
        return peers.TOO_MANY_THREADS
    if side == peers.SCHED and case.size > peers.MAX_SCHED:
        return peers.SCHED_IS_LINEAR
    if side == peers.TRIO and case.size > _MAX_TRIO:
        return (
            "takes about as long as until the first pending deadline: "
            f"not run above {_MAX_TRIO:,} (see growth)"
        )
    return None


def measure(
    side: str, pending: int, operations: int = OPERATIONS, shortest_ms: int = SHORTEST_PENDING_MS
) -> dict[str, float]:
    """Measure ns_per_operation.

    Args:
        side: One of `SIDES`.
        pending: The number of other timers that are pending.
        operations: Cycles in a batch, except for sides that need more cycles or are too slow.
        shortest_ms: The shortest delay; the longest is three times as long.

    Raises:
        RuntimeError: The measurement took so long that pending timers were due.
    """
    if side in _SLOW:
        operations = _CYCLED
    elif side in _REMOVE_LATER:
        operations = max(operations, pending + _CYCLED)
    work = _Work(
        pending=pending_ms(pending, shortest_ms=shortest_ms),
        cycled=pending_ms(_CYCLED, shortest_ms=shortest_ms, seed=2),
        # A batch this large takes seconds, and the measurement must end before the first pending
        # timer is due.
        batches=5 if operations < 500_000 else 1,
        repeats=-(-operations // _CYCLED),
    )
    started = monotonic()
    try:
        elapsed_ns = _BY_SIDE[side](work)
    finally:
        # Also raised if the side has failed for this reason, as trio does: it explains the failure.
        took = monotonic() - started
        if took * 1000 > shortest_ms:
            raise RuntimeError(
                f"took {took:.0f} s, longer than the pending timers' {shortest_ms / 1000:.0f} s"
            )
    return per_operation(elapsed_ns, work.repeats * _CYCLED)


def _system_timer(work: _Work, clock: Clock | None = None) -> list[int]:
    timer = SystemTimer("benchmark", clock=clock)
    call_later_ms = timer.call_later_ms
    for delay in work.pending:
        call_later_ms(delay, no_op)
    cycled = work.cycled
    elapsed_ns = []
    ns_after_gc()
    for _ in range(work.batches):
        start_ns = perf_counter_ns()
        for _ in range(work.repeats):
            for delay in cycled:
                handle = call_later_ms(delay, no_op)
                handle.cancel()
            timer.advance_clock(0)
        elapsed_ns.append(perf_counter_ns() - start_ns)
    if timer.size != len(work.pending):
        raise RuntimeError(f"expected {len(work.pending)} pending timers, got {timer.size}")
    return elapsed_ns


def _event_loop(side: str) -> Callable[[_Work], list[int]]:
    def measured(work: _Work) -> list[int]:
        async def cycle() -> list[int]:
            call_later = loop.call_later
            for delay in to_seconds(work.pending):
                call_later(delay, no_op)
            cycled = to_seconds(work.cycled)
            elapsed_ns = []
            ns_after_gc()
            for _ in range(work.batches):
                start_ns = perf_counter_ns()
                for _ in range(work.repeats):
                    for delay in cycled:
                        handle = call_later(delay, no_op)
                        handle.cancel()
                    await peers.run_loop_once()
                elapsed_ns.append(perf_counter_ns() - start_ns)
            return elapsed_ns

        with closing(peers.open_loop(side)) as loop:
            return loop.run_until_complete(cycle())

    return measured


def _heapq(work: _Work) -> list[int]:
    timer = peers.HeapTimer()
    call_later = timer.call_later
    cancel = timer.cancel
    for delay in to_seconds(work.pending):
        call_later(delay, no_op)
    cycled = to_seconds(work.cycled)
    elapsed_ns = []
    ns_after_gc()
    for _ in range(work.batches):
        start_ns = perf_counter_ns()
        for _ in range(work.repeats):
            for delay in cycled:
                entry = call_later(delay, no_op)
                cancel(entry)
            timer.run_due()
        elapsed_ns.append(perf_counter_ns() - start_ns)
    return elapsed_ns


def _trio(work: _Work) -> list[int]:
    import trio  # Optional.

    async def cycle() -> list[int]:
        move_on_after = trio.move_on_after
        opened = [move_on_after(delay) for delay in to_seconds(work.pending)]
        for scope in opened:
            scope.__enter__()
        cycled = to_seconds(work.cycled)
        elapsed_ns = []
        ns_after_gc()
        for _ in range(work.batches):
            start_ns = perf_counter_ns()
            for _ in range(work.repeats):
                for delay in cycled:
                    with move_on_after(delay):
                        pass
                await trio.lowlevel.checkpoint()
            elapsed_ns.append(perf_counter_ns() - start_ns)
        for scope in reversed(opened):
            scope.__exit__(None, None, None)
        return elapsed_ns

    return trio.run(cycle)


def _sched(work: _Work) -> list[int]:
    scheduler = sched.scheduler()
    enter = scheduler.enter
    cancel = scheduler.cancel
    for delay in to_seconds(work.pending):
        enter(delay, 0, no_op)
    cycled = to_seconds(work.cycled)
    elapsed_ns = []
    ns_after_gc()
    for _ in range(work.batches):
        start_ns = perf_counter_ns()
        for _ in range(work.repeats):
            for delay in cycled:
                event = enter(delay, 0, no_op)
                cancel(event)
            scheduler.run(blocking=False)
        elapsed_ns.append(perf_counter_ns() - start_ns)
    return elapsed_ns


def _threading(work: _Work) -> list[int]:
    elapsed_ns = []
    with peers.cancel_started_timers():
        for delay in to_seconds(work.pending):
            pending = threading.Timer(delay, no_op)
            pending.daemon = True
            pending.start()
        cycled = to_seconds(work.cycled)
        ns_after_gc()
        for _ in range(work.batches):
            start_ns = perf_counter_ns()
            for _ in range(work.repeats):
                for delay in cycled:
                    timer = threading.Timer(delay, no_op)
                    timer.start()
                    timer.cancel()
            elapsed_ns.append(perf_counter_ns() - start_ns)
    return elapsed_ns


_BY_SIDE: dict[str, Callable[[_Work], list[int]]] = {
    peers.OURS: _system_timer,
    peers.OURS_MANUAL: lambda work: _system_timer(work, ManualClock()),
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.HEAPQ: _heapq,
    peers.TRIO: _trio,
    peers.SCHED: _sched,
    peers.THREADING: _threading,
}
