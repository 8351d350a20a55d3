"""Tests of all formats: errors, Spark's cache, and known incidents."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from purgatory_spark import Trace
from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.imported_trace import CheckedTables, ImportedTrace
from purgatory_spark._rows.row_counts import RowCounts
from purgatory_spark._rows.schema import REJECTS
from purgatory_spark._traces.marks import Mark, known_incidents
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from tests.spark.naive_trace import TraceRequest
from tests.spark.small_analyses import write_trace
from tests.spark.trace_folders import (
    cached_tables,
    collect_tables,
    import_to_folder,
    write_lines,
)
from tests.spark.trace_strategies import events_table, requests_table

SPANS = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration"
TOKENS = "TIMESTAMP,ContextTokens,GeneratedTokens"


#: The incident in the documentation of the Nezha trace.
INCIDENT = Mark(
    datetime(2022, 8, 22, 5, 27, 6, tzinfo=UTC), "network delay injected (Nezha, 2022-08-22)"
)


def test_rows_are_cached_until_the_end_of_the_block(spark: SparkSession, tmp_path: Path) -> None:
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

    read: list[ImportedTrace] = []
    with pytest.raises(RuntimeError, match="in the block"):
        read_and_fail()
    assert cached_tables(spark) == cached
    assert read[0].requests.count() == 2
    assert cached_tables(spark) == cached


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"at,at\n1,2\n", "the first line has the column 'at' more than once"),
        (b"\xff\xfe\x00\x01", "can't be read as CSV text"),
        (b"PK\x03\x04zip", "no known format has the columns|can't be read"),
    ],
)
def test_file_that_is_not_a_table_is_an_error(
    spark: SparkSession, tmp_path: Path, content: bytes, message: str
) -> None:
    file = tmp_path / "odd.csv"
    file.write_bytes(content)
    with pytest.raises(TraceFormatError, match=rf"odd\.csv: .*({message})"):
        read_trace(spark, file)


def test_mapping_for_a_format_with_fixed_columns_is_an_error(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = write_lines(tmp_path / "table.csv", [TOKENS, "2023-11-16 18:17:03,1,1"])
    settings = ImportSettings(format="azure-llm", columns={"arrived_at": "TIMESTAMP"})
    with pytest.raises(
        TraceFormatError, match=r"the format azure-llm has fixed columns; leave out --map"
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
    midnight = int(datetime(2022, 8, 22, tzinfo=UTC).timestamp())
    found = [
        TraceRequest("r", (midnight + hour * 3600) * 1_000_000, 1, ["k"], "count", 1.0, "all")
        for hour in hours
    ]
    requests, events = (
        spark.createDataFrame(requests_table(found)),
        spark.createDataFrame(events_table([])),
    )
    counts = RowCounts.of({}, spark.createDataFrame([], REJECTS))
    trace = ImportedTrace(format, CheckedTables(requests, events, events, counts))
    assert known_incidents(Path("folder") / name, trace) == known


def test_table_without_rows_is_a_trace_without_requests(
    spark: SparkSession, tmp_path: Path
) -> None:
    source = write_lines(tmp_path / "nezha.csv", [SPANS])
    trace = import_to_folder(spark, source, tmp_path / "trace")
    names = ("spans in", "spans kept", "rejected", "requests out", "events out")
    assert trace.manifest["rows"] == dict.fromkeys(names, 0)
    assert (trace.manifest["rejected"], trace.marks) == ({}, [])
    tables = {
        "requests": trace.requests(spark),
        "events": trace.events(spark),
        "rejects": trace.rejects(spark),
    }
    assert collect_tables(tables) == {"requests": [], "events": [], "rejects": []}
    with pytest.raises(TraceFormatError, match="the trace has no requests"):
        trace.require_requests()


def test_damaged_gzip_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    whole = gzip.compress(
        (SPANS + "\n" + "".join(f"t,s{i},root,f,Get,{i},{i}\n" for i in range(5_000))).encode()
    )
    file = tmp_path / "cut.csv.gz"
    file.write_bytes(whole[: len(whole) // 2])
    cached = cached_tables(spark)
    message = r"cut\.csv\.gz: can't be read as CSV text \(Compressed file ended before"
    with pytest.raises(TraceFormatError, match=message) as failure:
        import_to_folder(spark, file, tmp_path / "trace")
    assert describe_failure(failure.value) == (2, str(failure.value))
    assert cached_tables(spark) == cached


def test_damaged_pages_of_a_trace_folder_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    calls = [TraceRequest(f"r{number}", 1, 10, ["k"], "count", 1.0, "all") for number in range(99)]
    folder = write_trace(tmp_path / "trace", calls, []).path
    (file,) = (folder / "requests").glob("*.parquet")
    content = bytearray(file.read_bytes())
    content[4:60] = bytes(56)
    file.write_bytes(content)
    with pytest.raises(TraceFormatError, match=rf"{file.name}: can't be read to its end"):
        Trace.read(spark, folder).outcomes()
