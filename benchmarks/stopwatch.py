"""The way to time code, the same for all sides."""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter_ns


def ns_after_gc() -> int:
    """Return the time after a full garbage collection; call this just before the measured code.

    The collector stays on during the measurement, as it does for users: its cost for many live
    objects is part of the result.
    """
    gc.collect()
    return perf_counter_ns()


def per_operation(elapsed_ns: list[int], operations: int) -> dict[str, float]:
    """Return the metric of batches of `operations` each.

    The metric is the median of the batches, so that one disturbed batch does not count.
    """
    return {"ns_per_operation": median(elapsed_ns) / operations}


def repeats(count: int) -> int:
    """Return how often a process repeats a measurement of `count` operations.

    Short measurements are repeated until the total is long enough to time.
    """
    return max(1, min(20, 20_000 // count))
