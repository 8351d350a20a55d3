"""Analysis of a trace small enough to count by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._analysis.aggregates import count_outcomes, timeline
from purgatory_spark._analysis.agreement import compare_replays
from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.analysis_folder import Analysis
from purgatory_spark._analysis.replay_folder import ReplayFolder
from purgatory_spark._analysis.time_bins import MAX_BINS, TimeBins, bin_width_us
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._output_folder import write_json
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.small_analyses import new_folder, replay_and_analyze, write_trace

#: Five requests: satisfied after 1, 2 and 4 ms, at once (threshold 0), and never. Timeout 3 ms.
REQUESTS = [
    TraceRequest("one", 0, 3, ["a"], "count", 1.0, "all"),
    TraceRequest("two", 1000, 3, ["b"], "sum", 4.0, "all"),
    TraceRequest("four", 1500, 3, ["c"], "count", 1.0, "all"),
    TraceRequest("now", 2000, 3, ["a"], "max", 0.0, "any"),
    TraceRequest("never", 2500, 3, ["d"], "count", 1.0, "any"),
]
EVENTS = [
    TraceEvent("a", 1000, 1.0),
    TraceEvent("b", 2000, 3.0),
    TraceEvent("b", 3000, 1.0),
    TraceEvent("c", 5500, 1.0),
]


@pytest.fixture(scope="module")
def analysis(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Analyze the five requests."""
    folder = tmp_path_factory.mktemp("analysis")
    return replay_and_analyze(spark, write_trace(folder / "trace", REQUESTS, EVENTS), folder)


def test_summary_counts_and_quantiles(analysis: Analysis) -> None:
    summary = {(row["dimension"], row["value"]): row for row in analysis.rows("summary")}
    overall = summary["all", ""]
    assert (overall["requests"], overall["completed"], overall["expired"]) == (5, 3, 2)
    assert overall["expired_share"] == 0.4
    assert overall["mean_ms"] == pytest.approx(1.8)
    assert (overall["p50_ms"], overall["p90_ms"], overall["max_ms"]) == (2.0, 3.0, 3.0)
    # Without the timeout they would be 0, 1, 2, 4 ms, and forever.
    assert (overall["uncut_p50_ms"], overall["uncut_p90_ms"]) == (2.0, None)
    by_type = {
        value: row["expired"]
        for (dimension, value), row in summary.items()
        if dimension == "request_type"
    }
    assert by_type == {"count": 2, "sum": 0, "max": 0}
    assert summary["host", "h"]["requests"] == 5
    assert analysis.rows("summary", dimension="all") == [overall]


def test_outcomes_have_the_time_at_which_each_condition_holds(
    spark: SparkSession, analysis: Analysis
) -> None:
    satisfied = analysis.table(spark, "outcomes").select(
        "request_id", F.unix_micros("satisfied_at").alias("us")
    )
    assert {row["request_id"]: row["us"] for row in satisfied.collect()} == {
        "one": 1000,
        "two": 3000,
        "four": 5500,
        "now": 2000,
        "never": None,
    }


def test_waits_are_counted_in_their_bins(analysis: Analysis) -> None:
    columns = ("completed", "expired", "satisfied_late")
    waits = {row["bin"]: tuple(row[name] for name in columns) for row in analysis.rows("waits")}
    # The one whose condition held after 4 ms had expired before.
    assert waits == {-60: (1, 0, 0), 0: (1, 0, 0), 6: (1, 0, 0), 9: (0, 2, 0), 12: (0, 0, 1)}


def test_timeline_counts_pending_at_the_end_of_each_bin(analysis: Analysis) -> None:
    found = [
        (row["arrived"], row["expired"], row["ended"], row["pending"])
        for row in analysis.rows("timeline")
    ]
    assert found == [
        (1, 0, 0, 1),
        (2, 1, 1, 2),
        (2, 1, 1, 3),
        (0, 0, 1, 2),
        (0, 0, 1, 1),
        (0, 0, 1, 0),
    ]


def test_timeline_has_a_row_for_each_empty_bin(spark: SparkSession, analysis: Analysis) -> None:
    outcomes = analysis.table(spark, "outcomes")
    bins = TimeBins.covering(0, 9_999)
    table = timeline(count_outcomes(outcomes, bins, []), outcomes, bins).collect()
    assert [row["pending"] for row in table] == [1, 2, 3, 2, 1, 0, 0, 0, 0, 0]
    # The peak of a bin may be that of the bin before, which it begins with.
    assert [row["peak_pending"] for row in table] == [1, 2, 3, 3, 2, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    "span_us", [0, 1, 999, 250_000, 47_123_456, 3_600_000_000, 10**12, 10**15, 10**17]
)
def test_bin_width_suits_the_span(span_us: int) -> None:
    width = bin_width_us(span_us)
    assert span_us // width < MAX_BINS
    assert width == 1000 or span_us // width >= MAX_BINS // 12


def test_marks_split_by_arrival(analysis: Analysis) -> None:
    marks = {
        (row["dimension"], row["value"], row["side"]): (row["requests"], row["expired"])
        for row in analysis.rows("marks")
    }
    assert (marks["all", "", "before"], marks["all", "", "after"]) == ((3, 1), (2, 1))
    assert (marks["host", "h", "before"], marks["host", "h", "after"]) == ((3, 1), (2, 1))
    assert marks["request_type", "max", "after"] == (1, 0)
    (before, after) = analysis.rows("marks", dimension="all")
    assert [(side["p50_ms"], side["p99_ms"]) for side in (before, after)] == [(2, 3), (0, 3)]


def test_what_if_has_the_given_timeouts(analysis: Analysis) -> None:
    expired = {row["timeout_ms"]: row["expired"] for row in analysis.rows("what_if")}
    assert expired == {1: 3, 3: 2, 1000: 1}


def test_both_designs_agree_and_are_late_by_less_than_a_tick(analysis: Analysis) -> None:
    agreement = {
        row["design"]: (row["rows"], row["differing"]) for row in analysis.rows("agreement")
    }
    assert agreement == {"wheel": (5, 0), "legacy": (5, 0)}
    lateness = {
        row["design"]: (row["expired"], row["mean_ms"], row["max_ms"])
        for row in analysis.rows("lateness")
    }
    assert lateness == {"wheel": (2, 0.5, 0.5), "legacy": (2, 0.5, 0.5)}


def test_compare_outcomes_names_a_row_that_differs(
    spark: SparkSession, analysis: Analysis, tmp_path: Path
) -> None:
    outcomes = analysis.table(spark, "outcomes")
    tampered = outcomes.drop("satisfied_at").withColumn(
        "waited_ms", F.when(F.col("request_id") == "two", 2.5).otherwise(F.col("waited_ms"))
    )
    tampered.where("request_id != 'never'").write.parquet(str(tmp_path / "outcomes"))
    write_json(tmp_path / "replay.json", {"design": "wheel"})
    tampered_with = ReplayFolder(tmp_path)
    intact = ReplayFolder(analysis.path.parent / "replays" / "legacy")
    rows = compare_replays(spark, outcomes, [tampered_with, intact]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("wheel", 5, 2, "h never"),
        ("legacy", 5, 0, None),
    ]


def test_trace_without_requests_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace", [], [])
    with pytest.raises(TraceFormatError, match="the trace has no requests"):
        analyze(spark, trace, [], new_folder(tmp_path / "analysis"))


def test_folders_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        TraceFormatError,
        match=r"is not an analysis folder \(no analysis\.json in it\); "
        "make one with `purgatory analyze`",
    ):
        Analysis(tmp_path).manifest  # noqa: B018
    with pytest.raises(
        TraceFormatError,
        match=r"is not a replay folder \(no replay\.json in it\); make one with `purgatory replay`",
    ):
        ReplayFolder(tmp_path).settings  # noqa: B018
    (tmp_path / "waits").mkdir()
    (tmp_path / "waits" / "part.parquet").write_bytes(b"PAR1 is not all of it")
    for table in ("waits", "marks"):
        with pytest.raises(TraceFormatError, match=rf"/{table}: can't be read as Parquet \("):
            Analysis(tmp_path).rows(table)


def test_replay_folder_has_clean_tables(analysis: Analysis) -> None:
    replayed = analysis.path.parent / "replays" / "wheel"
    outcomes, hosts = (pq.read_table(replayed / name) for name in ("outcomes", "hosts"))
    assert outcomes.column_names[-1] == "late_ms"
    assert (outcomes.num_rows, hosts.num_rows) == (5, 1)
    assert "stats" not in outcomes.column_names
    assert hosts["requests"].to_pylist() == [5]


def test_tables_are_opened_without_a_spark_job(spark: SparkSession, analysis: Analysis) -> None:
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    started = scheduler.numTotalJobs()
    schemas = {name: analysis.table(spark, name).schema for name in ("outcomes", "hosts", "marks")}
    assert scheduler.numTotalJobs() == started
    for name, schema in schemas.items():
        assert schema == spark.read.parquet(str(analysis.path / name)).schema
    assert scheduler.numTotalJobs() > started
