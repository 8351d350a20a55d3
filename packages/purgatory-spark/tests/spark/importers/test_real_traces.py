"""Tests of published traces, which are skipped if the files are missing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.replay import DESIGNS, ReplaySettings, replay
from purgatory_spark._rows.schema import OUTCOMES
from purgatory_spark._stream.endpoints.address import parse_endpoints
from purgatory_spark._stream.run import StreamPlan, run_stream
from purgatory_spark._traces.trace_folder import TraceFolder, import_trace

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


def test_azure_inference_rows_are_labelled_as_derived(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> None:
    trace = real_trace(spark, "azure-llm-2023", tmp_path_factory)
    assert trace.manifest["rows"]["requests out"] == 28_185
    assert trace.manifest["rejected"] == {}
    assert "DERIVED, not recorded" in trace.manifest["notes"][0]
