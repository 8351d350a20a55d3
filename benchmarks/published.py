"""The published benchmark: requests enqueued at rising rates, completed by a second thread, expired by the purgatory's clock.

See `request_purgatory.published_benchmark.run` for what a run does, and `benchmarks/jvm` for the
same on the JVM with Kafka's present classes. Rates from 25,000 a second up to 0, which stands for
unthrottled; the low case has latencies of 20 ms (75th percentile 60 ms), the high one 200 ms (400
ms), the timeout is 200 ms. A run at a rate takes some seconds' worth of requests, an unthrottled
one more. Kafka runs with a heap of 2 GiB, and once more in a tight one; Python has no such limit to
set, so that variant is the JVM's.
"""

from __future__ import annotations

from benchmarks import peers
from benchmarks.question import Case, NotApplicableError
from request_purgatory.published_benchmark import run
from request_purgatory.published_benchmark.run import Load

QUESTION = "published"
METRICS = run.METRICS
SIDES = (peers.OURS, peers.LEGACY, peers.KAFKA)

RATES = (25_000, 50_000, 100_000, 200_000, 400_000, 0)
_SECONDS = 4
_LEAST = 200_000
_UNTHROTTLED = 1_000_000
_TIGHT_HEAP_MB = 192
_DESIGNS = {peers.OURS: "wheel", peers.LEGACY: "legacy"}


def cases(quick: bool) -> list[Case]:
    """Both cases at every rate, and in a tight heap; `size` is the rate, 0 for unthrottled."""
    loads: list[dict[str, int | str]] = [
        {"case": case, "rate": rate, "count": _count(rate, quick)}
        for case in run.CASES
        for rate in (RATES[::5] if quick else RATES)
    ]
    tight: list[dict[str, int | str]] = [
        {"case": case, "rate": 0, "count": _count(0, quick), "heap_mb": _TIGHT_HEAP_MB}
        for case in run.CASES
    ]
    # At a rate that a side keeps up with there is little to vary.
    return [
        Case(load, int(load["rate"]), most_rounds=1 if load["rate"] else None)
        for load in loads + tight
    ]


def _count(rate: int, quick: bool) -> int:
    if quick:
        return 50_000
    return max(_LEAST, rate * _SECONDS) if rate else _UNTHROTTLED


def left_out(side: str, case: Case) -> str | None:
    """The tight heap is for those who have a heap to limit."""
    if "heap_mb" in case.params and side != peers.KAFKA:
        return "Python has no heap limit to set"
    return None


def measure(side: str, case: str, rate: int, count: int) -> dict[str, float]:
    """A value for each of METRICS."""
    if side not in _DESIGNS:
        raise NotApplicableError(f"{side} is not measured here")
    return run.measure(Load(case=case, design=_DESIGNS[side], rate=rate, count=count))
