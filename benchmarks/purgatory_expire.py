"""Watch many requests, and expire them all, in virtual time.

`count` requests with timeouts of 1 to 60,000 ms (uniform, seeded), each under one of 65,536 keys in
turn, in a purgatory with a ManualClock and no reaper. `watch_ns_per_operation` is making a request
and watching it, per request; `ns_per_operation` is the way through the whole span, per expired
request: the clock goes to each `next_expiration_ms`, and `timer.advance_clock(0)` expires what is
due there. Purging is no part of it, because what it costs depends on what else is watched: one
purge of all lists, with everything expired, is `purge_ns_per_operation`, per request. Kafka's
harness has no such question.
"""

from __future__ import annotations

from time import perf_counter_ns

from benchmarks import peers
from benchmarks.delays import uniform_ms
from benchmarks.question import Case
from benchmarks.request import Request, keys_of, open_purgatory
from benchmarks.stopwatch import settled_ns
from request_purgatory import ManualClock

QUESTION = "purgatory_expire"
METRICS = {"ns_per_operation": "ns", "watch_ns_per_operation": "ns", "purge_ns_per_operation": "ns"}
SIDES = (peers.OURS, peers.LEGACY)

_KEYS = 65_536
_SPAN_MS = 60_000


def cases(quick: bool) -> list[Case]:
    """`count` by powers of ten."""
    return [
        Case({"count": count}, count) for count in ((100_000,) if quick else (100_000, 1_000_000))
    ]


def left_out(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """None."""
    return None


def measure(side: str, count: int) -> dict[str, float]:
    """All metrics; RuntimeError if a request did not expire."""
    clock = ManualClock()
    purgatory = open_purgatory(side, clock)
    timer = purgatory.timer
    delays = uniform_ms(count, 1, _SPAN_MS)
    keys = keys_of(_KEYS)
    keys = (keys * (count // _KEYS + 1))[:count]

    watch = purgatory.try_complete_else_watch
    start_ns = settled_ns()
    for delay, key in zip(delays, keys, strict=True):
        request = Request(delay)
        request.ready = False
        watch(request, [key])
    watched_ns = perf_counter_ns() - start_ns

    now_ms = 0
    start_ns = settled_ns()
    while (next_ms := timer.next_expiration_ms) is not None:
        clock.advance(next_ms - now_ms)
        now_ms = next_ms
        timer.advance_clock(0)
    expired_ns = perf_counter_ns() - start_ns
    if purgatory.metrics().expirations != count:
        raise RuntimeError(f"not every request expired: {purgatory.metrics()}")

    start_ns = perf_counter_ns()
    purgatory.purge()
    purged_ns = perf_counter_ns() - start_ns
    return {
        "ns_per_operation": expired_ns / count,
        "watch_ns_per_operation": watched_ns / count,
        "purge_ns_per_operation": purged_ns / count,
    }
