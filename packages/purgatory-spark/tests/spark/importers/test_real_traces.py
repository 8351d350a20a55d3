"""Tests of published traces, which are skipped if the files are missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark import Trace
from purgatory_spark._local.ended_requests import end_requests
from purgatory_spark._local.quick_trace import QuickTrace
from purgatory_spark._local.trace_files import read_trace_table
from purgatory_spark._outcomes.batch import batch_outcomes, trace_satisfactions
from purgatory_spark._outcomes.condition import NEVER
from purgatory_spark._outcomes.replay import DESIGNS, ReplaySettings, replay
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import OUTCOMES
from purgatory_spark._stream.endpoints.address import parse_endpoints
from purgatory_spark._stream.run import StreamPlan, run_stream
from purgatory_spark._traces.import_settings import ImportSettings
from purgatory_spark._traces.trace_folder import TraceFolder, import_trace
from tests.spark.trace_folders import imported_rows

# These take half a minute; other tests check the same rules on small traces.
pytestmark = pytest.mark.slow

TRACES = Path(__file__).parents[5].parent / "shared" / "traces"


def real_trace(
    spark: SparkSession, name: str, tmp_path_factory: pytest.TempPathFactory
) -> TraceFolder:
    """Import a published trace; skip the test if its files are missing."""
    source = TRACES / name
    if not source.exists():
        pytest.skip(f"needs the trace {name} in the folder ../shared/traces beside the repository")
    return import_trace(spark, source, tmp_path_factory.mktemp(name))


@pytest.fixture(scope="module")
def nezha(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> TraceFolder:
    """Import spans of an online shop's microservices, with an injected fault."""
    return real_trace(spark, "nezha-onlineboutique", tmp_path_factory)


def test_repeated_nezha_spans_are_rejected(nezha: TraceFolder) -> None:
    assert nezha.manifest["rows"] == {
        "spans in": 50_110,
        "spans kept": 49_118,
        "rejected": 992,
        "requests out": 27_159,
        "events out": 48_032,
    }
    assert nezha.manifest["rejected"] == {"repeated SpanID": 992}


Outcome = tuple[Any, ...]


def collected(outcomes: DataFrame) -> list[Outcome]:
    """Return the rows of `schema.OUTCOMES`, with times in UTC."""
    table = outcomes.select(*OUTCOMES.names).toArrow()
    return list(zip(*[column.to_pylist() for column in table.columns], strict=True))


@pytest.fixture(scope="module")
def batch(spark: SparkSession, nezha: TraceFolder) -> list[Outcome]:
    """Compute the outcomes of all requests with the batch."""
    found = collected(batch_outcomes(nezha.requests(spark), nezha.events(spark)))
    assert len(set(found)) == len(found) == 27_159
    return found


def assert_same_rows(found: list[Outcome], expected: list[Outcome]) -> None:
    """Compare rows in any order; a failure shows rows that only one side has."""
    assert sorted(set(found) ^ set(expected), key=repr)[:5] == []
    assert len(found) == len(expected)


def test_nezha_expires_more_after_the_injected_delay(
    nezha: TraceFolder, batch: list[Outcome]
) -> None:
    arrived_at, outcome = OUTCOMES.names.index("arrived_at"), OUTCOMES.names.index("outcome")
    mark = nezha.marks[0]
    counted = Counter((row[arrived_at] < mark.at, row[outcome]) for row in batch)
    assert counted == {
        (True, "completed"): 9882,
        (True, "expired"): 13,
        (False, "completed"): 16_615,
        (False, "expired"): 649,
    }


@pytest.mark.parametrize("design", DESIGNS)
def test_nezha_replay_agrees_with_batch_on_every_row(
    spark: SparkSession,
    nezha: TraceFolder,
    batch: list[Outcome],
    design: str,
) -> None:
    replayed = replay(nezha.requests(spark), nezha.events(spark), ReplaySettings(design=design))
    assert_same_rows(collected(replayed.where("kind = 'outcomes'")), batch)


def test_nezha_stream_agrees_with_batch_on_every_row(
    streaming: SparkSession,
    nezha: TraceFolder,
    batch: list[Outcome],
    tmp_path: Path,
) -> None:
    folders = parse_endpoints(
        str(nezha.path / "requests"), str(nezha.path / "events"), str(tmp_path / "out")
    )
    run_stream(streaming, StreamPlan(folders, tmp_path / "checkpoint", drain=True), lambda _: None)
    assert_same_rows(
        collected(streaming.read.parquet(str(tmp_path / "out" / "kind=outcomes"))), batch
    )


def assert_same_without_spark(spark: SparkSession, trace: TraceFolder) -> None:
    """Compare each request's times, and what timeouts do, with the answer without Spark."""
    requests = [read_trace_table(trace.path, kind) for kind in ("requests", "events")]
    found = end_requests(*requests, trace.manifest["rows"]["requests out"])
    rows = [
        (us, min(deadline, satisfied), None if satisfied == NEVER else satisfied)
        for shard in found
        for us, deadline, satisfied in zip(
            shard.arrived_us.tolist(),
            shard.deadline_us.tolist(),
            shard.satisfied_us.tolist(),
            strict=True,
        )
    ]
    on_spark = outcomes_of(trace_satisfactions(spark, trace.path)).selectExpr(
        "UNIX_MICROS(arrived_at)", "UNIX_MICROS(ended_at)", "UNIX_MICROS(satisfied_at)"
    )
    expected = [tuple(row) for row in on_spark.collect()]
    assert sorted(rows, key=repr) == sorted(expected, key=repr)
    timeouts = [10, 100, 1000, 10_000]
    answer = QuickTrace(str(trace.path), ImportSettings()).answer(timeouts)
    assert answer is not None
    by_spark = Trace.read(spark, trace.path).what_if([row["timeout_ms"] for row in answer.what_if])
    for name in ("timeout_ms", "requests", "expired", "peak_pending"):
        assert [row[name] for row in answer.what_if] == [row[name] for row in by_spark.rows]  # type: ignore[literal-required]


def test_nezha_without_spark_is_the_same(spark: SparkSession, nezha: TraceFolder) -> None:
    assert_same_without_spark(spark, nezha)


def test_nezha_as_a_table_is_mapped_alike(spark: SparkSession) -> None:
    source = TRACES / "nezha-onlineboutique"
    if not source.exists():
        pytest.skip(f"needs the trace in {source}")
    columns = {
        "host": "PodName",
        "request_id": "SpanID",
        "request_type": "OperationName",
        "arrived_at": "StartTimeUnixNano",
        "ended_at": "EndTimeUnixNano",
    }
    # It compares the two.
    found = imported_rows(spark, source, format="columns", columns=columns, time_unit="ns")
    assert found.rejected == {"repeated request": 992}


def test_azure_inference_rows_are_labelled_as_derived(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = real_trace(spark, "azure-llm-2023", tmp_path_factory)
    assert trace.manifest["rows"]["requests out"] == 28_185
    assert trace.manifest["rejected"] == {}
    assert "DERIVED, not recorded" in trace.manifest["notes"][0]
    assert_same_without_spark(spark, trace)
