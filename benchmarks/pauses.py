"""How long the core keeps other threads from running, with many requests pending.

`pending` requests wait, each under a key of its own, with timeouts of a second that lie within 100
ms. A second thread wakes every half millisecond: `longest_ms` is its longest pause. The case
`metrics` reads the metrics a hundred times, `expire` lets all requests expire in one advance of a
manual clock, and `purge` removes them from the watch table after that. `holds` is `expire` with
requests that `hold` makes, whose end calls no code in Python, and `close` closes the purgatory with
these pending. In the case `collection` the purgatory has its reaper, and `longest_ms` is by how
much a full collection takes longer with the requests than without: the median of five.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from statistics import median
from time import perf_counter, sleep

from benchmarks import peers
from benchmarks.question import Case
from benchmarks.request import Request
from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer

QUESTION = "pauses"
METRICS = {"longest_ms": "ms"}
SIDES = (peers.OURS,)

_TIMEOUT_MS = 1_000
_SPREAD_MS = 100
_LOOK_S = 0.0005


def cases(quick: bool) -> list[Case]:
    """Return a case for each kind of work, with the largest number of requests."""
    pending = 20_000 if quick else 1_000_000
    return [
        Case({"what": what, "pending": pending}, pending)
        for what in ("collection", "metrics", "expire", "purge", "holds", "close")
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: the one side runs every case."""
    return None


def measure(side: str, what: str, pending: int) -> dict[str, float]:  # noqa: ARG001 - one side
    """Measure the longest pause."""
    if what == "collection":
        return {"longest_ms": _collection_ms(pending)}
    clock = ManualClock()
    timer = SystemTimer("benchmark", clock=clock)
    purgatory = DelayedOperationPurgatory(
        "benchmark", timer=timer, reaper=False, purge_interval=2 * pending
    )
    if what in ("holds", "close"):
        futures = [
            purgatory.hold([number], until=bool, timeout=(_TIMEOUT_MS + number % _SPREAD_MS) / 1e3)
            for number in range(pending)
        ]
    else:
        futures = []
        _fill(purgatory, pending)
    clock.advance(2 * _TIMEOUT_MS)
    gc.disable()  # Its own pauses are the other case.
    try:
        if what == "metrics":
            longest_ms = _longest_pause_ms(lambda: [purgatory.metrics() for _ in range(100)])
        elif what in ("expire", "holds"):
            longest_ms = _longest_pause_ms(lambda: purgatory.advance_clock(0))
        elif what == "close":
            longest_ms = _longest_pause_ms(purgatory.close)
        else:
            purgatory.advance_clock(0)
            longest_ms = _longest_pause_ms(purgatory.purge)
    finally:
        gc.enable()
    purgatory.close()
    del futures  # Until here, so that the work frees none of them.
    return {"longest_ms": longest_ms}


def _fill(purgatory: DelayedOperationPurgatory, pending: int) -> None:
    for number in range(pending):
        request = Request(_TIMEOUT_MS + number % _SPREAD_MS)
        request.ready = False
        purgatory.try_complete_else_watch(request, [number])


def _collection_ms(pending: int) -> float:
    without_ms = _collect_ms()
    with DelayedOperationPurgatory("benchmark") as purgatory:
        for number in range(pending):
            request = Request(600_000)
            request.ready = False
            purgatory.try_complete_else_watch(request, [number])
        return max(_collect_ms() - without_ms, 0.0)


def _collect_ms() -> float:
    gc.collect()
    taken = []
    for _ in range(5):
        began = perf_counter()
        gc.collect()
        taken.append(perf_counter() - began)
    return median(taken) * 1e3


def _longest_pause_ms(work: Callable[[], object]) -> float:
    longest = 0.0
    stopped = False

    def look() -> None:
        nonlocal longest
        last = perf_counter()
        while not stopped:
            sleep(_LOOK_S)
            now = perf_counter()
            longest = max(longest, now - last)
            last = now

    thread = threading.Thread(target=look, name="looking", daemon=True)
    thread.start()
    work()
    stopped = True
    thread.join(60)
    return longest * 1e3
