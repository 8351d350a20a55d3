"""The aggregates of an analysis, each a small Spark table computed from a trace's outcomes.

`count_outcomes` counts the outcomes once, and the tables add up its counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.answer_times import NO_BUCKETS, Buckets
from purgatory_spark._analysis.time_bins import TimeBins
from purgatory_spark._analysis.wait_buckets import bin_of, bin_start_ms, bucket_of, quantile, ranked
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import EXPIRED, OUTCOMES
from purgatory_spark._traces.marks import Mark

#: Quantiles of the waiting times, by the name of their column.
QUANTILES: Mapping[str, float] = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

#: The same of the uncut waits, from the arrival until the condition holds.
UNCUT_QUANTILES: Mapping[str, float] = {f"uncut_{name}": share for name, share in QUANTILES.items()}

#: Parts of a bin whose changes are put in order by themselves.
_CELLS = 8

_TIMELINE_QUANTILES = {name: QUANTILES[name] for name in ("p50_ms", "p99_ms")}


def count_outcomes(outcomes: DataFrame, bins: TimeBins, marks: list[Mark]) -> DataFrame:
    """Count outcomes in one pass, for all tables of an analysis.

    The result has three kinds of rows: by host, type, era (the number of marks before the arrival)
    and both waits; by the bin of the arrival; and by the bin of the end. There are as many as
    combinations of these, so the result is small where the waits of many requests are counted.

    `outcomes`: rows of `schema.OUTCOMES` with `satisfied_at`. Returns `host`, `request_type`,
    `era`, `wait` and `uncut` (buckets; `uncut` is null if the condition never holds),
    `arrived_bin`, `ended_bin`, of which those by which a row is not counted are null; and
    `requests`, `expired`, `waited_us` (a sum), `longest_us`, `longest_uncut_us`.
    """
    arrived_us = F.unix_micros("arrived_at")
    eras = [(F.col("arrived_at") >= F.lit(at)).cast("int") for at in {mark.at for mark in marks}]
    waits = outcomes.select(
        "host",
        "request_type",
        sum(eras, F.lit(0)).alias("era"),
        (F.unix_micros("ended_at") - arrived_us).alias("wait_us"),
        (F.unix_micros("satisfied_at") - arrived_us).alias("uncut_us"),
        (F.col("outcome") == EXPIRED).alias("is_expired"),
        bins.number_of(F.col("arrived_at")).alias("arrived_bin"),
        bins.number_of(F.col("ended_at")).alias("ended_bin"),
    ).select(
        "*", bucket_of(F.col("wait_us")).alias("wait"), bucket_of(F.col("uncut_us")).alias("uncut")
    )
    # Fewer buckets for each of many bins.
    waits = waits.withColumn("coarse_wait", F.floor(F.col("wait") / 10))
    sets = [
        ["host", "request_type", "era", "wait", "uncut"],
        ["arrived_bin", "coarse_wait"],
        ["ended_bin"],
    ]
    columns = [name for names in sets for name in names]
    counts = waits.groupingSets([[F.col(name) for name in names] for names in sets], *columns)
    return counts.agg(
        F.count("*").alias("requests"),
        F.count_if("is_expired").alias("expired"),
        F.sum(F.col("wait_us").cast("double")).alias("waited_us"),
        F.max("wait_us").alias("longest_us"),
        F.max("uncut_us").alias("longest_uncut_us"),
    )


def _without_time(counts: DataFrame) -> DataFrame:
    return counts.where(F.col("arrived_bin").isNull() & F.col("ended_bin").isNull())


def summarize_outcomes(counts: DataFrame, suspected: Buckets = NO_BUCKETS) -> DataFrame:
    """Summarize the outcomes of all requests, of each request type and of each host.

    `suspected`: the buckets of the answers that may be none (`cut_off`).

    Returns `dimension` (all, request_type or host), `value`, `requests`, `completed`, `expired`,
    `suspected` (completed requests in those buckets), `expired_share`, and of the waiting times
    `mean_ms`, the columns of `QUANTILES`, `max_ms`. The
    columns of `UNCUT_QUANTILES` are of the time from the arrival until the condition holds; null if
    it never does for that share of the requests.
    """
    return _summarize(_without_time(counts), (), suspected)


def _summarize(counts: DataFrame, columns: Sequence[str], suspected: Buckets) -> DataFrame:
    """Return the summary of `summarize_outcomes` for each combination of further columns."""
    group = (*columns, "dimension", "value")
    dimensions = {"all": F.lit(""), "request_type": F.col("request_type"), "host": F.col("host")}
    none = F.lit(0).cast("bigint")
    is_suspected = F.col("uncut").between(suspected[0], suspected[1] - 1)
    in_doubt = F.when(is_suspected, F.col("requests") - F.col("expired")).otherwise(none)
    rows = F.array(
        *[
            F.struct(
                F.lit(name).alias("dimension"),
                value.alias("value"),
                F.lit(is_uncut).alias("is_uncut"),
                F.col(bucket).alias("bucket"),
                F.col("requests").alias("number"),
                (F.col(longest) / 1000).alias("largest"),
                (none if is_uncut else F.col("expired")).alias("expired"),
                (none if is_uncut else in_doubt).alias("suspected"),
                (F.lit(0.0) if is_uncut else F.col("waited_us")).alias("waited_us"),
            )
            for name, value in dimensions.items()
            for is_uncut, bucket, longest in (
                (False, "wait", "longest_us"),
                (True, "uncut", "longest_uncut_us"),
            )
        ]
    )
    waits = counts.select(*columns, F.inline(rows))
    # All waits are ranked before all uncut ones, of which there are as many.
    sums = ("expired", "suspected", "waited_us")
    in_order = ranked(waits, group, ("is_uncut", "bucket"), sums)
    is_uncut, total = F.col("is_uncut"), F.col("total")
    cut_rank = F.when(~is_uncut, F.col("rank"))
    uncut_rank = F.when(is_uncut, F.col("rank") - total)
    return (
        in_order.withColumn("total", (total / 2).cast("bigint"))
        .groupBy(*group)
        .agg(
            F.max("total").alias("requests"),
            F.sum("expired").alias("expired"),
            F.sum("suspected").alias("suspected"),
            (F.sum("waited_us") / F.max("total") / 1000).alias("mean_ms"),
            F.max(F.when(~is_uncut, F.col("largest"))).alias("max_ms"),
            *[quantile(share, cut_rank).alias(name) for name, share in QUANTILES.items()],
            *[quantile(share, uncut_rank).alias(name) for name, share in UNCUT_QUANTILES.items()],
        )
        .select(
            *group,
            "requests",
            (F.col("requests") - F.col("expired")).alias("completed"),
            "expired",
            "suspected",
            (F.col("expired") / F.col("requests")).alias("expired_share"),
            "mean_ms",
            *QUANTILES,
            "max_ms",
            *UNCUT_QUANTILES,
        )
    )


def histogram_waits(counts: DataFrame) -> DataFrame:
    """Count waiting times in bins of equal width on a log scale.

    Returns `bin`, `from_ms` (the bin's lower end), `completed`, `expired`, and `satisfied_late`,
    ascending. The last one counts expired requests by the time after which their condition held,
    too late. Bin i begins at 10**(i/20) ms; waits below a microsecond are in the bin of one
    microsecond.
    """
    none, expired = F.lit(0).cast("bigint"), F.col("expired")
    numbers = ("completed", "expired", "satisfied_late")

    def counted(bucket: str, *values: Column) -> Column:
        named = [value.alias(name) for name, value in zip(numbers, values, strict=True)]
        return F.struct(bin_of(F.col(bucket)).alias("bin"), *named)

    both = F.array(
        counted("wait", F.col("requests") - expired, expired, none),
        counted("uncut", none, none, expired),
    )
    return (
        _without_time(counts)
        .select(F.inline(both))
        .groupBy("bin")
        .agg(*[F.sum(name).alias(name) for name in numbers])
        .where(F.col("bin").isNotNull() & (sum(F.col(name) for name in numbers) > 0))
        .select("bin", bin_start_ms(F.col("bin")).alias("from_ms"), *numbers)
        # There are few bins, and sorting them in one task needs no shuffle.
        .coalesce(1)
        .sortWithinPartitions("bin")
    )


def count_answers(counts: DataFrame) -> DataFrame:
    """Count when requests were answered, and when those without an answer expired.

    Returns `bucket`, `up_to_ms` (the longest time in it), `answered` (requests whose condition
    held then, also after their deadline) and `given_up` (requests whose condition never held, by
    their wait). There are at most as many rows as buckets.
    """
    return _count_answers(_without_time(counts))


def answers_of(outcomes: DataFrame) -> DataFrame:
    """Return the table of `count_answers` of outcomes."""
    arrived_us = F.unix_micros("arrived_at")
    waits = outcomes_of(outcomes).select(
        (F.unix_micros("ended_at") - arrived_us).alias("wait_us"),
        (F.unix_micros("satisfied_at") - arrived_us).alias("uncut_us"),
    )
    counts = waits.select(
        bucket_of(F.col("wait_us")).alias("wait"),
        bucket_of(F.col("uncut_us")).alias("uncut"),
        F.lit(1).cast("bigint").alias("requests"),
        F.col("wait_us").alias("longest_us"),
        F.col("uncut_us").alias("longest_uncut_us"),
    )
    # There are few buckets, and one task adds them up.
    return _count_answers(counts).coalesce(1)


def _count_answers(counts: DataFrame) -> DataFrame:
    is_answered, none = F.col("uncut").isNotNull(), F.lit(0).cast("bigint")
    return counts.groupBy(F.coalesce("uncut", "wait").alias("bucket")).agg(
        (F.max(F.coalesce("longest_uncut_us", "longest_us")) / 1000).alias("up_to_ms"),
        F.sum(F.when(is_answered, F.col("requests")).otherwise(none)).alias("answered"),
        F.sum(F.when(is_answered, none).otherwise(F.col("requests"))).alias("given_up"),
    )


def timeline(counts: DataFrame, outcomes: DataFrame, bins: TimeBins) -> DataFrame:
    """Count arrivals, ends and pending requests over time.

    `counts`: those of `count_outcomes` of the outcomes. Returns a row for each bin, empty ones too:
    `from_at`, `arrived`, `ended`, `expired`, `p50_ms` and `p99_ms` (the latter three of the
    requests that arrived in the bin; quantiles of the waiting times are at most 2.4 % too long, and
    null without arrivals), `pending` (at the bin's end) and `peak_pending` (the most at once in
    the bin, from its beginning on).
    """
    is_arrival, none = F.col("arrived_bin").isNotNull(), F.lit(0).cast("bigint")
    counted = counts.where(is_arrival | F.col("ended_bin").isNotNull()).select(
        F.coalesce("arrived_bin", "ended_bin").alias("bin"),
        F.col("coarse_wait").alias("bucket"),
        F.when(is_arrival, F.col("requests")).otherwise(none).alias("number"),
        (F.col("longest_us") / 1000).alias("largest"),
        F.when(is_arrival, F.col("expired")).otherwise(none).alias("expired"),
        F.when(is_arrival, none).otherwise(F.col("requests")).alias("ended"),
    )
    every_bin = counts.sparkSession.range(bins.first, bins.last + 1).withColumnRenamed("id", "bin")
    rows = counted.unionByName(every_bin, allowMissingColumns=True)
    joined = (
        ranked(rows, ["bin"], ["bucket"], ["expired", "ended"])
        .groupBy("bin")
        .agg(
            F.coalesce(F.sum("number"), none).alias("arrived"),
            F.coalesce(F.sum("ended"), none).alias("ended"),
            F.coalesce(F.sum("expired"), none).alias("expired"),
            *[quantile(share).alias(name) for name, share in _TIMELINE_QUANTILES.items()],
        )
    )
    # One partition is enough: there are at most a few hundred bins.
    so_far = Window.orderBy("bin").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    pending = F.sum("arrived").over(so_far) - F.sum("ended").over(so_far)
    before = F.coalesce(F.lag("pending").over(Window.orderBy("bin")), none)
    return (
        joined.coalesce(1)
        .withColumn("pending", pending)
        .join(F.broadcast(_peaks(outcomes, bins)), "bin", "left")
        .withColumn("peak_pending", F.greatest(before, "peak"))
        .where(F.col("bin").between(bins.first, bins.last))
        .select(
            F.timestamp_micros(F.col("bin") * bins.width_us).alias("from_at"),
            "arrived",
            "ended",
            "expired",
            *_TIMELINE_QUANTILES,
            "pending",
            "peak_pending",
        )
        .sortWithinPartitions("from_at")
    )


def _peaks(outcomes: DataFrame, bins: TimeBins) -> DataFrame:
    """Return the most pending requests after an arrival or an end in each `bin`, as `peak`.

    Requests that end when they arrive are never pending.
    """
    cells = bins.divided(_CELLS)
    arrived_us, ended_us = F.unix_micros("arrived_at"), F.unix_micros("ended_at")
    changes = F.array(
        F.struct(arrived_us.alias("us"), F.lit(1).alias("change")),
        F.struct(ended_us.alias("us"), F.lit(-1).alias("change")),
    )
    changed = (
        outcomes.where(ended_us > arrived_us)
        .select(F.inline(changes))
        .withColumn("cell", cells.number_of(F.timestamp_micros("us")))
    )
    # All changes of a moment count at once, as a range of an order by times has them all.
    so_far = F.sum("change").over(Window.partitionBy("cell").orderBy("us"))
    by_cell = (
        changed.withColumn("so_far", so_far)
        .groupBy("cell")
        .agg(F.max("so_far").alias("highest"), F.sum("change").alias("change"))
        .coalesce(1)
    )
    before = Window.orderBy("cell").rowsBetween(Window.unboundedPreceding, -1)
    at_first = F.coalesce(F.sum("change").over(before), F.lit(0))
    return (
        by_cell.select("cell", (at_first + F.col("highest")).alias("peak"))
        .groupBy(F.floor(F.col("cell") / _CELLS).alias("bin"))
        .agg(F.max("peak").alias("peak"))
    )


def compare_marks(
    counts: DataFrame, marks: list[Mark], suspected: Buckets = NO_BUCKETS
) -> DataFrame:
    """Summarize the outcomes of the requests that arrived before and after each mark.

    `counts`: rows of `count_outcomes` with these marks. Returns `label`, `at`, `side` (before or
    after; a request that arrives at the mark is after it), and the columns of `summarize_outcomes`.
    """
    eras = {at: number for number, at in enumerate(sorted({mark.at for mark in marks}), start=1)}
    sides = F.array(
        *[
            F.struct(
                F.lit(mark.label).alias("label"),
                F.lit(mark.at).alias("at"),
                F.when(F.col("era") < eras[mark.at], "before").otherwise("after").alias("side"),
            )
            for mark in marks
        ]
    )
    by_side = _without_time(counts).select("*", F.inline(sides))
    return (
        _summarize(by_side, ("label", "at", "side"), suspected)
        .coalesce(1)
        .sortWithinPartitions("at", "label", F.desc("side"), "dimension", "value")
    )


def compare_replayed(outcomes: DataFrame, replayed: DataFrame, name: str) -> DataFrame:
    """Compare a replay's outcomes with the batch outcomes, request by request.

    Both are rows of `schema.OUTCOMES`. Returns one row: `design` (the replay's name), `rows` (in
    either table), `differing` (rows that are not equal in both, or missing in one), `example` (host
    and id of one of these, or null).
    """
    names = OUTCOMES.names
    # A host may use an id again, but not for two requests that arrive at the same time.
    key = ["host", "request_id", "arrived_at"]
    batch_rows = outcomes_of(outcomes).select(*key, F.struct(*names).alias("batch"))
    replay_rows = replayed.select(*key, F.struct(*names).alias("replay"))
    differs = ~F.col("batch").eqNullSafe(F.col("replay"))
    return batch_rows.join(replay_rows, key, "full").agg(
        F.lit(name).alias("design"),
        F.count("*").alias("rows"),
        F.count_if(differs).alias("differing"),
        F.min(F.when(differs, F.concat_ws(" ", "host", "request_id"))).alias("example"),
    )
