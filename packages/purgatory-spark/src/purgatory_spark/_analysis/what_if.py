"""What-if analysis: the outcomes of a trace under other timeouts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.schemas import fields_of
from request_purgatory.errors import InvalidArgumentError

#: One slice of a host under one timeout. `requests`, `expired` and the waits are of the requests
#: that arrive in the slice. `change` is by how much the number of pending requests is larger at the
#: slice's end than at its start, and `rise` by how much it is at most in between.
_SLICE_WHAT_IF = T.StructType(
    [
        *fields_of(T.LongType(), "group", "slice", "timeout_ms", "requests", "expired"),
        *fields_of(T.DoubleType(), "expired_waited_ms", "waited_ms"),
        *fields_of(T.LongType(), "change", "rise"),
    ]
)

#: The times at which a host is cut, in microseconds since the epoch, ascending, by host.
_Bounds = dict[str, list[int]]

#: Default candidates for timeouts: 1, 2, 5, 10, ... ms up to about 83 minutes.
STEPS = tuple(digit * 10**power for power in range(7) for digit in (1, 2, 5))

#: The quantiles of the service times that timeouts are suggested by: the first and the last one
#: bound the `STEPS`, and the others are suggested themselves.
SUGGESTED_QUANTILES = [0.25, 0.99, 0.999, 0.9995]

#: The longest suggestion is at most so many times the last quantile. From one step to the next it
#: is 2.5 times at most, so there is one that is longer than all quantiles.
_REACH = 3


def suggest_timeouts(satisfactions: DataFrame) -> list[int]:
    """Suggest timeouts to try for a trace.

    Returns the `STEPS` from the first quartile of the service times to three times their 99.95th
    percentile, and their 99th and 99.9th percentiles, rounded up to two digits; in ms, ascending;
    at least one.
    """
    service_ms = (F.unix_micros("satisfied_at") - F.unix_micros("arrived_at")) / 1000
    row = (
        outcomes_of(satisfactions)
        .select(service_ms.alias("service_ms"))
        .agg(F.percentile_approx("service_ms", SUGGESTED_QUANTILES, 100_000).alias("found"))
        .first()
    )
    return timeouts_for(row["found"] if row is not None else None)


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


def what_if(
    satisfactions: DataFrame,
    timeouts: list[int],
    bytes_per_operation: float,
    *,
    parts: Mapping[str, int] | None = None,
) -> DataFrame:
    """Compute what each timeout would have done to a trace.

    A task takes one host, or one slice of a host. A host is cut by time, such that about as many
    requests arrive in each slice. The result does not depend on it.

    `timeouts`: whole milliseconds; each replaces the timeout of every request in turn. `parts`:
    number of slices of each host that does not fit into a worker's memory; those of
    `host_sizes.measure_trace` are enough. Returns one row for each timeout, ascending:
    `timeout_ms`, `requests`, `expired`, `expired_share`, `expired_waited_ms` (the sum over the
    expired requests), `mean_waited_ms`, and the `peak_pending` and `peak_bytes` of the host where
    they are largest, as one process has to hold them.
    """
    if not timeouts or min(timeouts) < 0 or max(timeouts) > MAX_TIMEOUT_MS:
        raise InvalidArgumentError(
            "timeouts",
            f"one or more numbers of milliseconds from 0 to {MAX_TIMEOUT_MS:,}",
            timeouts,
        )
    timeouts = sorted(set(timeouts))
    rows = outcomes_of(satisfactions).select(
        "host",
        F.xxhash64("host").alias("group"),
        F.unix_micros("arrived_at").alias("arrived_us"),
        F.coalesce(F.unix_micros("satisfied_at"), F.lit(int(NEVER))).alias("satisfied_us"),
    )
    bounds = _cut_hosts(rows, {host: count for host, count in (parts or {}).items() if count > 1})
    slices = (
        _slices(rows, bounds, timeouts)
        .groupBy("group", "slice")
        .applyInArrow(lambda rows: _slice_what_if(rows, timeouts), _SLICE_WHAT_IF)
    )
    pending: Column = F.lit(0)
    if bounds:
        # There are as many rows as slices and timeouts.
        before = (
            Window.partitionBy("group", "timeout_ms")
            .orderBy("slice")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        pending = F.coalesce(F.sum("change").over(before), F.lit(0))
    return (
        slices.withColumn("peak", pending + F.col("rise"))
        .groupBy("timeout_ms")
        .agg(
            F.sum("requests").alias("requests"),
            F.sum("expired").alias("expired"),
            (F.sum("expired") / F.sum("requests")).alias("expired_share"),
            F.sum("expired_waited_ms").alias("expired_waited_ms"),
            (F.sum("waited_ms") / F.sum("requests")).alias("mean_waited_ms"),
            F.max("peak").alias("peak_pending"),
        )
        .withColumn("peak_bytes", F.col("peak_pending") * F.lit(float(bytes_per_operation)))
        .coalesce(1)
        .sortWithinPartitions("timeout_ms")
    )


def _cut_hosts(rows: DataFrame, parts: Mapping[str, int]) -> _Bounds:
    """Find the times at which hosts are cut, with a pass over those with equally many parts."""
    bounds: _Bounds = {}
    for count in sorted(set(parts.values())):
        hosts = [host for host, number in parts.items() if number == count]
        shares = [number / count for number in range(1, count)]
        cuts = (
            rows.where(F.col("host").isin(hosts))
            .groupBy("host")
            .agg(F.percentile_approx("arrived_us", shares).alias("cuts"))
            .collect()
        )
        bounds |= {row["host"]: sorted(set(row["cuts"])) for row in cuts}
    return bounds


def _slices(rows: DataFrame, bounds: _Bounds, timeouts: list[int]) -> DataFrame:
    """Add the slices in which each request arrives, or ends under one of the timeouts."""
    first, last = F.lit(int(-NEVER)), F.lit(int(NEVER))
    columns = ("group", "arrived_us", "satisfied_us")
    if not bounds:
        whole = (F.lit(0).alias("slice"), first.alias("start_us"), last.alias("end_us"))
        return rows.select(*columns, *whole)
    by_host = F.create_map(*[F.lit(item) for pair in bounds.items() for item in pair])
    cuts = F.coalesce(by_host[F.col("host")], F.array().cast("array<bigint>"))

    def slice_of(time_us: Column) -> Column:
        return F.size(F.filter(cuts, lambda cut: cut <= time_us))

    arrived = F.col("arrived_us")
    ends = [
        slice_of(F.least("satisfied_us", arrived + F.lit(timeout * 1000))) for timeout in timeouts
    ]
    number = F.explode(F.array_distinct(F.array(slice_of(arrived), *ends)))
    return (
        rows.withColumn("cuts", cuts)
        .withColumn("slice", number)
        .select(
            *columns,
            "slice",
            F.coalesce(F.get("cuts", F.col("slice") - 1), first).alias("start_us"),
            F.coalesce(F.get("cuts", F.col("slice")), last).alias("end_us"),
        )
    )


def _slice_what_if(table: pa.Table, timeouts: list[int]) -> pa.Table:
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
