"""Bytes per pending timer, and per pending operation of a purgatory.

The metric is the growth of the process's resident memory while `count` are added, over the count.
The list of the handles is allocated and written to beforehand; the callback, its arguments, the
watch keys and the delay (one int object) are shared. Each Python side first adds and removes a few,
so that memory that it allocates once is not counted. `kind=operation` uses `keys` watch keys in
turn. trio opens each scope inside the previous one.

Resident memory is read from /proc/self/statm after a garbage collection. On other systems it is the
growth of the peak (`ru_maxrss`), which is the same unless something large was freed before. On the
JVM it is the growth of the reachable heap, and only the timer refers to the tasks. Resident memory
is counted in pages, so a thousand are enough to measure threads only.
"""

from __future__ import annotations

import gc
import os
import resource
import sched
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from benchmarks import peers
from benchmarks.peers import no_op
from benchmarks.question import Case
from benchmarks.request import TIMEOUT_MS, Request, open_purgatory, watch_keys
from request_purgatory import SystemTimer

QUESTION = "memory"
METRICS = {"bytes_per_pending": "bytes"}
SIDES = (
    peers.OURS,
    peers.LEGACY,
    peers.ASYNCIO,
    peers.UVLOOP,
    peers.HEAPQ,
    peers.TRIO,
    peers.SCHED,
    peers.THREADING,
    peers.KAFKA,
    peers.NETTY,
)

_PURGATORIES = (peers.OURS, peers.LEGACY, peers.KAFKA)
_STATM = Path("/proc/self/statm")
_DELAY_MS = 60_000
_DELAY_S = 60.0

#: Adds a timer for each place in the list of handles.
_Add = Callable[[list[object]], None]


def cases(quick: bool) -> list[Case]:
    """Return cases with handles, and with operations that share keys or have a key each.

    One case has as many handles as a process can have threads.
    """
    count = 100_000 if quick else 1_000_000
    return [
        Case({"kind": "handle", "count": count}, count),
        Case({"kind": "handle", "count": peers.MAX_THREADS}, peers.MAX_THREADS),
        Case({"kind": "operation", "count": count, "keys": 65_536}, 65_536),
        Case({"kind": "operation", "count": count, "keys": count}, count),
    ]


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for sides without the structure, too many threads, or too few handles."""
    if case.params["kind"] == "operation":
        return None if side in _PURGATORIES else "has timers but no purgatory"
    if side == peers.LEGACY:
        return "has no handles of its own, only operations"
    if side == peers.THREADING:
        return peers.TOO_MANY_THREADS if case.size > peers.MAX_THREADS else None
    return "too few to measure by pages of memory" if case.size <= peers.MAX_THREADS else None


def measure(side: str, kind: str, count: int, keys: int = 1) -> dict[str, float]:
    """Measure bytes_per_pending."""
    if kind == "operation":
        return {"bytes_per_pending": _operations(side, count, keys) / count}
    kept: list[object] = [None] * count
    return {"bytes_per_pending": _BY_SIDE[side](kept) / count}


def resident_bytes() -> int:
    """Return the resident memory of this process after a garbage collection."""
    gc.collect()
    if _STATM.exists():
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _growth(kept: list[object], add: _Add) -> int:
    before = resident_bytes()
    add(kept)
    return resident_bytes() - before


def _operations(side: str, count: int, keys: int) -> int:
    purgatory = open_purgatory(side)
    watch = purgatory.try_complete_else_watch
    names = watch_keys(keys)
    warm_up = Request(TIMEOUT_MS)
    warm_up.ready = False
    watch(warm_up, [""])
    warm_up.force_complete()
    kept: list[object] = [None] * count

    def add(kept: list[object]) -> None:
        for index in range(count):
            kept[index] = request = Request(TIMEOUT_MS)
            request.ready = False
            watch(request, [names[index % keys]])

    grown = _growth(kept, add)
    if purgatory.num_delayed != count:
        raise RuntimeError(f"{purgatory.num_delayed} of {count} operations are pending")
    return grown


def _system_timer(kept: list[object]) -> int:
    timer = SystemTimer("benchmark")
    timer.call_later_ms(_DELAY_MS, no_op).cancel()

    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = timer.call_later_ms(_DELAY_MS, no_op)

    grown = _growth(kept, add)
    if timer.size != len(kept):
        raise RuntimeError(f"{timer.size} of {len(kept)} timers are pending")
    return grown


def _event_loop(side: str) -> Callable[[list[object]], int]:
    def measured(kept: list[object]) -> int:
        def add(kept: list[object]) -> None:
            for index in range(len(kept)):
                kept[index] = loop.call_later(_DELAY_S, no_op)

        with closing(peers.open_loop(side)) as loop:
            loop.call_later(_DELAY_S, no_op).cancel()
            loop.run_until_complete(peers.run_loop_once())
            return _growth(kept, add)

    return measured


def _heapq(kept: list[object]) -> int:
    timer = peers.HeapTimer()

    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = timer.call_later(_DELAY_S, no_op)

    return _growth(kept, add)


def _trio(kept: list[object]) -> int:
    import trio  # Optional.

    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = scope = trio.move_on_after(_DELAY_S)
            scope.__enter__()

    async def open_all() -> int:
        with trio.move_on_after(_DELAY_S):
            grown = _growth(kept, add)
            for scope in reversed(kept):
                assert isinstance(scope, trio.CancelScope)
                scope.__exit__(None, None, None)
        return grown

    return trio.run(open_all)


def _sched(kept: list[object]) -> int:
    scheduler = sched.scheduler()

    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = scheduler.enter(_DELAY_S, 0, no_op)

    return _growth(kept, add)


def _threading(kept: list[object]) -> int:
    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = timer = threading.Timer(_DELAY_S, no_op)
            timer.daemon = True
            timer.start()

    with peers.cancel_started_timers():
        return _growth(kept, add)


_BY_SIDE: dict[str, Callable[[list[object]], int]] = {
    peers.OURS: _system_timer,
    peers.ASYNCIO: _event_loop(peers.ASYNCIO),
    peers.UVLOOP: _event_loop(peers.UVLOOP),
    peers.HEAPQ: _heapq,
    peers.TRIO: _trio,
    peers.SCHED: _sched,
    peers.THREADING: _threading,
}
