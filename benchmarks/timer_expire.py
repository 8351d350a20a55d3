"""Expire many timers, spread over a span of time, in virtual time.

`count` timers with delays of 1 to `span_ms` ms (uniform, seeded) are added while time stands still.
Measured is the time to advance through the whole span, until the last callback has returned. The
callback is a Python function without arguments that counts its calls, the same for all sides; the
run fails if the count is wrong.

Our side has a ManualClock that advances to each `next_expiration_ms`, where `advance_clock(0)` is
called. asyncio has its own loop, with a `time` and a selector that jumps to the end of each sleep.
sched has an interface for this. The heap advances to each next deadline. For Kafka and Netty, see
benchmarks/jvm. uvloop and threading.Timer read the machine's clock themselves, and a deadline of
trio calls nothing, so they are skipped.
"""

from __future__ import annotations

import sched
from collections.abc import Callable
from contextlib import closing
from time import perf_counter_ns

from benchmarks import peers
from benchmarks.delays import to_seconds, uniform_ms
from benchmarks.question import Case, JvmCall, NotApplicableError
from benchmarks.stopwatch import ns_after_gc, per_operation, repeats
from request_purgatory import ManualClock, SystemTimer

QUESTION = "timer_expire"
METRICS = {"ns_per_operation": "ns", "cpu_ns_per_operation": "ns"}
SIDES = tuple(side for side in peers.TIMERS if side != peers.OURS_MANUAL)

_REAL_CLOCK = "reads the machine's clock itself: no virtual time"
_SKIP_REASONS = {
    peers.UVLOOP: _REAL_CLOCK,
    peers.THREADING: _REAL_CLOCK,
    peers.TRIO: "a deadline cancels a scope, it calls nothing: not the same work",
}

_Callback = Callable[[], None]


def cases(quick: bool) -> list[Case]:
    """Return cases with powers of ten of `count` over a minute.

    Kafka also runs its callbacks on the clock's thread, instead of passing each to an executor.
    """
    spans = [
        {"count": count, "span_ms": 60_000}
        for count in ((100_000,) if quick else (100_000, 1_000_000))
    ]
    return [
        Case(span, span["count"], JvmCall(QUESTION, span | {"executor": "direct"}))
        for span in spans
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - the same for every case
    """Return a reason for sides without virtual time."""
    return _SKIP_REASONS.get(side)


def measure(side: str, count: int, span_ms: int) -> dict[str, float]:
    """Measure ns_per_operation.

    Raises:
        NotApplicableError: The side has no virtual time.
        RuntimeError: A callback was not called exactly once.
    """
    if side not in _BY_SIDE:
        raise NotApplicableError(_SKIP_REASONS[side])
    delays = uniform_ms(count, 1, span_ms)
    return per_operation([_once(_BY_SIDE[side], delays) for _ in range(repeats(count))], count)


def _once(expire: Callable[[list[int], _Callback], int], delays: list[int]) -> int:
    calls = 0

    def callback() -> None:
        nonlocal calls
        calls += 1

    elapsed_ns = expire(delays, callback)
    if calls != len(delays):
        raise RuntimeError(f"{calls} of {len(delays)} timers expired")
    return elapsed_ns


def _system_timer(delays: list[int], callback: _Callback) -> int:
    clock = ManualClock()
    timer = SystemTimer("benchmark", clock=clock)
    for delay in delays:
        timer.call_later_ms(delay, callback)
    now_ms = 0
    start_ns = ns_after_gc()
    while (next_ms := timer.next_expiration_ms) is not None:
        clock.advance(next_ms - now_ms)
        now_ms = next_ms
        timer.advance_clock(0)
    return perf_counter_ns() - start_ns


def _asyncio(delays: list[int], callback: _Callback) -> int:
    with closing(peers.VirtualLoop()) as loop:
        for delay in to_seconds(delays):
            loop.call_later(delay, callback)
        loop.call_later(max(delays) / 1000 + 1, loop.stop)
        start_ns = ns_after_gc()
        loop.run_forever()
        return perf_counter_ns() - start_ns


def _heapq(delays: list[int], callback: _Callback) -> int:
    clock = peers.VirtualTime()
    timer = peers.HeapTimer(clock)
    for delay in to_seconds(delays):
        timer.call_later(delay, callback)
    start_ns = ns_after_gc()
    while (deadline := timer.next_deadline()) is not None:
        clock.now = deadline
        timer.run_due()
    return perf_counter_ns() - start_ns


def _sched(delays: list[int], callback: _Callback) -> int:
    clock = peers.VirtualTime()
    scheduler = sched.scheduler(clock, clock.sleep)
    for delay in to_seconds(delays):
        scheduler.enter(delay, 0, callback)
    start_ns = ns_after_gc()
    scheduler.run()
    return perf_counter_ns() - start_ns


_BY_SIDE: dict[str, Callable[[list[int], _Callback], int]] = {
    peers.OURS: _system_timer,
    peers.ASYNCIO: _asyncio,
    peers.HEAPQ: _heapq,
    peers.SCHED: _sched,
}
