"""Tests of tables with one row per request, with times in different notations."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._traces.trace_reader import ImportSettings, read_trace
from tests.spark.trace_folders import NOON, assert_written_as_read, imported_rows, write_lines

MAPPING = {
    "host": "pod",
    "request_id": "id",
    "request_type": "path",
    "arrived_at": "start",
    "ended_at": "end",
    "timeout_ms": "limit",
}
HEADER = "id,pod,path,start,end,limit"
US = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_request_waits_for_its_own_answer(spark: SparkSession, tmp_path: Path) -> None:
    long = "ü" * 5000
    lines = [
        HEADER,
        "1,ads,/pick,2022-08-22T12:00:00Z,2022-08-22T12:00:00.25Z,300",
        f'{long},"front, ""A""",,2022-08-22T14:00:00+02:00,,0',
        "1,front,/名前,2022-08-22 12:00:00.000001,2022-08-22 12:00:00.0000019, 2147483647 ",
    ]
    found = imported_rows(spark, write_lines(tmp_path / "calls.csv", lines), columns=MAPPING)
    assert found.format == "columns"
    assert found.notes == ["A request waits for its own answer; a row without one expires."]
    assert (found.rows_read, found.rejects) == ({"rows": 3}, [])
    common = {"aggregate": "count", "threshold": 1.0, "quantifier": "any"}
    expected: list[dict[str, Any]] = [
        {
            "host": "ads",
            "request_id": "1",
            "request_type": "/pick",
            "arrived_at": NOON,
            "timeout_ms": 300,
        },
        {
            "host": "front",
            "request_id": "1",
            "request_type": "/名前",
            "arrived_at": NOON + US,
            "timeout_ms": 2**31 - 1,
        },
        {
            "host": 'front, "A"',
            "request_id": long,
            "request_type": "request",
            "arrived_at": NOON,
            "timeout_ms": 0,
        },
    ]
    assert sorted(found.requests, key=lambda row: row["host"]) == [
        row | common | {"watch_keys": [row["request_id"]]} for row in expected
    ]
    assert [
        (row["host"], row["key"], row["occurred_at"] - NOON, row["amount"]) for row in found.events
    ] == [
        ("ads", "1", 250_000 * US, 1.0),
        ("front", "1", US, 1.0),
    ]


def test_rows_without_ids_are_numbered_in_order_of_arrival(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines = [
        "ms,at",
        "2.5,1661169600002",
        "0.0001,1661169600000.5",
        ",1.661169600001e12",
        " 7e2 , +1661169600003. ",
    ]
    source = write_lines(tmp_path / "calls.csv", lines)
    columns = {"arrived_at": "at", "service_ms": "ms"}
    found = imported_rows(spark, source, columns=columns, time_unit="ms", timeout_ms=7)
    assert found.rejects == []
    assert [(row["request_id"], row["arrived_at"] - NOON) for row in found.requests] == [
        ("000000000001", 500 * US),
        ("000000000002", 1000 * US),
        ("000000000003", 2000 * US),
        ("000000000004", 3000 * US),
    ]
    assert {(row["host"], row["request_type"], row["timeout_ms"]) for row in found.requests} == {
        ("host-0", "request", 7)
    }
    assert [(row["key"], row["occurred_at"] - NOON) for row in found.events] == [
        ("000000000001", 501 * US),
        ("000000000003", 4500 * US),
        ("000000000004", 703_000 * US),
    ]


def test_rows_without_ids_are_numbered_by_host(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        "when;x,done,pod,limit",
        "1000,1250.5,a,50",
        "2000,,b,60",
        "900,,a,70",
        "3000,2999,c,70",
        "4000,4001,d,-1",
    ]
    source = write_lines(tmp_path / "calls.csv", lines)
    mapping = {"arrived_at": "when;x", "ended_at": "done", "host": "pod", "timeout_ms": "limit"}
    found = imported_rows(spark, source, columns=mapping, time_unit="us")
    assert found.rejected == {"end before start": 1, "negative timeout": 1}
    columns = ("host", "request_id", "timeout_ms", "arrived_at")
    assert [tuple(row[name] for name in columns) for row in found.requests] == [
        ("a", "000000000001", 70, EPOCH + 900 * US),
        ("a", "000000000002", 50, EPOCH + 1000 * US),
        ("b", "000000000001", 60, EPOCH + 2000 * US),
    ]
    assert [(row["host"], row["key"], row["occurred_at"]) for row in found.events] == [
        ("a", "000000000002", EPOCH + 1250 * US)
    ]


def test_requests_of_one_instant_are_numbered_by_their_other_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    keys = [["b"], ["a", "b"], ["a"], ["a\0"], ["a", "\1"], ["ä"]]
    ends, types = (None, 5, 4), ("z", None, "", "y")
    rows = [
        {"at": at, "end": end, "keys": of_row, "type": kind, "pod": pod}
        for at, end, of_row, kind, pod in product((3, 2), ends, keys, types, ("q", "p"))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "calls.parquet")
    columns = {"arrived_at": "at", "ended_at": "end", "host": "pod", "request_type": "type"}
    # The numbers of Spark's path and of `purgatory quick` are compared.
    found = imported_rows(
        spark,
        tmp_path / "calls.parquet",
        columns={**columns, "watch_keys": "keys"},
        time_unit="s",
    )
    assert len(found.requests) == len(rows)


def good(
    request_id: str,
    start: str = "2022-08-22 12:00:00",
    end: str = "2022-08-22 12:00:01",
    limit: str = "9",
) -> str:
    """Return a good row."""
    return f"{request_id},web,/,{start},{end},{limit}"


BAD = {
    "malformed row": ["x,web,/,2022-08-22", good("x") + ",more"],
    "empty pod": ["x1, ,/,2022-08-22,2022-08-22,9"],
    "null id": [good("")],
    "null start": [good("x2", start="")],
    "unparsable start": [
        *[
            good(f"x3{text}", start=text)
            for text in ("soon", "12:30", "T12:30", "2022-08-22T25:00", "now")
        ]
    ],
    "start is a number without a unit: give it with --time-unit": [
        good("x3year", start="2022"),
        good("x3number", start="1661169600"),
    ],
    "start not of the years 1900 to 2199": [
        good("x4", start="1899-12-31T23:59:59.999999"),
        good("x5", start="2200-01-01"),
    ],
    "unparsable end": [good("x6", end="never")],
    "end not of the years 1900 to 2199": [good("x7", end="2200-01-01")],
    # Without its error, the second row would be the first one of its id.
    "end before start": [
        good("x8", end="2022-08-22 11:59:59.999999"),
        good("twice", start="2022-08-22 11:59:58", end="2022-08-22 11:59:57"),
    ],
    "null limit": [good("x9", limit="")],
    "unparsable limit": [good("x10", limit="long"), good("x12", limit="NaN")],
    "limit is more than 2147483647": [good("x11", limit="2147483648")],
    "limit is not a whole number": [good("x14", limit="0.5")],
    "negative timeout": [good("x13", limit="-1")],
    "repeated request": [
        good("twice", start="2022-08-22 12:00:00.005"),
        good("twice", end="2022-08-22 12:00:02"),
    ],
}


def test_bad_rows_are_rejected_with_file_and_content(spark: SparkSession, tmp_path: Path) -> None:
    bad = [row for rows in BAD.values() for row in rows]
    first = good("twice")
    source = write_lines(tmp_path / "mixed.csv", [HEADER, *bad, first])
    found = imported_rows(spark, source, columns=MAPPING)
    assert found.rejected == {reason: len(rows) for reason, rows in BAD.items()}
    assert found.rows_read == {"rows": len(bad) + 1}
    assert [(row["request_id"], row["arrived_at"]) for row in found.requests] == [("twice", NOON)]
    assert [(row["key"], row["occurred_at"]) for row in found.events] == [
        ("twice", NOON + 1_000_000 * US)
    ]
    for reason, file, row in found.rejects:
        assert file == "mixed.csv"
        assert (
            row
            if reason == "malformed row"
            else ",".join(json.loads(row).get(n, "") for n in HEADER.split(","))
        ) in BAD[reason]
    assert_written_as_read(spark, source, tmp_path / "trace", found, columns=MAPPING)


@pytest.mark.slow
def test_id_is_used_again_after_the_deadline(spark: SparkSession, tmp_path: Path) -> None:
    first = good("again", start="2022-08-22 12:00:00", end="2022-08-22 12:00:09", limit="1000")
    lines = [
        first,
        good("again", start="2022-08-22 12:00:01", end="", limit="1000.0"),
        good("again", start="2022-08-22 12:00:05", end="2022-08-22 12:00:20", limit="9000"),
    ]
    source = write_lines(tmp_path / "calls.csv", [HEADER, *lines])
    found = imported_rows(spark, source, columns=MAPPING)
    assert found.rejected == {"repeated request": 1}
    with read_trace(spark, source, ImportSettings(columns=MAPPING)) as trace:
        ended = outcomes_of(batch_outcomes(trace.requests, trace.events)).collect()
    assert [row["request_id"] for row in ended] == ["again", "again"]
    assert [row["outcome"] for row in ended] == ["expired", "expired"]


def test_invalid_service_times_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    bad = {
        "unparsable ms": ["NaN", "Infinity", "-Infinity", "1e300", "1e18", "fast"],
        "ms beyond the year 2199": ["6e12"],
        "end before start": ["-0.002", "-1e14"],
    }
    lines = [f"2022-08-22,{text}" for texts in bad.values() for text in texts]
    source = write_lines(tmp_path / "calls.csv", ["at,ms", *lines, "2022-08-22,1"])
    found = imported_rows(spark, source, columns={"arrived_at": "at", "service_ms": "ms"})
    assert found.rejected == {reason: len(texts) for reason, texts in bad.items()}
    assert len(found.requests) == len(found.events) == 1


@pytest.mark.parametrize("end", ["ended_at", "service_ms"])
def test_largest_number_is_no_time(spark: SparkSession, tmp_path: Path, end: str) -> None:
    lines = ["id,at,end", f"a,{2**63 - 1},1", "b,1000,1000"]
    source = write_lines(tmp_path / "calls.csv", lines)
    columns = {"request_id": "id", "arrived_at": "at", end: "end"}
    found = imported_rows(spark, source, columns=columns, time_unit="us")
    assert found.rejected == {"at not of the years 1900 to 2199": 1}
    assert [row["request_id"] for row in found.requests] == ["b"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival": "a"}, "unknown field 'arrival' in the mapping; known: host, request_id"),
        ({"ended_at": "b"}, "lacks arrived_at=COLUMN"),
        ({"arrived_at": "a"}, "lacks ended_at=COLUMN, service_ms=COLUMN or service_s=COLUMN"),
        ({"service_ms": "a"}, "lacks arrived_at=COLUMN"),
        ({"arrived_at": "a", "service_s": "b", "service_ms": "c"}, "service_ms and service_s;"),
        (
            {"arrived_at": "a", "ended_at": "b", "service_ms": "c"},
            "has ended_at and service_ms; leave one of them out",
        ),
        ({"arrived_at": "a", "ended_at": "b"}, "calls.csv: missing columns: b; the file has a, c"),
    ],
)
def test_invalid_mapping_is_an_error(
    spark: SparkSession, tmp_path: Path, columns: dict[str, str], message: str
) -> None:
    file = write_lines(tmp_path / "calls.csv", ["a,c"])
    with pytest.raises(TraceFormatError, match=message):
        read_trace(spark, file, ImportSettings(columns=columns))


def test_files_are_read_once(spark: SparkSession, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "calls.csv", ["id,start,end", "a,2024-01-01,2024-01-02"])
    columns = {"request_id": "id", "arrived_at": "start", "ended_at": "end"}
    with read_trace(spark, source, ImportSettings(columns=columns)) as trace:
        for table in (trace.requests, trace.events, trace.tables.counts.counts):
            plan = table._jdf.queryExecution().executedPlan().toString()
            # In the plan of the cache, which has no text of a row.
            assert plan.count("InMemoryTableScan") == 1, plan
            assert plan.count("FileScan csv") == 1, plan
            assert "to_json" not in plan, plan
