"""Timers of an event loop while others are pending: `call_later` and `cancel`, through the loop.

`pending` timers of 10 to 30 minutes wait; then batches of 1,000 timers of 5 to 30 s are set and
cancelled, with one round of the loop after each batch, in which the standard loop may clear its
heap of cancelled timers. ns_per_operation is of one pair, the loop's rounds included.
"""

from __future__ import annotations

import asyncio
from contextlib import closing
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.delays import seconds, uniform_ms
from benchmarks.peers import nothing
from benchmarks.question import Case
from benchmarks.stopwatch import per_operation, settled_ns

QUESTION = "aio_timers"
METRICS = {"ns_per_operation": "ns"}
SIDES = (peers.OURS, peers.ASYNCIO, peers.UVLOOP)

_BATCH = 1_000
_REPEATS = 5


def cases(quick: bool) -> list[Case]:
    """From none to many."""
    return [
        Case({"pending": pending}, pending)
        for pending in ((0, 1_000) if quick else (0, 1_000, 100_000))
    ]


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """None."""
    return None


def measure(side: str, pending: int, batches: int = 20) -> dict[str, float]:
    """ns_per_operation."""
    with closing(peers.open_loop(side)) as loop:
        return loop.run_until_complete(_churn(pending, batches))


async def _churn(pending: int, batches: int) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    kept = [
        loop.call_later(delay, nothing)
        for delay in seconds(uniform_ms(pending, 600_000, 1_800_000))
    ]
    delays = seconds(uniform_ms(_BATCH, 5_000, 30_000, seed=2))
    elapsed_ns = []
    for _ in range(_REPEATS):
        settled_ns()
        began_ns = perf_counter_ns()
        for _ in range(batches):
            for delay in delays:
                loop.call_later(delay, nothing).cancel()
            await peers.let_loop_run()
        elapsed_ns.append(perf_counter_ns() - began_ns)
    if len(kept) != pending:
        raise RuntimeError(f"{len(kept)} of {pending} timers are pending")
    return per_operation(elapsed_ns, _BATCH * batches)
