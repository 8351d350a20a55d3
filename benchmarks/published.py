"""The published benchmark: requests enqueued at rising rates, then completed or expired.

See `benchmarks.published_run` for what a run does, and `benchmarks/jvm` for the
same on the JVM with Kafka's present classes. Target rates are from 25,000 to 400,000 requests a
second, and 0 for unthrottled. Latencies have a median of 20 ms in the low case (75th percentile 60
ms) and 200 ms in the high one (400 ms); the timeout is 200 ms. A run at a rate has requests for
some seconds, an unthrottled one has more. Kafka runs with a heap of 2 GiB, and again with a small
one; Python has no such limit, so the variant is for the JVM only.

Two columns have Kafka's purgatory. In the first one the queue of answers is Kafka's, a heap. In the
second one it is that of our loop in Python, a list for each millisecond, which costs less.

As in Kafka's benchmark, a request that is to expire gets no answer. The cases with `late_answers=1`
answer it after its timeout, in vain, as services do.
"""

from __future__ import annotations

from benchmarks import peers
from benchmarks import published_run as run
from benchmarks.published_run import BenchmarkRun
from benchmarks.question import Case, NotApplicableError

QUESTION = "published"
METRICS = run.METRICS
SIDES = (peers.OURS, peers.LEGACY, peers.NO_PURGATORY, peers.KAFKA, peers.KAFKA_LIST_QUEUE)

RATES = (25_000, 50_000, 100_000, 200_000, 400_000, 0)
_SECONDS = 4
_MIN_COUNT = 200_000
_UNTHROTTLED = 1_000_000
_TIGHT_HEAP_MB = 192
_DESIGNS = {
    peers.OURS: "wheel",
    peers.LEGACY: "legacy",
    peers.NO_PURGATORY: run.NO_PURGATORY,
}


def cases(quick: bool) -> list[Case]:
    """Return both cases at every rate, with a small heap, and with late answers.

    `size` is the rate.
    """
    loads: list[dict[str, int | str]] = [
        {"case": case, "rate": rate, "count": _count(rate, quick)}
        for case in run.CASES
        for rate in (RATES[::5] if quick else RATES)
    ]
    tight: list[dict[str, int | str]] = [
        {"case": case, "rate": 0, "count": _count(0, quick), "heap_mb": _TIGHT_HEAP_MB}
        for case in run.CASES
    ]
    late: list[dict[str, int | str]] = [
        {"case": case, "rate": 0, "count": _count(0, quick), "late_answers": 1}
        for case in run.CASES
    ]
    # A side that keeps up with a rate has little variation, so one round is enough.
    return [
        Case(load, int(load["rate"]), max_rounds=1 if load["rate"] else None)
        for load in loads + tight + late
    ]


def _count(rate: int, quick: bool) -> int:
    if quick:
        return 50_000
    return max(_MIN_COUNT, rate * _SECONDS) if rate else _UNTHROTTLED


def skip_reason(side: str, case: Case) -> str | None:
    """Return a reason for all but Kafka in the case of a small heap, and for the bare loop."""
    if "heap_mb" in case.params and side != peers.KAFKA:
        if side == peers.KAFKA_LIST_QUEUE:
            return "the small heap is measured with Kafka's own queue only"
        return "Python has no heap limit to set"
    if side == peers.NO_PURGATORY and case.size:
        return "bounds the rate, so it runs without a target rate only"
    if side == peers.NO_PURGATORY and "late_answers" in case.params:
        return "nothing expires a request, so no answer is late"
    return None


def measure(side: str, case: str, rate: int, count: int, late_answers: int = 0) -> dict[str, float]:
    """Measure all METRICS."""
    if side not in _DESIGNS:
        raise NotApplicableError(f"{side} has no design to run here; use {' or '.join(_DESIGNS)}")
    return run.measure(
        BenchmarkRun(
            case=case,
            design=_DESIGNS[side],
            rate=rate,
            count=count,
            late_answers=late_answers,
        )
    )
