"""Span tables: who waits for whom, and what is set aside."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.traces.importers.imported import TraceFormatError
from request_purgatory.pipeline.traces.importers.spans import COLUMNS, import_spans
from request_purgatory.pipeline.traces.trace_folder import Mark
from tests.spark.trace_folders import (
    ImportedRows,
    assert_written_as_read,
    imported_rows,
    write_lines,
)

HEADER = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration"
#: When the spans begin: at a known incident of the Nezha trace.
BEGUN = datetime(2022, 8, 22, 5, 27, 6, tzinfo=UTC)
BEGUN_US = int(BEGUN.timestamp()) * 1_000_000
INCIDENT = Mark(BEGUN, "network delay injected (Nezha, 2022-08-22)")


def ns(after_ms: float) -> int:
    """Return a time after the beginning as whole nanoseconds since the epoch.

    It is 999 ns beyond the microsecond: as a double it would round up.
    """
    return BEGUN_US * 1000 + round(after_ms * 1_000_000) + 999


def span(
    span_id: str,
    parent: str = "root",
    start_ms: float = 0,
    end_ms: float = 1,
    *,
    pod: str = "web",
    does: str = "get",
) -> str:
    """A good row."""
    return f"t,{span_id},{parent},{pod},{does},{ns(start_ms)},{ns(end_ms)},0"


GOOD = [
    span("top", "root", 0, 90, pod="front", does="home"),
    span("b", "top", 5, 30, pod="cart", does="list"),
    span("a", "top", 2, 20.5, pod="cart", does="list"),
    span("c", "top", 3, 95, pod="ads", does="pick"),
    span("leaf", "c", 4, 6, pod="db", does="read"),
    span("orphan", "nowhere", 0, 1),
]


@pytest.fixture(scope="module")
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> ImportedRows:
    """Import the good rows."""
    source = write_lines(tmp_path_factory.mktemp("clean") / "spans.csv", [HEADER, *GOOD])
    return imported_rows(spark, source, timeout_ms=250)


def test_span_with_children_waits_for_each_of_them(clean: ImportedRows) -> None:
    """On its own host, from its start, whole microseconds rounded down.

    Leaves and orphans ask for nothing.
    """
    assert clean.format == "spans"
    assert clean.notes == [
        "A request is a span with children; it waits for the end of each of its child spans."
    ]
    assert (clean.came_in, clean.rejects) == ({"spans": 6, "spans kept": 6}, [])
    common = {"timeout_ms": 250, "aggregate": "count", "threshold": 1.0, "quantifier": "all"}
    ms = timedelta(milliseconds=1)
    assert clean.requests == [
        {
            "host": "ads",
            "request_id": "c",
            "request_type": "pick",
            "arrived_at": BEGUN + 3 * ms,
            **common,
            "watch_keys": ["leaf"],
        },
        {
            "host": "front",
            "request_id": "top",
            "request_type": "home",
            "arrived_at": BEGUN,
            **common,
            "watch_keys": ["a", "b", "c"],
        },
    ]
    assert clean.events == [
        {"host": "ads", "key": "leaf", "occurred_at": BEGUN + 6 * ms, "amount": 1.0},
        {"host": "front", "key": "a", "occurred_at": BEGUN + 20.5 * ms, "amount": 1.0},
        {"host": "front", "key": "b", "occurred_at": BEGUN + 30 * ms, "amount": 1.0},
        {"host": "front", "key": "c", "occurred_at": BEGUN + 95 * ms, "amount": 1.0},
    ]


def test_spans_can_watch_operations_instead(
    spark: SparkSession,
    clean: ImportedRows,
    tmp_path: Path,
) -> None:
    """One key for each (service, operation) of the children, and still an event for each child."""
    source = write_lines(tmp_path / "spans.csv", [HEADER, *GOOD])
    found = imported_rows(spark, source, timeout_ms=250, keys="operations")
    assert found.notes == [
        "A request is a span with children; it waits for one end of each (service, operation) that its child spans are of."
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
    "null OperationName": [span("x3", does=" ")],
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
    # The second would be the first of its id, if it were good.
    "end before start": [
        span("x14", start_ms=1, end_ms=0.999),
        span("top", start_ms=-1, end_ms=-2),
    ],
    # The last is a good row once more.
    "repeated SpanID": [span("top", start_ms=5, end_ms=6), span("a", "c", 7, 8), GOOD[4]],
}


@pytest.fixture(scope="module")
def spoilt_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the good rows with all bad ones among them."""
    bad = [row for rows in BAD.values() for row in rows]
    lines = [HEADER, *bad[:9], *GOOD, *bad[9:]]
    return write_lines(tmp_path_factory.mktemp("spoilt") / "Nezha spoilt+1.csv", lines)


@pytest.fixture(scope="module")
def spoilt(spark: SparkSession, spoilt_file: Path) -> ImportedRows:
    """Import the good rows with all bad ones among them."""
    return imported_rows(spark, spoilt_file, timeout_ms=250)


def test_every_bad_row_is_counted_by_its_reason(spoilt: ImportedRows) -> None:
    """And what came in was kept or rejected."""
    assert spoilt.rejected == {reason: len(rows) for reason, rows in BAD.items()}
    bad = sum(map(len, BAD.values()))
    assert spoilt.came_in == {"spans": len(GOOD) + bad, "spans kept": len(GOOD)}


def test_every_bad_row_is_kept_with_its_file(spoilt: ImportedRows) -> None:
    """Malformed ones as they stood in the file, others as JSON."""
    assert {source for _, source, _ in spoilt.rejects} == {"Nezha spoilt+1.csv"}
    malformed = sorted(row for reason, _, row in spoilt.rejects if reason == "malformed row")
    assert malformed == sorted(BAD["malformed row"])
    names = HEADER.split(",")
    for reason, _, row in spoilt.rejects:
        if reason != "malformed row":
            given = json.loads(row)
            assert ",".join(given.get(name, "") for name in names) in BAD[reason]


def test_good_rows_are_the_same_with_bad_ones_among_them(
    clean: ImportedRows, spoilt: ImportedRows
) -> None:
    """Nothing is lost, and nothing slips in; of repeated ids the first by time stays."""
    assert spoilt.requests == clean.requests
    assert spoilt.events == clean.events


def test_trace_folder_reads_back_as_what_was_read(
    spark: SparkSession,
    spoilt_file: Path,
    spoilt: ImportedRows,
    tmp_path: Path,
) -> None:
    """Good rows and bad ones; the incident that is known of a trace of this name is marked."""
    assert_written_as_read(
        spark, spoilt_file, tmp_path / "trace", spoilt, known=(INCIDENT,), timeout_ms=250
    )


def test_parquet_of_typed_timestamps_and_other_names_is_the_same_trace(
    spark: SparkSession,
    clean: ImportedRows,
    tmp_path: Path,
) -> None:
    """Nanoseconds too, which pandas writes and Spark does not know.

    A mapping names the columns, in any order.
    """
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


def test_missing_columns_are_named_with_the_file_and_what_it_has(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also when it is only one file of a folder."""
    write_lines(tmp_path / "a.csv", [HEADER])
    lacking = write_lines(
        tmp_path / "b.csv", ["TraceID,SpanID,PodName,OperationName,StartTimeUnixNano"]
    )
    with pytest.raises(TraceFormatError) as told:
        import_spans(spark, [tmp_path / "a.csv", lacking])
    assert str(told.value) == (
        f"{lacking}: no column ParentID, EndTimeUnixNano; it has TraceID, SpanID, PodName, OperationName, StartTimeUnixNano"
    )
