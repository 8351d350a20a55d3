"""Bytes per pending timer, and per pending operation of a purgatory.

The growth of the process's resident memory while `count` are added, over the count. The list that
keeps the handles is made and touched beforehand; the callback, its arguments, the watch keys and
the delay (one int object) are shared. Each Python side first adds and takes back a few, so that
what it sets up once is not counted. Resident memory is read from /proc/self/statm after a garbage
collection; on other systems it is the growth of the peak (`ru_maxrss`), which is the same as long
as nothing large was freed before. On the JVM it is the growth of the reachable heap, and nobody but
the timer holds the tasks. `kind=operation` has `keys` watch keys in turn. trio: a scope opened
inside the last one. Resident memory comes in pages, so a thousand are too few to measure anything
but threads.
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
from benchmarks.peers import nothing
from benchmarks.question import Case
from benchmarks.request import TIMEOUT_MS, Request, keys_of, open_purgatory
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

#: Adds timers until the list of handles is full.
_Add = Callable[[list[object]], None]


def cases(quick: bool) -> list[Case]:
    """Handles, and operations with shared keys and with a key each.

    And as many handles as threads survive.
    """
    count = 100_000 if quick else 1_000_000
    return [
        Case({"kind": "handle", "count": count}, count),
        Case({"kind": "handle", "count": peers.MOST_THREADS}, peers.MOST_THREADS),
        Case({"kind": "operation", "count": count, "keys": 65_536}, 65_536),
        Case({"kind": "operation", "count": count, "keys": count}, count),
    ]


def left_out(side: str, case: Case) -> str | None:
    """Sides without a purgatory, the 0.8 design's handles, threads by the million and others by the thousand."""
    if case.params["kind"] == "operation":
        return None if side in _PURGATORIES else "has timers but no purgatory"
    if side == peers.LEGACY:
        return "has no handles of its own, only operations"
    if side == peers.THREADING:
        return peers.TOO_MANY_THREADS if case.size > peers.MOST_THREADS else None
    return "too few to measure by pages of memory" if case.size <= peers.MOST_THREADS else None


def measure(side: str, kind: str, count: int, keys: int = 1) -> dict[str, float]:
    """bytes_per_pending."""
    if kind == "operation":
        return {"bytes_per_pending": _operations(side, count, keys) / count}
    kept: list[object] = [None] * count
    return {"bytes_per_pending": _BY_SIDE[side](kept) / count}


def resident_bytes() -> int:
    """Of this process, after a garbage collection."""
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
    names = keys_of(keys)
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
    timer.call_later(_DELAY_MS, nothing).cancel()

    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = timer.call_later(_DELAY_MS, nothing)

    grown = _growth(kept, add)
    if timer.size != len(kept):
        raise RuntimeError(f"{timer.size} of {len(kept)} timers are pending")
    return grown


def _event_loop(side: str) -> Callable[[list[object]], int]:
    def measured(kept: list[object]) -> int:
        def add(kept: list[object]) -> None:
            for index in range(len(kept)):
                kept[index] = loop.call_later(_DELAY_S, nothing)

        with closing(peers.open_loop(side)) as loop:
            loop.call_later(_DELAY_S, nothing).cancel()
            loop.run_until_complete(peers.let_loop_run())
            return _growth(kept, add)

    return measured


def _heapq(kept: list[object]) -> int:
    timer = peers.HeapTimer()

    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = timer.call_later(_DELAY_S, nothing)

    return _growth(kept, add)


def _trio(kept: list[object]) -> int:
    import trio  # Not everywhere to be had.

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
            kept[index] = scheduler.enter(_DELAY_S, 0, nothing)

    return _growth(kept, add)


def _threading(kept: list[object]) -> int:
    def add(kept: list[object]) -> None:
        for index in range(len(kept)):
            kept[index] = timer = threading.Timer(_DELAY_S, nothing)
            timer.daemon = True
            timer.start()

    with peers.ended_timers():
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
