"""The way to time code, the same for all sides."""

from __future__ import annotations

import gc
import os
from collections import defaultdict
from pathlib import Path
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


def tree_cpu_seconds() -> float:
    """Return the CPU time of this process and all its descendants, with those that have ended.

    It depends less on what else runs than time does. Only Linux shows other processes: elsewhere it
    is the time of this process alone.
    """
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            # A program's name may have blanks and brackets.
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        children[int(fields[1])].append(int(file.parent.name))
        ticks[int(file.parent.name)] = sum(map(int, fields[11:15]))
    if not ticks:
        return sum(os.times()[:2])
    found, left = 0, [os.getpid()]
    while left:
        process = left.pop()
        found += ticks[process]
        left += children[process]
    return found / os.sysconf("SC_CLK_TCK")
