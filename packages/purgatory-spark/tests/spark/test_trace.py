"""The entry for notebooks: `Trace`, and the results that Jupyter shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark import Mark, Trace
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._notebook.html import html_table
from purgatory_spark._notebook.replay_result import Replay
from purgatory_spark._output_folder import OutputExistsError, output_folder
from purgatory_spark._rows.host_sizes import BATCH, REPLAY, HostTooLargeError
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import REJECTS
from purgatory_spark._spark.session import small_partitions
from purgatory_spark._traces.trace_reader import ImportSettings
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import workload_trace
from request_purgatory.errors import InvalidArgumentError
from tests.spark.trace_folders import cached_tables, rows_of

#: Three calls that end in time, one that ends too late, one that never ends, one unusable row.
CALLS = [
    ("web", 1_000, 20.0),
    ("web", 1_010, 30.0),
    ("api", 1_020, 40.0),
    ("api", 1_030, 400.0),
    ("<b>", 1_040, None),
    ("api", None, 1.0),
]


@pytest.fixture(scope="module")
def calls(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(CALLS, "server string, start bigint, took double")


def trace_of(calls: DataFrame) -> Trace:
    return Trace.from_table(
        calls,
        name="calls <1>",
        host="server",
        arrived_at="start",
        service_ms="took",
        timeout_ms=100,
        time_unit="ms",
        marks=[Mark.parse("1970-01-01T00:00:01.020=noon")],
    )


@contextmanager
def jobs(spark: SparkSession) -> Iterator[list[int]]:
    """Collect the ids of the Spark jobs that start in the block."""
    group = f"jobs of {id(spark)}"
    started: list[int] = []
    spark.sparkContext.setJobGroup(group, group)
    before = set(spark.sparkContext.statusTracker().getJobIdsForGroup(group))
    try:
        yield started
    finally:
        after = spark.sparkContext.statusTracker().getJobIdsForGroup(group)
        started += sorted(set(after) - before)
        for key in ("spark.job.description", "spark.jobGroup.id"):
            spark.sparkContext.setLocalProperty(key, None)  # type: ignore[arg-type]


def test_nothing_runs_before_a_result_is_asked_for(spark: SparkSession, calls: DataFrame) -> None:
    with jobs(spark) as made:
        trace = trace_of(calls)
        shown = trace._repr_html_()
        assert repr(trace) == "Trace('calls <1>', rows not counted)"
        rejects = trace.rejects()
    assert made == []
    assert "calls &lt;1&gt;" in shown
    assert "not counted" in shown
    assert "watch_keys array&lt;string&gt;" in shown
    with jobs(spark) as measured:
        trace.outcomes()
    assert measured
    with jobs(spark) as further:
        trace.outcomes()
        replay = trace.replay(tick_ms=10)
        assert repr(replay) == "Replay('wheel tick_ms=10'; use outcomes(), hosts() or compare())"
    assert further == []
    assert [tuple(row) for row in rejects.select("reason", "source").collect()] == [
        ("null start", "requests")
    ]


@pytest.mark.slow
def test_replay_agrees_and_what_if_is_shown(spark: SparkSession, calls: DataFrame) -> None:
    before = cached_tables(spark)
    trace = trace_of(calls).cache()
    ended = trace.outcomes().select("host", "outcome", F.round("waited_ms").cast("int")).collect()
    assert sorted(map(tuple, ended)) == [
        ("<b>", "expired", 100),
        ("api", "completed", 40),
        ("api", "expired", 100),
        ("web", "completed", 20),
        ("web", "completed", 30),
    ]
    replay = trace.replay("legacy").cache()
    assert replay.compare().collect() == [("legacy", 5, 0, None)]
    fewer = trace.outcomes().where("host = 'web'")
    (differing,) = Replay(replay.results, lambda: fewer, replay.settings).compare().collect()
    assert (differing["rows"], differing["differing"]) == (5, 3)
    hosts = replay.hosts().select("host", "completed", "expired").collect()
    assert sorted(map(tuple, hosts)) == [("<b>", 0, 1), ("api", 1, 1), ("web", 2, 0)]
    assert replay.outcomes().where("late_ms is not null").count() == 2
    shown = replay._repr_html_()
    assert shown.startswith("<p><b>legacy</b>: a replay</p><table>")
    assert "<td>&lt;b&gt;</td><td>1</td><td>0</td><td>1</td><td>1</td>" in shown
    what_if = trace.what_if([500, 100, 25])
    assert [(row["timeout_ms"], row["expired"]) for row in what_if.rows] == [
        (25, 4),
        (100, 2),
        (500, 1),
    ]
    assert what_if.timeouts_in_use == [100]
    assert (
        repr(trace.what_if([50, 7]))
        == "WhatIf(timeouts=[7, 50]; use table, rows or recommendation)"
    )
    assert what_if.recommendation.timeout_ms is None
    with jobs(spark) as made:
        page = what_if._repr_html_()
        assert trace.what_if().timeouts[-1] == 1000  # from answers that are counted already
    assert made == []
    assert "<iframe srcdoc=" in page
    assert what_if.recommendation.timeout_ms is None
    assert "and at least 300 are needed to compare shares." in page
    assert "<td>100 ms (in use)</td><td>2</td><td>40.0 %</td>" in page
    assert len(cached_tables(spark) - before) == 2
    replay.unpersist()
    trace.unpersist()
    assert cached_tables(spark) == before


@pytest.mark.slow
def test_report_is_a_folder_with_a_page(
    spark: SparkSession, calls: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = cached_tables(spark)
    trace = trace_of(calls)
    report = trace.report("my report", timeouts=[50], designs=["wheel"])
    assert cached_tables(spark) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["my report"]
    page = report.page.read_text()
    assert "<h1>calls &lt;1&gt;</h1>" in page
    assert "In the replay “wheel” all 5 requests ended as computed." in page
    shown = report._repr_html_()
    assert '<a href="my%20report/report.html" target="_blank">my report/report.html</a>' in shown
    assert "<td>expired</td><td>40.0 % (2)</td>" in shown
    (change, *_) = report.findings.changes
    assert "(0.0 % of 2 requests before, 66.7 % of 3 requests after)" in change
    assert str(Markup.escape(change)) in shown
    assert "<td>wheel replay</td><td>0 of 5 rows differ</td>" in shown
    assert [row["timeout_ms"] for row in report.analysis.rows("what_if")] == [50, 100]
    assert repr(trace) == "Trace('calls <1>', 5 requests, 4 events, 1 rejects)"
    assert "<td>1</td><td>1 null start</td>" in trace._repr_html_()

    read = Trace.read(spark, "my report/trace")
    assert repr(read) == repr(trace)
    assert rows_of(read.outcomes()) == rows_of(trace.outcomes())
    assert rows_of(read.rejects(), "reason", "source") == [
        {"reason": "null start", "source": "requests"}
    ]
    with pytest.raises(InvalidArgumentError, match="folder must be another than that of the trace"):
        read.report("my report")
    with pytest.raises(InvalidArgumentError, match="settings must be None for a trace folder"):
        Trace.read(spark, "my report/trace", ImportSettings())
    again = read.report("again", designs=[])
    assert "agreement" not in again.analysis.manifest["tables"]
    assert sorted(path.name for path in Path("again").iterdir() if path.name[0] != ".") == [
        "analysis",
        "report.html",
    ]
    first = Path("again/report.html").stat().st_ino
    read.report("again", designs=[])
    assert Path("again/report.html").stat().st_ino != first


def test_report_replaces_nothing_else(calls: DataFrame, tmp_path: Path) -> None:
    with output_folder(tmp_path / "trace") as folder:
        (folder / "trace.json").write_text("{}")
    with pytest.raises(OutputExistsError, match="trace exists already, and is not an earlier"):
        trace_of(calls).report(tmp_path / "trace")
    assert (tmp_path / "trace" / "trace.json").exists()
    with pytest.raises(InvalidArgumentError, match="design must be one of wheel, legacy, got 'w'"):
        trace_of(calls).report(tmp_path / "new", designs=["w"])
    assert not (tmp_path / "new").exists()


def test_files_of_a_known_format_are_read(spark: SparkSession, tmp_path: Path) -> None:
    before = cached_tables(spark)
    file = tmp_path / "calls.csv"
    file.write_text("start,took\n2024-03-10 02:30:00,12\nsoon,1\n")
    settings = ImportSettings(columns={"arrived_at": "start", "service_ms": "took"}, timeout_ms=5)
    trace = Trace.read(spark, file, settings)
    assert trace.name == "calls.csv"
    assert [row["outcome"] for row in trace.outcomes().collect()] == ["expired"]
    assert [row["reason"] for row in trace.rejects().collect()] == ["unparsable start"]
    assert trace.requests.count() == 1
    assert cached_tables(spark) != before
    trace.unpersist()
    assert cached_tables(spark) == before


def test_small_file_has_few_tasks(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "calls.csv"
    file.write_text("start,took\n2024-03-10 02:30:00,12\n")
    columns = {"arrived_at": "start", "service_ms": "took", "request_id": "took"}
    before = str(spark.conf.get("spark.sql.shuffle.partitions"))
    try:
        spark.conf.set("spark.sql.shuffle.partitions", 50)
        table: Any = Trace.read(spark, file, ImportSettings(columns=columns)).what_if([1]).table
        plan = table._jdf.queryExecution().executedPlan().toString()
        few = small_partitions(spark)
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", before)
    assert few <= 4
    # Of shards, hosts and timeouts; the latter are not of rows.
    tasks = [int(number) for number in re.findall(r"hashpartitioning\(.*?, (\d+)\)", plan)]
    assert sorted(tasks) == [few, few, 50]


@pytest.mark.slow
def test_large_hosts_are_cut_by_themselves(spark: SparkSession) -> None:
    requests, events = workload_trace(spark, Workload(requests=3_000, hosts=1, shared_keys=0))
    small = Trace(requests, events, max_worker_mb=BATCH.worker // 2**20 + 1)
    assert set(small._memory.parts) == {"host-0"}
    expired = F.count_if(F.col("outcome") == "expired")
    counted, whole = (
        trace.outcomes().agg(F.count("*"), expired).collect()
        for trace in (small, Trace(requests, events))
    )
    assert counted == whole
    for _ in range(2):
        with pytest.raises(HostTooLargeError, match=r"host 'host-0' has 3,000 requests"):
            small.replay()


def test_host_that_fits_a_replay_fits_the_batch() -> None:
    for field in fields(BATCH):
        if field.name != "task":
            assert getattr(BATCH, field.name) <= getattr(REPLAY, field.name)


@pytest.mark.slow
def test_trace_without_requests(spark: SparkSession, calls: DataFrame, tmp_path: Path) -> None:
    trace = trace_of(calls.where("start is null"))
    assert trace.outcomes().collect() == []
    assert trace.what_if([10])._repr_html_() == "<p>The trace has no requests.</p>"
    with pytest.raises(TraceFormatError, match="has no requests; rejected: 1 null start"):
        trace.report(tmp_path / "report")
    assert list(tmp_path.iterdir()) == []


WRITES = [("w1", 0, ["a", "b", "c"], "2", "sum"), ("w2", 5, ["a", "b", "c"], "all", "count")]
ACKS = [("a", 3, 1.0), ("b", 7, 1.0), ("c", 90, 1.0)]


@pytest.mark.slow
def test_keywords_are_a_mapping(spark: SparkSession) -> None:
    writes = spark.createDataFrame(
        WRITES, "id string, at bigint, replicas array<string>, need string, how string"
    )
    acks = spark.createDataFrame(ACKS, "replica string, at bigint, size double")
    event_columns = {"key": "replica", "occurred_at": "at", "amount": "size"}
    mapping = TableMapping(
        {"request_id": "id", "arrived_at": "at", "watch_keys": "replicas", "quantifier": "need"},
        event_columns,
        time_unit="ms",
        timeout_ms=50,
        aggregate="sum",
        threshold=1,
    )
    by_mapping = Trace.from_table(writes, mapping, events=acks)
    by_keywords = Trace.from_table(
        writes,
        events=acks,
        event_columns=event_columns,
        request_id="id",
        arrived_at="at",
        watch_keys="replicas",
        quantifier="need",
        aggregate="sum",
        threshold=1,
        timeout_ms=50,
        time_unit="ms",
    )
    assert by_keywords._origin.parameters == by_mapping._origin.parameters  # type: ignore[attr-defined]
    ended = {
        row["request_id"]: (row["outcome"], round(row["waited_ms"]))
        for row in by_keywords.outcomes().collect()
    }
    assert ended == {"w1": ("completed", 7), "w2": ("expired", 50)}
    with pytest.raises(InvalidArgumentError, match=r"left out where fields are given \(host\)"):
        Trace.from_table(writes, mapping, events=acks, host="id")
    with pytest.raises(TraceFormatError, match="unknown field 'start' in the mapping; known: host"):
        Trace.from_table(writes, start="at")  # type: ignore[call-arg]
    with pytest.raises(
        InvalidArgumentError, match="time_unit must be one of s, ms, us, ns, as the column at is"
    ):
        Trace.from_table(writes, arrived_at="at", ended_at="at")


def test_tables_in_the_schema_are_checked(spark: SparkSession) -> None:
    requests, events = workload_trace(spark, Workload(requests=20))
    spoilt = events.withColumn("amount", -F.col("amount"))
    trace = Trace(requests, spoilt)
    rejects = trace.rejects()
    assert rejects.dtypes == [(each.name, each.dataType.simpleString()) for each in REJECTS]
    counted = rejects.groupBy("reason", "source").count().collect()
    assert [tuple(row) for row in counted] == [("negative amount", None, 20)]


def test_texts_in_tables_are_escaped() -> None:
    shown = html_table(["a&b"], [["<i>"], [1]])
    assert re.findall(r"<t[hd]>.*?</t[hd]>", shown) == [
        "<th>a&amp;b</th>",
        "<td>&lt;i&gt;</td>",
        "<td>1</td>",
    ]


def test_package_has_no_other_name() -> None:
    import purgatory_spark

    with pytest.raises(AttributeError, match="has no attribute 'Tracer'"):
        _ = purgatory_spark.Tracer


def test_marks_need_a_zone() -> None:
    with pytest.raises(InvalidArgumentError, match="at must be a time with a zone"):
        Mark(datetime(2026, 3, 2), "deployment")
