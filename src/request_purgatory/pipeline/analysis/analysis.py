"""Analyze a trace: compute its outcomes, and the tables that the report shows, on Spark."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.pipeline.analysis.aggregates import (
    bin_width_us,
    compare_marks,
    compare_outcomes,
    histogram_waits,
    summarize_lateness,
    summarize_outcomes,
    timeline,
    union,
)
from request_purgatory.pipeline.analysis.replay_folder import ReplayFolder, label_replays
from request_purgatory.pipeline.analysis.what_if import suggest_timeouts, what_if
from request_purgatory.pipeline.outcomes.batch import trace_satisfactions
from request_purgatory.pipeline.outcomes.results import (
    outcomes_of,
    reject_counts,
    require_no_rejects,
)
from request_purgatory.pipeline.output_folder import write_json
from request_purgatory.pipeline.spark.host_sizes import (
    MAX_WORKER_MB,
    parts_of_hosts,
)
from request_purgatory.pipeline.spark.memory import bytes_per_pending_operation
from request_purgatory.pipeline.spark.workers import require_workers
from request_purgatory.pipeline.traces.importers.imported_trace import TraceFormatError
from request_purgatory.pipeline.traces.importers.table_files import (
    read_spark_table,
    write_spark_table,
)
from request_purgatory.pipeline.traces.trace_folder import TraceFolder, read_manifest

_MANIFEST = "analysis.json"
#: The small tables of an analysis. `marks` needs a trace with marks; `agreement`, `lateness` and
#: `hosts` need replays.
TABLES = ("summary", "waits", "timeline", "marks", "lateness", "hosts", "agreement", "what_if")


@dataclass(frozen=True)
class Analysis:
    """An analysis on disk.

    The folder has Parquet tables, `outcomes/` with a row for each request and the small `TABLES`,
    and the analysis' parameters in `analysis.json`.

    Attributes:
        path: The folder.
    """

    path: Path

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """The trace's manifest, the replays' settings and the analysis' parameters.

        Raises:
            TraceFormatError: The folder is not an analysis folder.
        """
        return read_manifest(
            self.path, "an analysis folder", _MANIFEST, "make one with `purgatory analyze`"
        )

    def table(self, spark: SparkSession, name: str) -> DataFrame:
        """Return one of `TABLES`, or `outcomes`."""
        return read_spark_table(spark, self.path / name)

    def rows(self, name: str, **where: str) -> list[dict[str, Any]]:
        """Read rows of a table into memory, without a Spark job.

        `summary` and `hosts` have a row for each host, so select rows of them with `where`.

        Args:
            name: One of `TABLES`.
            where: Columns, and the value that each must have.

        Returns:
            The rows in the order in which they were written. Times are in UTC.

        Raises:
            TraceFormatError: The table is missing, or damaged.
        """
        folder = self.path / name
        filters = [(column, "=", value) for column, value in where.items()] or None
        try:
            table = pq.read_table(folder, filters=filters, partitioning=None)
        except (OSError, ValueError) as error:
            raise TraceFormatError(f"{folder}: can't be read as Parquet ({error})") from error
        rows: list[dict[str, Any]] = table.to_pylist()
        return rows


def analyze(
    spark: SparkSession,
    trace: TraceFolder,
    replays: list[ReplayFolder],
    target: Path,
    timeouts: list[int] | None = None,
    max_worker_mb: int = MAX_WORKER_MB,
) -> Analysis:
    """Compute a trace's outcomes and their aggregates, and write an analysis folder.

    Args:
        spark: The session.
        trace: The trace.
        replays: Replays of this trace. Their outcomes are compared with the computed ones.
        target: An empty folder.
        timeouts: Timeouts in ms for what-if, besides the trace's shortest and longest one;
            `suggest_timeouts` chooses if None.
        max_worker_mb: Memory limit for one host in a Python worker. A host that needs more is
            split by watch key, and by time for what-if.

    Returns:
        The folder.

    Raises:
        TraceFormatError: The trace has no requests, or rows that break a rule.
        HostTooLargeError: A host is too large and can't be split.
    """
    trace.require_requests()
    replays = label_replays(replays)
    require_workers(spark, target)
    requests, events = trace.requests(spark), trace.events(spark)
    parts = parts_of_hosts(requests, events, max_worker_mb)
    folder = target / "outcomes"
    rejects = Observation()
    results = trace_satisfactions(spark, trace.path, parts=parts)
    results = results.observe(rejects, *reject_counts())
    write_spark_table(outcomes_of(results), folder)
    require_no_rejects(rejects.get, str(trace.path))
    outcomes = read_spark_table(spark, folder).persist()
    mean_keys, shortest_ms, longest_ms = _single_row(
        requests.agg(F.avg(F.size("watch_keys")), F.min("timeout_ms"), F.max("timeout_ms"))
    )
    keys_per_request = max(1, round(mean_keys))  # A whole number, to be measured below.
    bytes_per_operation = bytes_per_pending_operation(keys_per_request)
    timeouts_ms = sorted({*(timeouts or suggest_timeouts(outcomes)), shortest_ms, longest_ms})
    first_us, last_us = _single_row(
        outcomes.agg(F.min(F.unix_micros("arrived_at")), F.max(F.unix_micros("ended_at")))
    )
    bin_us = bin_width_us(last_us - first_us)
    tables: dict[str, DataFrame] = {
        "summary": summarize_outcomes(outcomes),
        "waits": histogram_waits(outcomes),
        "timeline": timeline(outcomes, first_us, last_us, bin_us),
        "what_if": what_if(outcomes, timeouts_ms, bytes_per_operation, parts=parts),
    }
    if trace.marks:
        tables["marks"] = compare_marks(outcomes, trace.marks)
    if replays:
        tables |= _replay_tables(spark, outcomes, replays)
    for name, table in tables.items():
        write_spark_table(table.coalesce(1), target / name)
    outcomes.unpersist()
    write_json(
        target / _MANIFEST,
        {
            "trace": trace.manifest,
            "replays": [replay.settings | {"label": replay.name} for replay in replays],
            "timeouts_ms": timeouts_ms,
            "timeout_ms": [shortest_ms, longest_ms],
            "bin_ms": bin_us / 1000,
            "keys_per_request": keys_per_request,
            "bytes_per_operation": bytes_per_operation,
            "tables": sorted(tables),
        },
    )
    return Analysis(target)


def _single_row(table: DataFrame) -> Row:
    row = table.first()
    assert row is not None
    return row


def _replay_tables(
    spark: SparkSession, outcomes: DataFrame, replays: list[ReplayFolder]
) -> dict[str, DataFrame]:
    hosts = [
        replay.table(spark, "hosts").withColumn("design", F.lit(replay.name)) for replay in replays
    ]
    return {
        "agreement": union([compare_outcomes(spark, outcomes, replay) for replay in replays]),
        "lateness": union([summarize_lateness(spark, replay) for replay in replays]),
        "hosts": union(hosts),
    }
