"""Analyze a trace: compute its outcomes, and the tables that the report shows, on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis import aggregates
from purgatory_spark._analysis.agreement import compare_replays, summarize_lateness
from purgatory_spark._analysis.analysis_folder import MANIFEST, Analysis
from purgatory_spark._analysis.answer_times import NO_BUCKETS, AnswerTimes
from purgatory_spark._analysis.contributors import find_contributors
from purgatory_spark._analysis.cut_off import find_cut_off, timeouts_in_use
from purgatory_spark._analysis.replay_folder import ReplayFolder, label_replays
from purgatory_spark._analysis.time_bins import TimeBins
from purgatory_spark._analysis.timeout_trials import SUGGESTED_QUANTILES, timeouts_for
from purgatory_spark._analysis.what_if import what_if
from purgatory_spark._outcomes.batch import trace_satisfactions
from purgatory_spark._outcomes.results import outcomes_of, reject_counts, require_no_rejects
from purgatory_spark._output_folder import write_json
from purgatory_spark._rows.host_sizes import MAX_WORKER_MB
from purgatory_spark._spark.concurrent_jobs import concurrent_jobs
from purgatory_spark._spark.job_names import names_jobs
from purgatory_spark._spark.memory import bytes_per_pending_operation
from purgatory_spark._spark.session import is_small, session_for
from purgatory_spark._spark.spark_tables import read_spark_table, write_spark_table
from purgatory_spark._spark.workers import require_workers
from purgatory_spark._traces.trace_folder import TraceFolder

#: The timeline begins and ends at most `_REACH` times as far away as this share of arrivals before,
#: and of ends after, are apart.
_MOST = 0.95
_REACH = 2


@names_jobs("analyze a trace")
def analyze(
    spark: SparkSession,
    trace: TraceFolder,
    replays: Iterable[ReplayFolder],
    target: Path,
    timeouts: list[int] | None = None,
    max_worker_mb: int = MAX_WORKER_MB,
) -> Analysis:
    """Compute a trace's outcomes and their aggregates, and write an analysis folder.

    Args:
        spark: The session.
        trace: The trace.
        replays: Replays of this trace. Their outcomes are compared with the computed ones. They
            are taken in a thread, so a generator can make them while outcomes are computed.
        target: An empty folder.
        timeouts: Timeouts in ms for what-if, besides the trace's shortest and longest one;
            `timeouts_for` chooses if None.
        max_worker_mb: Memory limit for one host in a Python worker. A host that needs more is
            split by watch key, and by time for what-if.

    Returns:
        The folder.

    Raises:
        TraceFormatError: The trace has no requests, or rows that break a rule.
        HostTooLargeError: A host is too large and can't be split.
    """
    trace.require_requests()
    require_workers(spark, target)
    with session_for(spark, trace.row_count) as own:
        return _analyze(own, trace, replays, target, timeouts, max_worker_mb)


def _analyze(
    spark: SparkSession,
    trace: TraceFolder,
    replays: Iterable[ReplayFolder],
    target: Path,
    timeouts: list[int] | None,
    max_worker_mb: int,
) -> Analysis:
    sizes = trace.sizes(spark, max_worker_mb)
    parts, in_use = sizes.parts, timeouts_in_use(trace.manifest["parameters"], sizes.timeouts_ms)
    keys_per_request = max(1, round(sizes.mean_keys))  # A whole number, to be measured below.
    # Before there are other threads, whose memory would count.
    bytes_per_operation = bytes_per_pending_operation(keys_per_request)
    folder = target / "outcomes"
    written = Observation()
    results = trace_satisfactions(spark, trace.path, parts=parts, are_few=is_small(trace.row_count))
    results = results.observe(written, *reject_counts(), *_span())
    # One more step than usual: the replays.
    with concurrent_jobs(spark, at_once=3) as start:
        names = {"answers"}

        def write(name: str, table: DataFrame) -> Future[None]:
            names.add(name)
            return start(write_spark_table, table.coalesce(1), target / name)

        replaying: Future[list[ReplayFolder]] = start(list, replays)
        write_spark_table(outcomes_of(results), folder)
        require_no_rejects(written.get, str(trace.path))
        outcomes = read_spark_table(spark, folder)
        bins = TimeBins.covering(*_timeline_span(written.get))
        counts = aggregates.count_outcomes(outcomes, bins, trace.marks).persist()
        answers = aggregates.count_answers(counts).toArrow().sort_by("bucket")
        _write_small(answers, target / "answers")
        times = AnswerTimes.of(answers.to_pylist())
        cut_off = find_cut_off(times, in_use)
        suspected = NO_BUCKETS if cut_off is None else cut_off.buckets
        suggested = timeouts or timeouts_for(times.quantiles_ms(SUGGESTED_QUANTILES))
        timeouts_ms = sorted({*suggested, *in_use} | ({cut_off.at_ms} if cut_off else set()))
        # Its groups are ranked by several tasks, and written by one.
        summary = aggregates.summarize_outcomes(counts, suspected).repartition(1)
        compared = [write("summary", summary)]
        if trace.marks:
            marks = aggregates.compare_marks(counts, trace.marks, suspected)
            compared.append(write("marks", marks))
        write("timeline", aggregates.timeline(counts, outcomes, bins))
        write("what_if", what_if(outcomes, timeouts_ms, bytes_per_operation, parts=parts))
        write("waits", aggregates.histogram_waits(counts))
        for step in compared:
            step.result()
        write("contributors", _contributors(spark, target, has_marks=bool(trace.marks)))
        replayed = label_replays(replaying.result())
        if replayed:
            names.add("agreement")
            start(_write_agreement, spark, outcomes, replayed, target / "agreement")
        for name, table in _replay_tables(spark, replayed).items():
            write(name, table)
    counts.unpersist()
    write_json(
        target / MANIFEST,
        {
            "trace": trace.manifest,
            "replays": [replay.settings | {"label": replay.name} for replay in replayed],
            "timeouts_ms": timeouts_ms,
            "timeout_ms": in_use,
            "bin_ms": bins.width_us / 1000,
            "arrivals_us": [written.get["first_us"], written.get["last_arrival_us"]],
            "keys_per_request": keys_per_request,
            "bytes_per_operation": bytes_per_operation,
            "tables": sorted(names),
        },
    )
    return Analysis(target)


def _contributors(spark: SparkSession, target: Path, *, has_marks: bool) -> DataFrame:
    """Find them in the tables as they were written, which are small."""
    summary = read_spark_table(spark, target / "summary")
    return find_contributors(
        summary, read_spark_table(spark, target / "marks") if has_marks else None
    )


def _write_agreement(
    spark: SparkSession, outcomes: DataFrame, replays: list[ReplayFolder], folder: Path
) -> None:
    _write_small(compare_replays(spark, outcomes, replays), folder)


def _write_small(table: pa.Table, folder: Path) -> None:
    folder.mkdir()
    pq.write_table(table, folder / "part-0.parquet")


def _span() -> list[Column]:
    """Return what `_timeline_span` needs to be observed of outcomes."""
    arrived_us, ended_us = F.unix_micros("arrived_at"), F.unix_micros("ended_at")
    return [
        F.min(arrived_us).alias("first_us"),
        F.max(arrived_us).alias("last_arrival_us"),
        F.max(ended_us).alias("last_us"),
        # Each task sends its digest to the driver; those of this accuracy are of about 2 kB.
        F.percentile_approx(arrived_us, 1 - _MOST, 100).alias("most_from_us"),
        F.percentile_approx(ended_us, _MOST, 100).alias("most_to_us"),
    ]


def _timeline_span(observed: Mapping[str, int]) -> tuple[int, int]:
    """Return the first and last microsecond of the timeline.

    It is the whole trace, but for what is so far from most requests that the picture would have
    nothing else to show.
    """
    most_from_us, most_to_us = observed["most_from_us"], observed["most_to_us"]
    reach_us = _REACH * max(0, most_to_us - most_from_us)
    first_us = max(observed["first_us"], most_from_us - reach_us)
    return first_us, max(first_us, min(observed["last_us"], most_to_us + reach_us))


def _replay_tables(spark: SparkSession, replays: list[ReplayFolder]) -> dict[str, DataFrame]:
    if not replays:
        return {}
    hosts = [
        replay.table(spark, "hosts").withColumn("design", F.lit(replay.name)) for replay in replays
    ]
    return {
        "lateness": summarize_lateness(spark, replays),
        "hosts": reduce(DataFrame.unionByName, hosts),
    }
