"""How a piece of code is timed, the same for all sides."""

from __future__ import annotations

import gc
from statistics import median
from time import perf_counter_ns


def settled_ns() -> int:
    """The time, after a full garbage collection: read it just before what is measured.

    The collector stays on while code is measured, as it is for users: what many live objects cost
    it is part of the answer.
    """
    gc.collect()
    return perf_counter_ns()


def per_operation(elapsed_ns: list[int], operations: int) -> dict[str, float]:
    """The metric of batches of `operations` each.

    Their median, so that one disturbed batch does not count.
    """
    return {"ns_per_operation": median(elapsed_ns) / operations}


def repeats(count: int) -> int:
    """How often to repeat a measurement of `count` operations in a process.

    Short ones until they are long enough to time.
    """
    return max(1, min(20, 20_000 // count))
