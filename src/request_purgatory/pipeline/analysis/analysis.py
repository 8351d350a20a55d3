"""Analysis of a trace's outcomes.

Rates, quantiles, pending over time, lateness, agreement, what-if. All of it on Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.analysis.what_if import suggest_timeouts, what_if
from request_purgatory.pipeline.outcomes.batch import satisfactions
from request_purgatory.pipeline.outcomes.replay import HOSTS
from request_purgatory.pipeline.spark.host_sizes import (
    MAX_WORKER_MB,
    WHAT_IF,
    parts_of_hosts,
    require_hosts_fit,
)
from request_purgatory.pipeline.spark.memory import bytes_per_pending_operation
from request_purgatory.pipeline.spark.workers import require_workers
from request_purgatory.pipeline.traces.importers.delimited import read_written, written_path
from request_purgatory.pipeline.traces.importers.imported import TraceFormatError
from request_purgatory.pipeline.traces.output_folder import write_json
from request_purgatory.pipeline.traces.schema import COMPLETED, EXPIRED, OUTCOMES, require
from request_purgatory.pipeline.traces.trace_folder import Mark, Trace, read_manifest

#: Quantiles of the waiting times, by the name of their column.
QUANTILES: Mapping[str, float] = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

#: 1/accuracy is the error of a quantile's rank: p99.9 is somewhere between p99.899 and p99.901.
_ACCURACY = 100_000

#: At most this many points in time are shown.
MAX_BINS = 250

#: Bins of the waiting-time histogram to a factor of ten.
BINS_PER_DECADE = 20

#: Waits below this are shown with it: the trace's own resolution.
_SHORTEST_MS = 0.001

_MANIFEST = "analysis.json"
TABLES = ("summary", "waits", "timeline", "marks", "lateness", "hosts", "agreement", "what_if")


@dataclass(frozen=True)
class Analysis:
    """An analysis folder: `outcomes/`, a row a request, and the small `TABLES`, in Parquet.

    And `analysis.json`.
    """

    path: Path

    @property
    def manifest(self) -> dict[str, Any]:
        """The trace's manifest, the replays' settings and the analysis' parameters.

        Raises:
            TraceFormatError: the folder is not an analysis.
        """
        return read_manifest(
            self.path, "analysis folder", _MANIFEST, "make one with `purgatory analyze`"
        )

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """One of `TABLES`, or `outcomes`."""
        return read_written(spark, self.path / name)

    def rows(self, name: str, **where: str) -> list[dict[str, Any]]:
        """Read one of `TABLES` at once, without a Spark job: only what does not grow with the hosts.

        Args:
            name: The table. `summary` and `hosts` have a row a host; of them, choose by `where`.
            where: Columns, and the value that each must have.

        Returns:
            The rows in the order in which they were written. Times are in UTC.

        Raises:
            TraceFormatError: The table is missing, or damaged.
        """
        folder = self.path / name
        chosen = [(column, "=", value) for column, value in where.items()] or None
        try:
            table = pq.read_table(folder, filters=chosen, partitioning=None)
        except (OSError, ValueError) as error:
            raise TraceFormatError(f"{folder}: can't be read as Parquet ({error})") from error
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


@dataclass(frozen=True)
class Replayed:
    """A replay folder: `outcomes/` with `late_ms`, and `hosts/`, in Parquet; and `replay.json`, its settings.

    Attributes:
        path: the folder.
        label: what an analysis calls it, unless its design says enough.
    """

    path: Path
    label: str | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """The purgatory's settings; TraceFormatError if the folder is no replay."""
        return read_manifest(
            self.path, "replay folder", "replay.json", "make one with `purgatory replay`"
        )

    @property
    def design(self) -> str:
        """Which purgatory it was: the label, or else the design of its settings."""
        return self.label or str(self.settings["design"])

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """`outcomes` or `hosts`."""
        return read_written(spark, self.path / name)


def tell_apart(replays: list[Replayed]) -> list[Replayed]:
    """The replays with labels, where there are more than one of a design.

    What they differ in, or else their number.
    """
    names: list[str] = []
    labelled = []
    for replayed in replays:
        settings = replayed.settings
        alike = [
            other.settings for other in replays if other.settings["design"] == settings["design"]
        ]
        differing = [key for key in settings if any(other[key] != settings[key] for other in alike)]
        names.append(
            " ".join([settings["design"], *[f"{key}={settings[key]}" for key in differing]])
        )
        number = names.count(names[-1])
        labelled.append(
            Replayed(replayed.path, names[-1] if number == 1 else f"{names[-1]} #{number}")
        )
    return labelled


def analyze(
    spark: SparkSession,
    trace: Trace,
    replays: list[Replayed],
    target: Path,
    timeouts: list[int] | None = None,
    max_worker_mb: int = MAX_WORKER_MB,
) -> Analysis:
    """Compute a trace's outcomes, compare the replays with them, and write an analysis folder into `target`, which is empty.

    Args:
        replays: replays of this trace; their outcomes are compared row by row, their lateness and
            hosts are summed up.
        timeouts: for what-if, in ms; round steps over the span of the service times unless given.
        max_worker_mb: what a host may take in a Python worker; a larger one is cut by watch key.

    Raises:
        TraceFormatError: the trace has no requests.
        HostTooLargeError: a host is too large, and can't be cut.
    """
    trace.require_requests()
    replays = tell_apart(replays)
    require_workers(spark, target)
    requests, events = trace.requests(spark), trace.events(spark)
    parts = parts_of_hosts(requests, events, max_worker_mb)
    if parts:
        require_hosts_fit(requests, events, WHAT_IF, max_worker_mb)
    satisfactions(requests, events, parts=parts).write.parquet(written_path(target / "outcomes"))
    outcomes = read_written(spark, target / "outcomes").persist()
    facts = requests.agg(
        F.avg(F.size("watch_keys")), F.min("timeout_ms"), F.max("timeout_ms")
    ).first()
    assert facts is not None
    keys_per_request = max(1, round(facts[0]))  # a whole number, as it is to be measured
    bytes_per_operation = bytes_per_pending_operation(keys_per_request)
    chosen = sorted({*(timeouts or suggest_timeouts(outcomes)), facts[1], facts[2]})
    span = outcomes.agg(
        F.min(F.unix_micros("arrived_at")), F.max(F.unix_micros("ended_at"))
    ).first()
    assert span is not None
    bin_us = bin_width_us(span[1] - span[0])

    small: dict[str, DataFrame] = {
        "summary": summarize(outcomes),
        "waits": histogram_waits(outcomes),
        "timeline": timeline(outcomes, span[0], span[1], bin_us),
        "what_if": what_if(outcomes, chosen, bytes_per_operation),
    }
    if trace.marks:
        small["marks"] = compare_marks(outcomes, trace.marks)
    if replays:
        small["agreement"] = _union([compare(spark, outcomes, replayed) for replayed in replays])
        small["lateness"] = _union([lateness(spark, replayed) for replayed in replays])
        small["hosts"] = _union(
            [
                replayed.table(spark, "hosts").withColumn("design", F.lit(replayed.design))
                for replayed in replays
            ]
        )
    for name, table in small.items():
        table.coalesce(1).write.parquet(written_path(target / name))
    outcomes.unpersist()
    write_json(
        target / _MANIFEST,
        {
            "trace": trace.manifest,
            "replays": [replayed.settings | {"label": replayed.design} for replayed in replays],
            "timeouts_ms": chosen,
            "timeout_ms": [facts[1], facts[2]],
            "bin_ms": bin_us / 1000,
            "keys_per_request": keys_per_request,
            "bytes_per_operation": bytes_per_operation,
            "tables": sorted(small),
        },
    )
    return Analysis(target)


def _union(tables: list[DataFrame]) -> DataFrame:
    return reduce(DataFrame.unionByName, tables)


def _expired() -> Column:
    return F.count_if(F.col("outcome") == EXPIRED)


def summarize(outcomes: DataFrame) -> DataFrame:
    """Counts, shares and waiting times of all requests, of each type and of each host.

    Returns:
        `dimension` (all, request_type or host), `value`, `requests`, `completed`, `expired`,
        `expired_share`, `mean_ms`, the columns of `QUANTILES`, `max_ms`.
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
    return _union(groups).select("*", *columns).drop("quantiles")


def histogram_waits(outcomes: DataFrame) -> DataFrame:
    """The waiting times on a log scale: `bin`, `from_ms` (the bin's lower end), `completed`, `expired`.

    Bin i holds waits from 10**(i/20) ms on; those below a microsecond are in the bin of one.
    """
    number = F.floor(F.log10(F.greatest("waited_ms", F.lit(_SHORTEST_MS))) * BINS_PER_DECADE)
    return (
        outcomes.groupBy(number.alias("bin"))
        .agg(
            F.pow(F.lit(10.0), number / BINS_PER_DECADE).alias("from_ms"),
            F.count_if(F.col("outcome") == COMPLETED).alias("completed"),
            _expired().alias("expired"),
        )
        .orderBy("bin")
    )


def bin_width_us(span_us: int) -> int:
    """A round width for bins of time, in microseconds, of which at most `MAX_BINS` cover the span."""
    width = 1
    for factor in _round_factors():
        width = factor
        if span_us // width < MAX_BINS:
            break
    return width


def _round_factors() -> list[int]:
    below_a_minute = [digit * 10**power for power in range(3, 8) for digit in (1, 2, 5)]
    above = [minutes * 60_000_000 for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1440)]
    factors = [width for width in below_a_minute if width < 60_000_000] + above
    return factors + [1440 * 60_000_000 * 2**power for power in range(1, 20)]


def timeline(outcomes: DataFrame, first_us: int, last_us: int, bin_us: int) -> DataFrame:
    """What happened over time, in bins that begin at whole multiples of their width.

    Returns:
        A row a bin, empty ones too: `from_at`, `arrived`, `expired` (of those that arrived in it),
            `ended`, `pending` (at
        the bin's end).
    """
    first, last = first_us // bin_us, last_us // bin_us
    bins = outcomes.sparkSession.range(first, last + 1).withColumnRenamed("id", "bin")

    def number(column: str) -> Column:
        # In whole numbers: a quotient of doubles may round up to the next bin.
        return F.expr(
            f"(unix_micros({column}) - pmod(unix_micros({column}), {bin_us})) div {bin_us}"
        ).alias("bin")

    arrivals = outcomes.groupBy(number("arrived_at")).agg(
        F.count("*").alias("arrived"), _expired().alias("expired")
    )
    ends = outcomes.groupBy(number("ended_at")).agg(F.count("*").alias("ended"))
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
    """The expired share before and after each mark, by arrival.

    `label`, `at`, `side`, `requests`, `expired`, `expired_share`.
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

    return _union([sides(mark) for mark in marks]).orderBy("at", F.desc("side"))


def compare(spark: SparkSession, outcomes: DataFrame, replayed: Replayed) -> DataFrame:
    """Whether a replay ended every request as the batch computation did.

    Returns:
        One row: `design`, `rows` (of either), `differing` (rows that are not the same in both, or
            missing in one), `example` (the
        host and id of one of them, or null).
    """
    names = OUTCOMES.names
    theirs = require(replayed.table(spark, "outcomes"), OUTCOMES, f"{replayed.path}/outcomes")
    one = outcomes.select("host", "request_id", F.struct(*names).alias("batch"))
    other = theirs.select("host", "request_id", F.struct(*names).alias("replay"))
    differs = ~F.col("batch").eqNullSafe(F.col("replay"))
    return one.join(other, ["host", "request_id"], "full").agg(
        F.lit(replayed.design).alias("design"),
        F.count("*").alias("rows"),
        F.count_if(differs).alias("differing"),
        F.min(F.when(differs, F.concat_ws(" ", "host", "request_id"))).alias("example"),
    )


def lateness(spark: SparkSession, replayed: Replayed) -> DataFrame:
    """How long after their deadlines timeouts fired on the replay's clock.

    `design`, `expired`, and the ms of lateness.
    """
    outcomes = replayed.table(spark, "outcomes").where(F.col("late_ms").isNotNull())
    return outcomes.agg(
        F.lit(replayed.design).alias("design"),
        F.count("*").alias("expired"),
        F.avg("late_ms").alias("mean_ms"),
        F.percentile_approx("late_ms", 0.5, _ACCURACY).alias("p50_ms"),
        F.percentile_approx("late_ms", 0.99, _ACCURACY).alias("p99_ms"),
        F.max("late_ms").alias("max_ms"),
    )


def write_replay(replayed: DataFrame, settings: dict[str, Any], target: Path) -> Replayed:
    """Write what `replay.replay` gave as a replay folder into `target`, which exists and is empty."""
    from pyspark import StorageLevel

    require_workers(replayed.sparkSession, target)
    # The replay is run once, for both tables; its rows do not have to stay in memory for that.
    replayed = replayed.persist(StorageLevel.DISK_ONLY)
    outcomes = replayed.where(F.col("kind") == "outcomes").select(*OUTCOMES.names, "late_ms")
    outcomes.write.parquet(written_path(target / "outcomes"))
    hosts = replayed.where(F.col("kind") == "hosts").select("host", "stats.*")
    hosts.select("host", *HOSTS.names).write.parquet(written_path(target / "hosts"))
    replayed.unpersist()
    write_json(target / "replay.json", settings)
    return Replayed(target)
