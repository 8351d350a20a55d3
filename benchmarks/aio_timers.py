"""Timers of an event loop while others are pending: `call_later` and `cancel`, through the loop.

`pending` timers of 10 to 30 minutes are pending. Batches of 1,000 timers of 5 to 30 s are set and
cancelled. After each batch the loop runs once, in which the standard loop may remove cancelled
timers from its heap. ns_per_operation is the time of one pair, including the loop's runs.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.delays import to_seconds, uniform_ms
from benchmarks.peers import no_op
from benchmarks.question import Case
from benchmarks.stopwatch import ns_after_gc, per_operation

QUESTION = "aio_timers"
METRICS = {"ns_per_operation": "ns"}
SIDES = (peers.OURS, peers.ASYNCIO, peers.UVLOOP)

_BATCH = 1_000
_REPEATS = 5


def cases(quick: bool) -> list[Case]:
    """Return cases from no pending timers to many."""
    return [
        Case({"pending": pending}, pending)
        for pending in ((0, 1_000) if quick else (0, 1_000, 100_000))
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, pending: int, batches: int = 20) -> dict[str, float]:
    """Measure ns_per_operation."""
    with closing(peers.open_loop(side)) as loop:
        return loop.run_until_complete(_churn(pending, batches))


async def _churn(pending: int, batches: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    kept = [
        loop.call_later(delay, no_op)
        for delay in to_seconds(uniform_ms(pending, 600_000, 1_800_000))
    ]
    delays = to_seconds(uniform_ms(_BATCH, 5_000, 30_000, seed=2))
    elapsed_ns = []
    for _ in range(_REPEATS):
        ns_after_gc()
        began_ns = perf_counter_ns()
        for _ in range(batches):
            for delay in delays:
                loop.call_later(delay, no_op).cancel()
            await peers.run_loop_once()
        elapsed_ns.append(perf_counter_ns() - began_ns)
    if len(kept) != pending:
        raise RuntimeError(f"{len(kept)} of {pending} timers are pending")
    return per_operation(elapsed_ns, _BATCH * batches)
