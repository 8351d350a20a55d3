"""Tests of tables that are in the pipeline's schema already."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import SchemaError, TraceFormatError
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_folders import (
    NOON_US,
    ImportedRows,
    assert_written_as_read,
    event,
    imported_rows,
    request,
    write_recorded,
)
from tests.spark.trace_strategies import events_table, requests_table

FAR = 10**17
REQUIRED = (
    "host",
    "request_id",
    "arrived_at",
    "timeout_ms",
    "watch_keys",
    "aggregate",
    "threshold",
    "quantifier",
)


def with_null(table: pa.Table, column: str) -> pa.Table:
    """Return `table` with only nulls in one column."""
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.nulls(len(table), table.column(column).type))


def bad_request(request_id: str, **changed: Any) -> TraceRequest:
    """Return a good request with some fields changed."""
    fields: dict[str, Any] = {
        "request_id": request_id,
        "arrived_us": NOON_US,
        "timeout_ms": 1,
        "watch_keys": ["k"],
        "aggregate": "count",
        "threshold": 1.0,
        "quantifier": "all",
    }
    return TraceRequest(**(fields | changed))


GOOD_REQUESTS = requests_table([request(0), request(1, keys=[]), request(2, timeout_ms=0)])
UNTYPED = with_null(requests_table([request(3)]), "request_type")
GOOD_EVENTS = events_table([event(0, after_us=5)])
BAD_REQUESTS: dict[str, Sequence[pa.Table]] = {
    **{
        f"null {name}": [with_null(requests_table([bad_request(f"no {name}")]), name)]
        for name in REQUIRED
    },
    "arrived_at not of the years 1900 to 2199": [
        requests_table([bad_request("late", arrived_us=FAR)])
    ],
    "null watch key": [requests_table([bad_request("null key", watch_keys=["k", None])])],
    # The second one has the id of a good row.
    "negative timeout": [
        requests_table([bad_request("when", timeout_ms=-1)]),
        requests_table([request(0, after_us=-1, timeout_ms=-1)]),
    ],
    "unknown aggregate": [requests_table([bad_request("how", aggregate="median")])],
    "unknown quantifier": [requests_table([bad_request("which", quantifier="most")])],
    "threshold is not a number": [requests_table([bad_request("much", threshold=float("nan"))])],
    "repeated request": [
        requests_table([request(0, after_us=1)]),
        requests_table([request(2, timeout_ms=0)]),
    ],
}
BAD_EVENTS: dict[str, Sequence[pa.Table]] = {
    "null key": [with_null(events_table([TraceEvent("k", NOON_US, 1.0)]), "key")],
    "occurred_at not of the years 1900 to 2199": [events_table([TraceEvent("k", -FAR, 1.0)])],
    "amount is not a finite number": [
        events_table(
            [
                TraceEvent("k", NOON_US, float("-inf")),
                TraceEvent("k", NOON_US, float("inf")),
            ]
        )
    ],
    "negative amount": [events_table([TraceEvent("k", NOON_US, -1.0)])],
}


@pytest.fixture(scope="module")
def mixed_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write good rows and bad rows of each kind."""
    requests = [
        GOOD_REQUESTS,
        *[table for tables in BAD_REQUESTS.values() for table in tables],
        UNTYPED,
    ]
    events = [*[table for tables in BAD_EVENTS.values() for table in tables], GOOD_EVENTS]
    folder = tmp_path_factory.mktemp("recorded") / "in"
    return write_recorded(folder, pa.concat_tables(requests), pa.concat_tables(events))


@pytest.fixture(scope="module")
def mixed(spark: SparkSession, mixed_folder: Path) -> ImportedRows:
    """Import good rows and bad rows of each kind."""
    return imported_rows(spark, mixed_folder)


def test_bad_rows_are_rejected_with_table_and_content(mixed: ImportedRows) -> None:
    assert mixed.format == "recorded"
    for name, good, bad in (("requests", 4, BAD_REQUESTS), ("events", 1, BAD_EVENTS)):
        rows = {reason: sum(map(len, tables)) for reason, tables in bad.items()}
        assert mixed.rows_read[name] == good + sum(rows.values())
        counted: dict[str, int] = {}
        for reason, source, _ in mixed.rejects:
            if source == name:
                counted[reason] = counted.get(reason, 0) + 1
        assert counted == rows
    assert {source for _, source, _ in mixed.rejects} == {"requests", "events"}


def test_good_rows_are_unchanged(mixed: ImportedRows) -> None:
    assert [
        row for row in mixed.requests if row["request_id"] != "r0003"
    ] == GOOD_REQUESTS.to_pylist()
    assert mixed.events == GOOD_EVENTS.to_pylist()


def test_request_without_a_type_gets_the_default_type(mixed: ImportedRows) -> None:
    untyped = UNTYPED.to_pylist()[0]
    assert [row for row in mixed.requests if row["request_id"] == "r0003"] == [
        untyped | {"request_type": "request"}
    ]
    assert {row["request_type"] for row in mixed.requests} == {"request", "count"}


def test_trace_folder_has_the_imported_rows(
    spark: SparkSession,
    mixed_folder: Path,
    mixed: ImportedRows,
    tmp_path: Path,
) -> None:
    assert_written_as_read(spark, mixed_folder, tmp_path / "trace", mixed)


def test_folder_without_parquet_files_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    source = write_recorded(tmp_path / "in", requests_table([request(0)]), events_table([]))
    (source / "events" / "part.parquet").rename(source / "events" / "part.txt")
    with pytest.raises(TraceFormatError, match=r"in/events: the folder has no Parquet file"):
        read_trace(spark, source)


def test_chosen_format_must_fit_the_folder(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in" / "requests").mkdir(parents=True)
    with pytest.raises(
        TraceFormatError,
        match=r"in is not a recorded trace \(a folder with the subfolders requests and events\)",
    ):
        read_trace(spark, tmp_path / "in", ImportSettings(format="recorded"))


def test_table_of_another_schema_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("requests", "events"):
        (tmp_path / "t" / name).mkdir(parents=True)
        pq.write_table(
            pa.table({"host": ["h"], "key": [1]}), tmp_path / "t" / name / "part.parquet"
        )
    with pytest.raises(
        SchemaError, match=r"t/requests: request_id \(string\) is missing; .*quantifier"
    ):
        read_trace(spark, tmp_path / "t")
