"""Timeouts to try, and what each would have done to the requests of a host."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from purgatory_spark._rows.trace_columns import MAX_TIMEOUT_MS
from purgatory_spark._spark.arrays import Floats, Ints, Sizes

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


@dataclass(frozen=True)
class WhatIf:
    """What timeouts would have done to the requests that arrive in a time; an element for each."""

    requests: Ints
    expired: Ints
    waited_us: Floats
    change: Ints
    rise: Ints


def what_if_of(
    arrived: Ints, satisfied: Ints, timeouts: Sequence[int], start: int, end: int
) -> WhatIf:
    """Compute what timeouts would have done to requests that arrive from `start` until `end`.

    `arrived`: ascending; those of earlier requests that may end after `start`, too. `timeouts`: in
    ms, ascending. Other times are microseconds. What a timeout lets complete, each longer one does,
    too: so each request is looked at until the first timeout that is long enough.
    """
    arrivals = arrived[_within(arrived, start, end)]
    # By how much the pending requests rise at an arrival, or fall.
    steps: Sizes = np.ones(len(arrivals), dtype=np.int32)
    completed, completed_us, rows = 0, 0.0, []
    for timeout_ms in timeouts:
        deadline = arrived + timeout_ms * 1000
        completes = satisfied <= deadline
        done = np.flatnonzero(completes)
        if len(done):
            began, ended = arrived.take(done), satisfied.take(done)
            waits = (ended - began)[_within(began, start, end)]
            completed_us += float(np.sum(waits, dtype=np.float64))
            ended.sort()
            ended = ended[_within(ended, start, end)]
            completed += len(ended)
            steps -= _ends_before(arrivals, ended)
            left = np.flatnonzero(~completes)
            arrived, satisfied, deadline = (
                times.take(left) for times in (arrived, satisfied, deadline)
            )
        deadline = deadline[_within(deadline, start, end)]
        pending = steps - _ends_before(arrivals, deadline)
        np.cumsum(pending, out=pending)
        expired = len(arrived[_within(arrived, start, end)])
        rows.append(
            (
                len(arrivals),
                expired,
                completed_us + float(expired) * timeout_ms * 1000,
                len(arrivals) - completed - len(deadline),
                max(0, int(pending.max(initial=0))),
            )
        )
    return WhatIf(*(np.array(column) for column in zip(*rows, strict=True)))


def _within(times: Ints, start: int, end: int) -> slice:
    """Return where ascending times are within a time."""
    return slice(*np.searchsorted(times, [start, end]).tolist())


def _ends_before(arrivals: Ints, ended: Ints) -> Sizes:
    """Return how many requests end after the arrival before each arrival, up to this one.

    A request that ends when another arrives is not pending any more. `ended` is ascending.
    """
    ends = np.bincount(np.searchsorted(arrivals, ended), minlength=len(arrivals) + 1)
    return ends[:-1].astype(np.int32)


def slice_what_if(table: pa.Table, timeouts: list[int]) -> pa.Table:
    group, number, start, end = (
        table.column(name)[0].as_py() for name in ("group", "slice", "start_us", "end_us")
    )
    arrived: Ints = table.column("arrived_us").to_numpy()
    order = np.argsort(arrived, kind="stable")
    satisfied: Ints = table.column("satisfied_us").to_numpy()
    found = what_if_of(arrived[order], satisfied[order], timeouts, start, end)
    columns = {
        "group": np.full(len(timeouts), group),
        "slice": np.full(len(timeouts), number),
        "timeout_ms": np.array(timeouts),
        "requests": found.requests,
        "expired": found.expired,
        "expired_waited_ms": found.expired * np.array(timeouts, dtype=float),
        "waited_ms": found.waited_us / 1000,
        "change": found.change,
        "rise": found.rise,
    }
    return pa.table({name: pa.array(column) for name, column in columns.items()})
