"""Watch many requests, and expire them all, in virtual time.

`count` requests with timeouts of 1 to 60,000 ms (uniform, seeded) watch one of 65,536 keys each, in
turn, in a purgatory with a ManualClock and no reaper. `watch_ns_per_operation` is the time to make
and watch a request. `ns_per_operation` is the time to expire one: the clock advances to each
`next_expiration_ms`, where `timer.advance_clock(0)` expires the due requests. Purging is not
included, because its cost depends on what else is watched. `purge_ns_per_operation` is the time per
request of one purge of all lists after all requests have expired. Kafka's harness does not have
this question.
"""

from __future__ import annotations

from time import perf_counter_ns

from benchmarks import peers
from benchmarks.delays import uniform_ms
from benchmarks.question import Case
from benchmarks.request import Request, open_purgatory, watch_keys
from benchmarks.stopwatch import ns_after_gc
from request_purgatory import ManualClock

QUESTION = "purgatory_expire"
METRICS = {"ns_per_operation": "ns", "watch_ns_per_operation": "ns", "purge_ns_per_operation": "ns"}
SIDES = (peers.OURS, peers.LEGACY)

_KEYS = 65_536
_SPAN_MS = 60_000


def cases(quick: bool) -> list[Case]:
    """Return cases with powers of ten of `count`."""
    return [
        Case({"count": count}, count) for count in ((100_000,) if quick else (100_000, 1_000_000))
    ]


def skip_reason(side: str, case: Case) -> str | None:  # noqa: ARG001 - every side does every case
    """Return None: every side runs every case."""
    return None


def measure(side: str, count: int) -> dict[str, float]:
    """Measure all metrics.

    Raises:
        RuntimeError: A request did not expire.
    """
    clock = ManualClock()
    purgatory = open_purgatory(side, clock)
    timer = purgatory.timer
    delays = uniform_ms(count, 1, _SPAN_MS)
    keys = watch_keys(_KEYS)
    keys = (keys * (count // _KEYS + 1))[:count]

    watch = purgatory.try_complete_else_watch
    start_ns = ns_after_gc()
    for delay, key in zip(delays, keys, strict=True):
        request = Request(delay)
        request.ready = False
        watch(request, [key])
    watched_ns = perf_counter_ns() - start_ns

    now_ms = 0
    start_ns = ns_after_gc()
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
