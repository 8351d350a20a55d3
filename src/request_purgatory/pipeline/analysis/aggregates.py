"""The aggregates of an analysis, each a small Spark table computed from a trace's outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.analysis.replay_folder import ReplayFolder
from request_purgatory.pipeline.outcomes.results import outcomes_of
from request_purgatory.pipeline.traces.marks import Mark
from request_purgatory.pipeline.traces.schema import COMPLETED, EXPIRED, OUTCOMES, require

#: Quantiles of the waiting times, by the name of their column.
QUANTILES: Mapping[str, float] = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

#: A quantile's rank is wrong by at most 1/accuracy: p99.9 is between p99.899 and p99.901.
_ACCURACY = 100_000

#: Maximum number of bins in a timeline.
MAX_BINS = 250

#: Bins of the waiting-time histogram in each factor of ten.
BINS_PER_DECADE = 20

#: Shorter waits are in this one's bin: it is the resolution of traces.
_SHORTEST_MS = 0.001


def union(tables: list[DataFrame]) -> DataFrame:
    """Return the rows of all tables, which have the same column names."""
    return reduce(DataFrame.unionByName, tables)


def _expired() -> Column:
    return F.count_if(F.col("outcome") == EXPIRED)


def summarize_outcomes(outcomes: DataFrame) -> DataFrame:
    """Summarize the outcomes of all requests, of each request type and of each host.

    Args:
        outcomes: Rows of `schema.OUTCOMES`.

    Returns:
        `dimension` (all, request_type or host), `value`, `requests`, `completed`, `expired`,
        `expired_share`, and of the waiting times `mean_ms`, the columns of `QUANTILES`, `max_ms`.
    """

    def group(dimension: str, value: Column) -> DataFrame:
        return outcomes.groupBy(F.lit(dimension).alias("dimension"), value.alias("value")).agg(
            F.count("*").alias("requests"),
            F.count_if(F.col("outcome") == COMPLETED).alias("completed"),
            _expired().alias("expired"),
            (_expired() / F.count("*")).alias("expired_share"),
            F.avg("waited_ms").alias("mean_ms"),
            F.percentile_approx("waited_ms", list(QUANTILES.values()), _ACCURACY).alias(
                "quantiles"
            ),
            F.max("waited_ms").alias("max_ms"),
        )

    groups = [
        group("all", F.lit("")),
        group("request_type", F.col("request_type")),
        group("host", F.col("host")),
    ]
    columns = [F.col("quantiles")[index].alias(name) for index, name in enumerate(QUANTILES)]
    return union(groups).select("*", *columns).drop("quantiles")


def histogram_waits(outcomes: DataFrame) -> DataFrame:
    """Count waiting times in bins of equal width on a log scale.

    Args:
        outcomes: Rows of `schema.OUTCOMES`.

    Returns:
        `bin`, `from_ms` (the bin's lower end), `completed`, `expired`, ascending. Bin i begins at
        10**(i/20) ms; waits below a microsecond are in the bin of one microsecond.
    """
    number = F.floor(F.log10(F.greatest("waited_ms", F.lit(_SHORTEST_MS))) * BINS_PER_DECADE)
    return (
        outcomes
        .groupBy(number.alias("bin"))
        .agg(
            F.pow(F.lit(10.0), number / BINS_PER_DECADE).alias("from_ms"),
            F.count_if(F.col("outcome") == COMPLETED).alias("completed"),
            _expired().alias("expired"),
        )
        .orderBy("bin")
    )


def bin_width_us(span_us: int) -> int:
    """Choose a round width such that at most `MAX_BINS` bins cover a span of time.

    Args:
        span_us: The span's length in microseconds.

    Returns:
        The width in microseconds, at least a millisecond.
    """
    width = 1
    for candidate in _round_widths_us():
        width = candidate
        if span_us // width < MAX_BINS:
            break
    return width


def _round_widths_us() -> list[int]:
    below_a_minute = [digit * 10**power for power in range(3, 8) for digit in (1, 2, 5)]
    above = [minutes * 60_000_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)]
    widths = [width for width in below_a_minute if width < 60_000_000] + above
    return widths + [1440 * 60_000_000 * 2**power for power in range(1, 20)]


def timeline(outcomes: DataFrame, first_us: int, last_us: int, bin_us: int) -> DataFrame:
    """Count arrivals, ends and pending requests over time.

    Args:
        outcomes: Rows of `schema.OUTCOMES`.
        first_us: The first arrival, in microseconds since the epoch.
        last_us: The last end, in microseconds since the epoch.
        bin_us: The bins' width in microseconds; bins begin at whole multiples of it.

    Returns:
        A row for each bin, empty ones too: `from_at`, `arrived`, `ended`, `expired` (of the
        requests that arrived in the bin) and `pending` (at the bin's end).
    """
    first, last = first_us // bin_us, last_us // bin_us
    bins = outcomes.sparkSession.range(first, last + 1).withColumnRenamed("id", "bin")

    def bin_of(column: str) -> Column:
        # In whole numbers: a quotient of doubles may round up to the next bin.
        return F.expr(
            f"(unix_micros({column}) - pmod(unix_micros({column}), {bin_us})) div {bin_us}"
        ).alias("bin")

    arrivals = outcomes.groupBy(bin_of("arrived_at")).agg(
        F.count("*").alias("arrived"), _expired().alias("expired")
    )
    ends = outcomes.groupBy(bin_of("ended_at")).agg(F.count("*").alias("ended"))
    joined = bins.join(arrivals, "bin", "left").join(ends, "bin", "left").fillna(0)
    # One partition is enough: there are at most a few hundred bins.
    so_far = Window.orderBy("bin").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return joined.select(
        F.timestamp_micros(F.col("bin") * bin_us).alias("from_at"),
        "arrived",
        "ended",
        "expired",
        (F.sum("arrived").over(so_far) - F.sum("ended").over(so_far)).alias("pending"),
    ).orderBy("from_at")


def compare_marks(outcomes: DataFrame, marks: list[Mark]) -> DataFrame:
    """Compute the expired share of the requests that arrived before and after each mark.

    Args:
        outcomes: Rows of `schema.OUTCOMES`.
        marks: At least one.

    Returns:
        `label`, `at`, `side` (before or after; a request that arrives at the mark is after it),
        `requests`, `expired`, `expired_share`.
    """

    def sides(mark: Mark) -> DataFrame:
        side = F.when(F.col("arrived_at") < F.lit(mark.at), "before").otherwise("after")
        return outcomes.groupBy(
            F.lit(mark.label).alias("label"), F.lit(mark.at).alias("at"), side.alias("side")
        ).agg(
            F.count("*").alias("requests"),
            _expired().alias("expired"),
            (_expired() / F.count("*")).alias("expired_share"),
        )

    return union([sides(mark) for mark in marks]).orderBy("at", F.desc("side"))


def compare_outcomes(spark: SparkSession, outcomes: DataFrame, replay: ReplayFolder) -> DataFrame:
    """Compare a replay's outcomes with the batch outcomes, request by request.

    Args:
        spark: The session.
        outcomes: The batch outcomes, rows of `schema.OUTCOMES`.
        replay: A replay of the same trace.

    Returns:
        One row: `design` (the replay's name), `rows` (in either table), `differing` (rows that are
        not equal in both, or missing in one), `example` (host and id of one of these, or null).
    """
    replayed = require(replay.table(spark, "outcomes"), OUTCOMES, f"{replay.path}/outcomes")
    return compare_replayed(outcomes, replayed, replay.name)


def compare_replayed(outcomes: DataFrame, replayed: DataFrame, name: str) -> DataFrame:
    """Compare two tables of outcomes, as `compare_outcomes` does.

    Args:
        outcomes: The batch outcomes, rows of `schema.OUTCOMES`.
        replayed: The outcomes of a replay, with further columns or without.
        name: The replay's name.

    Returns:
        One row, as of `compare_outcomes`.
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


def summarize_lateness(spark: SparkSession, replay: ReplayFolder) -> DataFrame:
    """Summarize how long after their deadlines a replay's requests expired.

    Args:
        spark: The session.
        replay: The replay.

    Returns:
        One row: `design` (the replay's name), `expired`, and of the lateness on the replay's
        virtual clock `mean_ms`, `p50_ms`, `p99_ms`, `max_ms`.
    """
    outcomes = replay.table(spark, "outcomes").where(F.col("late_ms").isNotNull())
    return outcomes.agg(
        F.lit(replay.name).alias("design"),
        F.count("*").alias("expired"),
        F.avg("late_ms").alias("mean_ms"),
        F.percentile_approx("late_ms", 0.5, _ACCURACY).alias("p50_ms"),
        F.percentile_approx("late_ms", 0.99, _ACCURACY).alias("p99_ms"),
        F.max("late_ms").alias("max_ms"),
    )
