"""Tests of span tables."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.spans import COLUMNS, import_spans
from purgatory_spark._importers.table_source import TableSource
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_reader import ImportSettings, check_source, read_trace
from request_purgatory.errors import InvalidArgumentError
from tests.spark.trace_folders import (
    ImportedRows,
    assert_written_as_read,
    imported_rows,
    write_lines,
)

HEADER = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration"
#: Start of the spans: the time of a known incident in the Nezha trace.
START = datetime(2022, 8, 22, 5, 27, 6, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000
INCIDENT = Mark(START, "network delay injected (Nezha, 2022-08-22)")


def ns(after_ms: float) -> int:
    """Return a time after the start in whole nanoseconds since the epoch.

    It is 999 ns after a whole microsecond, and a double would round it up.
    """
    return START_US * 1000 + round(after_ms * 1_000_000) + 999


def span(
    span_id: str,
    parent: str = "root",
    start_ms: float = 0,
    end_ms: float = 1,
    *,
    pod: str = "web",
    operation: str = "get",
) -> str:
    """Return a good row."""
    return f"t,{span_id},{parent},{pod},{operation},{ns(start_ms)},{ns(end_ms)},0"


GOOD = [
    span("top", "root", 0, 90, pod="front", operation="home"),
    span("b", "top", 5, 30, pod="cart", operation="list"),
    span("a", "top", 2, 20.5, pod="cart", operation="list"),
    span("c", "top", 3, 95, pod="ads", operation="pick"),
    span("leaf", "c", 4, 6, pod="db", operation="read"),
    span("orphan", "nowhere", 0, 1),
]


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ImportedRows:
    """Import only good rows."""
    source = write_lines(tmp_path_factory.mktemp("clean") / "spans.csv", [HEADER, *GOOD])
    return imported_rows(spark, source, timeout_ms=250)


def test_quantifier_says_how_many_children_must_end(spark: SparkSession, tmp_path: Path) -> None:
    source = write_lines(tmp_path / "spans.csv", [HEADER, *GOOD])
    settings = ImportSettings(quantifier="2", timeout_ms=250)
    with read_trace(spark, source, settings) as trace:
        ended = outcomes_of(batch_outcomes(trace.requests, trace.events)).collect()
        (reject,) = trace.rejects.collect()
    assert [(row["request_id"], row["waited_ms"]) for row in ended] == [("top", 30.0)]
    assert trace.notes == [
        "A request is a span with children; it waits for the ends of 2 of its child spans."
    ]
    assert (reject["reason"], reject["source"]) == (
        "quorum of more keys than the request has",
        "spans.csv",
    )
    assert json.loads(reject["row"])["request_id"] == "c"


def test_unusable_quantifier_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"quantifier must be all, any .*, got '0'"):
        ImportSettings(quantifier="0")
    source = write_lines(tmp_path / "calls.csv", ["at,ms", "2022-08-22,1"])
    columns = {"arrived_at": "at", "service_ms": "ms"}
    with pytest.raises(TraceFormatError, match="the format columns takes no --quantifier"):
        check_source(source, ImportSettings(columns=columns, quantifier="2"))


def test_span_with_children_waits_for_each_of_them(clean: ImportedRows) -> None:
    assert clean.format == "spans"
    assert clean.notes == [
        "A request is a span with children; it waits for the end of each of its child spans."
    ]
    assert (clean.rows_read, clean.rejects) == ({"spans": 6, "spans kept": 6}, [])
    common = {"timeout_ms": 250, "aggregate": "count", "threshold": 1.0, "quantifier": "all"}
    ms = timedelta(milliseconds=1)
    assert clean.requests == [
        {
            "host": "ads",
            "request_id": "c",
            "request_type": "pick",
            "arrived_at": START + 3 * ms,
            **common,
            "watch_keys": ["leaf"],
        },
        {
            "host": "front",
            "request_id": "top",
            "request_type": "home",
            "arrived_at": START,
            **common,
            "watch_keys": ["a", "b", "c"],
        },
    ]
    assert clean.events == [
        {"host": "ads", "key": "leaf", "occurred_at": START + 6 * ms, "amount": 1.0},
        {"host": "front", "key": "a", "occurred_at": START + 20.5 * ms, "amount": 1.0},
        {"host": "front", "key": "b", "occurred_at": START + 30 * ms, "amount": 1.0},
        {"host": "front", "key": "c", "occurred_at": START + 95 * ms, "amount": 1.0},
    ]


def test_spans_can_watch_operations(
    spark: SparkSession,
    clean: ImportedRows,
    tmp_path: Path,
) -> None:
    source = write_lines(tmp_path / "spans.csv", [HEADER, *GOOD])
    found = imported_rows(spark, source, timeout_ms=250, keys="operations")
    assert found.notes == [
        "A request is a span with children; it waits for one end of each (service, operation) "
        "that its child spans are of."
    ]
    keys = {"c": ["db/read"], "top": ["ads/pick", "cart/list"]}
    assert found.requests == [
        row | {"watch_keys": keys[row["request_id"]]} for row in clean.requests
    ]
    names = {"a": "cart/list", "b": "cart/list", "c": "ads/pick", "leaf": "db/read"}
    assert found.events == sorted(
        [row | {"key": names[row["key"]]} for row in clean.events], key=repr
    )


BAD = {
    "malformed row": [
        "t,short,root,web,get,1",
        "t,shorter,root,web",
        span("long") + ",1",
        span("longer") + ",1,2,3",
        '"t,open,root,web,get',
        "\x00\x01\x02�",
    ],
    "null SpanID": [span(""), span("   ")],
    "null ParentID": [span("x1", "")],
    "null PodName": [span("x2", pod="")],
    "null OperationName": [span("x3", operation=" ")],
    "null StartTimeUnixNano": [f"t,x4,root,web,get,,{ns(1)},0"],
    "null EndTimeUnixNano": [f"t,x5,root,web,get,{ns(1)},,0"],
    "unparsable StartTimeUnixNano": [
        f"t,x6,root,web,get,noon,{ns(1)},0",
        f"t,x7,root,web,get,{'9' * 60},{ns(1)},0",
        f"t,x8,root,web,get,NaN,{ns(1)},0",
        f"t,x9,root,web,get,1e500,{ns(1)},0",
    ],
    "unparsable EndTimeUnixNano": [f"t,x10,root,web,get,{ns(1)},-,0"],
    "StartTimeUnixNano not of the years 1900 to 2199": [
        f"t,x11,root,web,get,{ns(0) * 1000},{ns(1)},0",
        f"t,x12,root,web,get,-9223372036854775808,{ns(1)},0",
    ],
    "EndTimeUnixNano not of the years 1900 to 2199": [f"t,x13,root,web,get,{ns(0)},{ns(1)}000,0"],
    # Without its error, the second row would be the first one of its id.
    "end before start": [
        span("x14", start_ms=1, end_ms=0.999),
        span("top", start_ms=-1, end_ms=-2),
    ],
    # The last one is a copy of a good row.
    "repeated SpanID": [span("top", start_ms=5, end_ms=6), span("a", "c", 7, 8), GOOD[4]],
}


@pytest.fixture(scope="module")
def mixed_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the good rows and all bad ones."""
    bad = [row for rows in BAD.values() for row in rows]
    lines = [HEADER, *bad[:9], *GOOD, *bad[9:]]
    return write_lines(tmp_path_factory.mktemp("mixed") / "Nezha mixed+1.csv", lines)


@pytest.fixture(scope="module")
def mixed(spark: SparkSession, mixed_file: Path) -> ImportedRows:
    """Import the good rows and all bad ones."""
    return imported_rows(spark, mixed_file, timeout_ms=250)


def test_bad_rows_are_counted_by_reason(mixed: ImportedRows) -> None:
    assert mixed.rejected == {reason: len(rows) for reason, rows in BAD.items()}
    bad = sum(map(len, BAD.values()))
    assert mixed.rows_read == {"spans": len(GOOD) + bad, "spans kept": len(GOOD)}


def test_bad_rows_are_rejected_with_file_and_content(mixed: ImportedRows) -> None:
    assert {source for _, source, _ in mixed.rejects} == {"Nezha mixed+1.csv"}
    malformed = sorted(row for reason, _, row in mixed.rejects if reason == "malformed row")
    assert malformed == sorted(BAD["malformed row"])
    names = HEADER.split(",")
    for reason, _, row in mixed.rejects:
        if reason != "malformed row":
            given = json.loads(row)
            assert ",".join(given.get(name, "") for name in names) in BAD[reason]


def test_bad_rows_do_not_affect_good_rows(clean: ImportedRows, mixed: ImportedRows) -> None:
    assert mixed.requests == clean.requests
    assert mixed.events == clean.events


def test_trace_folder_has_the_imported_rows(
    spark: SparkSession,
    mixed_file: Path,
    mixed: ImportedRows,
    tmp_path: Path,
) -> None:
    assert_written_as_read(
        spark, mixed_file, tmp_path / "trace", mixed, known=(INCIDENT,), timeout_ms=250
    )


def test_parquet_file_with_typed_timestamps_gives_the_same_trace(
    spark: SparkSession,
    clean: ImportedRows,
    tmp_path: Path,
) -> None:
    rows = [row.split(",") for row in GOOD]
    ours = ["trace_id", "span_id", "parent_id", "service", "operation"]
    columns = {
        f"my `{name}`": pa.array([row[place] for row in rows]) for place, name in enumerate(ours)
    }
    for name, place, unit in (("start", 5, "ns"), ("end", 6, "us")):
        times = pa.array([int(row[place]) for row in rows]).cast(pa.timestamp("ns", tz="UTC"))
        columns[f"my `{name}`"] = times.cast(pa.timestamp(unit, tz="UTC"), safe=False)
    backwards = dict(reversed(columns.items()))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(backwards), tmp_path / "in" / "spans.parquet")
    mapping = {name: f"my `{name}`" for name in COLUMNS}
    assert imported_rows(spark, tmp_path / "in", columns=mapping, timeout_ms=250) == clean


def test_missing_columns_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "a.csv", [HEADER])
    lacking = write_lines(
        tmp_path / "b.csv", ["TraceID,SpanID,PodName,OperationName,StartTimeUnixNano"]
    )
    with pytest.raises(TraceFormatError) as error:
        import_spans(spark, TableSource.parse(tmp_path))
    assert str(error.value) == (
        f"{lacking}: missing columns: ParentID, EndTimeUnixNano; "
        "the file has TraceID, SpanID, PodName, OperationName, StartTimeUnixNano"
    )
