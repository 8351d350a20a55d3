"""What-if analysis: the outcomes of a trace under other timeouts."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._analysis.timeout_trials import slice_what_if
from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import MAX_TIMEOUT_MS
from purgatory_spark._spark.schemas import fields_of
from purgatory_spark._spark.session import small_partitions
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


def what_if(
    satisfactions: DataFrame,
    timeouts: list[int],
    bytes_per_operation: float,
    *,
    parts: Mapping[str, int] | None = None,
    are_few: bool = False,
) -> DataFrame:
    """Compute what each timeout would have done to a trace.

    A task takes one host, or one slice of a host. A host is cut by time, such that about as many
    requests arrive in each slice. The result does not depend on it.

    `timeouts`: whole milliseconds; each replaces the timeout of every request in turn. `parts`:
    number of slices of each host that does not fit into a worker's memory; those of
    `host_sizes.measure_trace` are enough. `are_few`: whether the rows are a small input. Returns
    one row for each timeout, ascending: `timeout_ms`, `requests`, `expired`, `expired_share`,
    `expired_waited_ms` (the sum over the expired requests), `mean_waited_ms`, and the
    `peak_pending` and `peak_bytes` of the host where they are largest, as one process has to hold
    them.
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
    arrivals = _slices(rows, bounds, timeouts)
    if are_few:
        partitions = small_partitions(satisfactions.sparkSession)
        arrivals = arrivals.repartition(partitions, "group", "slice")
    slices = arrivals.groupBy("group", "slice").applyInArrow(
        lambda rows: slice_what_if(rows, timeouts), _SLICE_WHAT_IF
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
