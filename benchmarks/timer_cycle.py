"""Schedule a timer and cancel it, while others are pending.

What a request that is answered in time costs the timer. `pending` timers of 30 to 90 s (uniform,
seeded) are in it; measured is `handle = call_later(delay, callback); handle.cancel()` with 1,024
further delays of the same kind, over and over. After every 1,024 cycles each side may do its
housekeeping, and that is timed with the rest: an event loop runs once, in which asyncio drops
cancelled timers and uvloop frees theirs; trio passes a checkpoint; ours and the heap look at their
clock. Sides that leave cancelled timers behind and drop them all at once are measured over at least
as many cycles as are pending, so that every batch pays for it. The result is the median batch of a
process. Each side reads its own real clock, but for the one of ours with a ManualClock. trio opens
and closes `move_on_after`.
"""

from __future__ import annotations

import sched
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from time import monotonic, perf_counter_ns

from benchmarks import peers
from benchmarks.delays import SHORTEST_PENDING_MS, pending_ms, seconds
from benchmarks.peers import nothing
from benchmarks.question import Case, JvmCall
from benchmarks.stopwatch import per_operation, settled_ns
from request_purgatory import ManualClock, SystemTimer
from request_purgatory.clock import Clock

QUESTION = "timer_cycle"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
SIDES = peers.TIMERS

_CYCLED = 1024
#: Cycles in a batch.
OPERATIONS = 32 * _CYCLED
_JVM_OPERATIONS = 1_000_000
#: They drop cancelled timers in one go once those are more than half of all.
_DROP_LATER = (peers.ASYNCIO, peers.HEAPQ, peers.TRIO)
#: Microseconds a cycle and more: fewer of them are enough.
_SLOW = (peers.SCHED, peers.THREADING)
_MOST_TRIO = 100_000


@dataclass(frozen=True)
class _Work:
    pending: list[int]
    cycled: list[int]
    batches: int
    repeats: int


def cases(quick: bool) -> list[Case]:
    """`pending` by powers of ten."""
    return [
        case(pending)
        for pending in ((1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000))
    ]


def case(pending: int) -> Case:
    """The case of so many pending timers."""
    return Case(
        {"pending": pending},
        pending,
        JvmCall(QUESTION, {"pending": pending, "operations": _JVM_OPERATIONS}),
    )


def left_out(side: str, case: Case) -> str | None:
    """The sides that do not survive as many, or not in a lifetime."""
    if side == peers.THREADING and case.size > peers.MOST_THREADS:
        return peers.TOO_MANY_THREADS
    if side == peers.SCHED and case.size > peers.MOST_SCHED:
        return peers.SCHED_IS_LINEAR
    if side == peers.TRIO and case.size > _MOST_TRIO:
        return f"takes about as long as until the first pending deadline: not run above {_MOST_TRIO:,} (see growth)"
    return None


def measure(
    side: str, pending: int, operations: int = OPERATIONS, shortest_ms: int = SHORTEST_PENDING_MS
) -> dict[str, float]:
    """ns_per_operation; RuntimeError if it took so long that pending timers came due.

    Args:
        operations: cycles in a batch, but for sides that need more of them or are too slow for so
            many.
        shortest_ms: the shortest delay; the longest is three times as long.
    """
    if side in _SLOW:
        operations = _CYCLED
    elif side in _DROP_LATER:
        operations = max(operations, pending + _CYCLED)
    work = _Work(
        pending=pending_ms(pending, shortest_ms=shortest_ms),
        cycled=pending_ms(_CYCLED, shortest_ms=shortest_ms, seed=2),
        # A batch of so many takes seconds, and all has to be over before the first pending timer is
        # due.
        batches=5 if operations < 500_000 else 1,
        repeats=-(-operations // _CYCLED),
    )
    started = monotonic()
    try:
        elapsed_ns = _BY_SIDE[side](work)
    finally:
        # Also where the side fails for that reason, as trio does: this one then says more.
        took = monotonic() - started
        if took * 1000 > shortest_ms:
            raise RuntimeError(
                f"took {took:.0f} s, so that timers of {shortest_ms / 1000:.0f} s came due meanwhile"
            )
    return per_operation(elapsed_ns, work.repeats * _CYCLED)


def _system_timer(work: _Work, clock: Clock | None = None) -> list[int]:
    timer = SystemTimer("benchmark", clock=clock)
    call_later = timer.call_later
    for delay in work.pending:
        call_later(delay, nothing)
    cycled = work.cycled
    elapsed_ns = []
    settled_ns()
    for _ in range(work.batches):
        start_ns = perf_counter_ns()
        for _ in range(work.repeats):
            for delay in cycled:
                handle = call_later(delay, nothing)
                handle.cancel()
            timer.advance_clock(0)
        elapsed_ns.append(perf_counter_ns() - start_ns)
    if timer.size != len(work.pending):
        raise RuntimeError(f"{timer.size} timers are pending, not {len(work.pending)}")
    return elapsed_ns


def _event_loop(side: str) -> Callable[[_Work], list[int]]:
    def measured(work: _Work) -> list[int]:
        async def cycle() -> list[int]:
            call_later = loop.call_later
            for delay in seconds(work.pending):
                call_later(delay, nothing)
            cycled = seconds(work.cycled)
            elapsed_ns = []
            settled_ns()
            for _ in range(work.batches):
                start_ns = perf_counter_ns()
                for _ in range(work.repeats):
                    for delay in cycled:
                        handle = call_later(delay, nothing)
                        handle.cancel()
                    await peers.let_loop_run()
                elapsed_ns.append(perf_counter_ns() - start_ns)
            return elapsed_ns

        with closing(peers.open_loop(side)) as loop:
            return loop.run_until_complete(cycle())

    return measured


def _heapq(work: _Work) -> list[int]:
    timer = peers.HeapTimer()
    call_later = timer.call_later
    cancel = timer.cancel
    for delay in seconds(work.pending):
        call_later(delay, nothing)
    cycled = seconds(work.cycled)
    elapsed_ns = []
    settled_ns()
    for _ in range(work.batches):
        start_ns = perf_counter_ns()
        for _ in range(work.repeats):
            for delay in cycled:
                entry = call_later(delay, nothing)
                cancel(entry)
            timer.run_due()
        elapsed_ns.append(perf_counter_ns() - start_ns)
    return elapsed_ns


def _trio(work: _Work) -> list[int]:
    import trio  # Not everywhere to be had.

    async def cycle() -> list[int]:
        move_on_after = trio.move_on_after
        opened = [move_on_after(delay) for delay in seconds(work.pending)]
        for scope in opened:
            scope.__enter__()
        cycled = seconds(work.cycled)
        elapsed_ns = []
        settled_ns()
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
    for delay in seconds(work.pending):
        enter(delay, 0, nothing)
    cycled = seconds(work.cycled)
    elapsed_ns = []
    settled_ns()
    for _ in range(work.batches):
        start_ns = perf_counter_ns()
        for _ in range(work.repeats):
            for delay in cycled:
                event = enter(delay, 0, nothing)
                cancel(event)
            scheduler.run(blocking=False)
        elapsed_ns.append(perf_counter_ns() - start_ns)
    return elapsed_ns


def _threading(work: _Work) -> list[int]:
    elapsed_ns = []
    with peers.ended_timers():
        for delay in seconds(work.pending):
            pending = threading.Timer(delay, nothing)
            pending.daemon = True
            pending.start()
        cycled = seconds(work.cycled)
        settled_ns()
        for _ in range(work.batches):
            start_ns = perf_counter_ns()
            for _ in range(work.repeats):
                for delay in cycled:
                    timer = threading.Timer(delay, nothing)
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
