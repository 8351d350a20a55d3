"""Timeouts to try, and what each would have done to the requests of a host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from purgatory_spark._rows.trace_columns import MAX_TIMEOUT_MS
from purgatory_spark._spark.arrays import Ints

#: Default candidates for timeouts: 1, 2, 5, 10, ... ms up to about 83 minutes.
STEPS = tuple(digit * 10**power for power in range(7) for digit in (1, 2, 5))

#: The quantiles of the service times that timeouts are suggested by: the first and the last one
#: bound the `STEPS`, and the others are suggested themselves.
SUGGESTED_QUANTILES = [0.25, 0.99, 0.999, 0.9995]

#: The longest suggestion is at most so many times the last quantile. From one step to the next it
#: is 2.5 times at most, so there is one that is longer than all quantiles.
_REACH = 3


def timeouts_for(quantiles_ms: Sequence[float] | None) -> list[int]:
    """Choose timeouts by the `SUGGESTED_QUANTILES` of the service times; None if there are none."""
    low, *between, high = quantiles_ms or (1.0, 1000.0)
    chosen = [step for step in STEPS if low <= step <= _REACH * max(high, 1.0)]
    chosen += [_rounded_up(quantile) for quantile in between]
    return sorted(set(chosen)) or [STEPS[0]]


def _rounded_up(ms: float) -> int:
    """Return the next whole number of milliseconds with two digits, at least 1."""
    unit = int(10 ** max(0, math.floor(math.log10(max(ms, 1.0))) - 1))
    return min(MAX_TIMEOUT_MS, max(1, math.ceil(ms / unit) * unit))


def slice_what_if(table: pa.Table, timeouts: list[int]) -> pa.Table:
    group, number, start, end = (
        table.column(name)[0].as_py() for name in ("group", "slice", "start_us", "end_us")
    )
    arrived: Ints = table.column("arrived_us").to_numpy()
    order = np.argsort(arrived, kind="stable")
    arrived = arrived[order]
    satisfied: Ints = table.column("satisfied_us").to_numpy()[order]
    arrives_here = (start <= arrived) & (arrived < end)
    rows: list[dict[str, Any]] = []
    for timeout_ms in timeouts:
        deadline = arrived + timeout_ms * 1000
        completed = satisfied <= deadline
        ended = np.where(completed, satisfied, deadline)
        waited = ended > arrived
        arrivals = arrived[arrives_here & waited]
        ends = ended[(start <= ended) & (ended < end) & waited]
        expired = int(np.count_nonzero(arrives_here & ~completed))
        waits = (ended - arrived)[arrives_here]
        rows.append(
            {
                "group": group,
                "slice": number,
                "timeout_ms": timeout_ms,
                "requests": int(np.count_nonzero(arrives_here)),
                "expired": expired,
                "expired_waited_ms": float(expired * timeout_ms),
                "waited_ms": float(np.sum(waits, dtype=np.float64)) / 1000,
                "change": len(arrivals) - len(ends),
                "rise": pending_rise(arrivals, ends),
            }
        )
    return pa.Table.from_pylist(rows)


def pending_rise(arrived: Ints, ended: Ints) -> int:
    """Return by how much the pending requests rise at most; `arrived` is ascending.

    A request that ends when another arrives is not pending any more at that time.
    """
    if not len(arrived):
        return 0
    ended_before = np.searchsorted(np.sort(ended), arrived, side="right")
    return max(0, int(np.max(np.arange(1, len(arrived) + 1) - ended_before)))
