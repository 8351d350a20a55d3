"""The published traces, where they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.batch import batch_outcomes
from request_purgatory.pipeline.replay import DESIGNS, ReplaySettings, replay
from request_purgatory.pipeline.schema import OUTCOMES
from request_purgatory.pipeline.stream.endpoints.address import endpoints
from request_purgatory.pipeline.stream.run import StreamPlan, run_stream
from request_purgatory.pipeline.traces import Trace, import_trace

TRACES = Path(__file__).parents[3].parent / "shared" / "traces"


def real_trace(spark: SparkSession, name: str, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The imported trace; the test is skipped where there is none."""
    source = TRACES / name
    if not source.exists():
        pytest.skip(f"the trace {name} is not here: it is expected in ../shared/traces beside the repository")
    return import_trace(spark, source, tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def nezha(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Spans of a shop's microservices, with a fault."""
    return real_trace(spark, "nezha-onlineboutique", tmp_path_factory)


def test_nezha_spans_are_imported_once_each(nezha: Trace) -> None:
    """Files overlap, and the repeats are counted."""
    assert nezha.manifest["rows"] == {
        "spans in": 50_110,
        "spans kept": 49_118,
        "rejected": 992,
        "requests out": 27_159,
        "events out": 48_032,
    }
    assert nezha.manifest["rejected"] == {"repeated SpanID": 992}


def test_nezha_expires_more_after_the_injected_delay(spark: SparkSession, nezha: Trace) -> None:
    """0.13 % before it and 3.76 % after it, with a timeout of a second."""
    outcomes = batch_outcomes(nezha.requests(spark), nezha.events(spark)).persist()
    mark = nezha.marks[0]
    counted = {
        (row["arrived_at < mark"], row["outcome"]): row["count"]
        for row in outcomes.selectExpr(f"arrived_at < timestamp'{mark.at.isoformat()}' AS `arrived_at < mark`", "outcome")
        .groupBy("arrived_at < mark", "outcome")
        .count()
        .collect()
    }
    outcomes.unpersist()
    assert counted == {(True, "completed"): 9882, (True, "expired"): 13, (False, "completed"): 16_615, (False, "expired"): 649}


@pytest.mark.parametrize("design", DESIGNS)
def test_nezha_replay_agrees_with_batch_on_every_row(spark: SparkSession, nezha: Trace, design: str) -> None:
    """Through a real purgatory of either design."""
    requests, events = nezha.requests(spark), nezha.events(spark)
    batch = batch_outcomes(requests, events)
    replayed = replay(requests, events, ReplaySettings(design=design)).where("kind = 'outcomes'").select(*OUTCOMES.names)
    assert replayed.exceptAll(batch).count() == batch.exceptAll(replayed).count() == 0
    assert replayed.count() == 27_159


def test_nezha_stream_agrees_with_batch_on_every_row(spark: SparkSession, nezha: Trace, tmp_path: Path) -> None:
    """The streaming job on the imported tables."""
    names = ("spark.sql.shuffle.partitions", "spark.sql.execution.arrow.maxRecordsPerBatch")
    before = {name: str(spark.conf.get(name)) for name in names}
    folders = endpoints(str(nezha.path / "requests"), str(nezha.path / "events"), str(tmp_path / "out"))
    run_stream(spark, StreamPlan(folders, tmp_path / "checkpoint", finish=True), lambda batch: None)
    for name, value in before.items():
        spark.conf.set(name, value)
    batch = batch_outcomes(nezha.requests(spark), nezha.events(spark))
    streamed = spark.read.parquet(str(tmp_path / "out" / "kind=outcomes")).select(*OUTCOMES.names)
    assert streamed.exceptAll(batch).count() == batch.exceptAll(streamed).count() == 0
    assert streamed.count() == 27_159


def test_azure_inference_rows_are_labelled_as_derived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    """All rows of both files, and a note that nobody can miss."""
    trace = real_trace(spark, "azure-llm-2023", tmp_path_factory)
    assert trace.manifest["rows"]["requests out"] == 28_185
    assert trace.manifest["rejected"] == {}
    assert "DERIVED, not recorded" in trace.manifest["notes"][0]
