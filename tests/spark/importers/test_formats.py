"""What all formats share: what is refused, what stays in memory, and which incidents are known."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from request_purgatory.cli.failures import describe_failure
from request_purgatory.pipeline.traces.importers.imported import Imported, TraceFormatError
from request_purgatory.pipeline.traces.trace_folder import (
    ImportSettings,
    Mark,
    known_incidents,
    read_trace,
)
from tests.model.naive_trace import TraceRequest
from tests.spark.trace_folders import cached_tables, collected, imported, write_lines
from tests.spark.trace_strategies import events_table, requests_table

SPANS = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration"
TOKENS = "TIMESTAMP,ContextTokens,GeneratedTokens"


#: What the documentation of the Nezha trace tells of.
INCIDENT = Mark(
    datetime(2022, 8, 22, 5, 27, 6, tzinfo=UTC), "network delay injected (Nezha, 2022-08-22)"
)


def test_what_was_read_is_cached_until_its_block_ends(spark: SparkSession, tmp_path: Path) -> None:
    """Also where the block fails; the tables can still be read after it."""
    source = write_lines(tmp_path / "calls.csv", ["at,took", "1.5,2", "2.5,", "never,2"])
    settings = ImportSettings(columns={"arrived_at": "at", "service_ms": "took"}, time_unit="s")
    cached = cached_tables(spark)

    def read_and_fail() -> None:
        with read_trace(spark, source, settings) as trace:
            read.append(trace)
            assert all(table.storageLevel.useMemory for table in trace.cached)
            assert trace.requests.count() == 2
            assert len(cached_tables(spark) - cached) == len(trace.cached) == 1
            raise RuntimeError("in the block")

    read: list[Imported] = []
    with pytest.raises(RuntimeError, match="in the block"):
        read_and_fail()
    assert cached_tables(spark) == cached
    assert read[0].requests.count() == 2
    assert cached_tables(spark) == cached


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"at,at\n1,2\n", "column 'at' stands in the first line more than once"),
        (b"\xff\xfe\x00\x01", "can't be read as CSV text"),
        (b"PK\x03\x04zip", "no known format has the columns|can't be read"),
    ],
)
def test_file_that_is_no_table_is_refused_by_name(
    spark: SparkSession, tmp_path: Path, content: bytes, message: str
) -> None:
    """Before Spark reads a byte."""
    file = tmp_path / "odd.csv"
    file.write_bytes(content)
    with pytest.raises(TraceFormatError, match=rf"odd\.csv: .*({message})"):
        read_trace(spark, file)


def test_formats_with_fixed_columns_take_no_mapping(spark: SparkSession, tmp_path: Path) -> None:
    """Rather than leave it aside without a word."""
    source = write_lines(tmp_path / "table.csv", [TOKENS, "2023-11-16 18:17:03,1,1"])
    settings = ImportSettings(format="azure-llm", columns={"arrived_at": "TIMESTAMP"})
    with pytest.raises(
        TraceFormatError, match=r"the columns of the format azure-llm are fixed: it takes no --map"
    ):
        read_trace(spark, source, settings)


@pytest.mark.parametrize(
    ("name", "format", "hours", "known"),
    [
        ("Nezha.csv", "spans", (5, 6), [INCIDENT]),
        ("nezha.csv", "spans", (29, 30), []),
        ("nezha.csv", "spans", (), []),
        ("shop.csv", "spans", (5, 6), []),
        ("nezha.csv", "columns", (5, 6), []),
    ],
)
def test_known_incident_is_a_mark_of_its_own_day(
    spark: SparkSession,
    name: str,
    format: str,
    hours: tuple[int, ...],
    known: list[Mark],
) -> None:
    """A folder's name alone does not say that the fault was in it."""
    midnight = int(datetime(2022, 8, 22, tzinfo=UTC).timestamp())
    found = [
        TraceRequest("r", (midnight + hour * 3600) * 1_000_000, 1, ["k"], "count", 1.0, "all")
        for hour in hours
    ]
    requests, events = (
        spark.createDataFrame(requests_table(found)),
        spark.createDataFrame(events_table([])),
    )
    assert (
        known_incidents(Path("folder") / name, Imported(format, requests, events, events, {}))
        == known
    )


def test_table_with_no_rows_is_a_trace_without_requests(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Imported, and refused only where requests are needed."""
    source = write_lines(tmp_path / "nezha.csv", [SPANS])
    trace = imported(spark, source, tmp_path / "trace")
    names = ("spans in", "spans kept", "rejected", "requests out", "events out")
    assert trace.manifest["rows"] == dict.fromkeys(names, 0)
    assert (trace.manifest["rejected"], trace.marks) == ({}, [])
    tables = {
        "requests": trace.requests(spark),
        "events": trace.events(spark),
        "rejects": trace.rejects(spark),
    }
    assert collected(tables) == {"requests": [], "events": [], "rejects": []}
    with pytest.raises(TraceFormatError, match="the trace has no requests"):
        trace.require_requests()


def test_damaged_gzip_is_told_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Also where only its end is missing; nothing stays in Spark's memory."""
    whole = gzip.compress(
        (SPANS + "\n" + "".join(f"t,s{i},root,f,Get,{i},{i}\n" for i in range(5_000))).encode()
    )
    file = tmp_path / "cut.csv.gz"
    file.write_bytes(whole[: len(whole) // 2])
    cached = cached_tables(spark)
    with pytest.raises(Exception, match="cut") as failure:
        imported(spark, file, tmp_path / "trace")
    code, told = describe_failure(failure.value)
    assert code == 2
    assert "cut.csv.gz" in told
    assert cached_tables(spark) == cached
