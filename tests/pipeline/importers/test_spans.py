"""Span tables: who waits for whom, and what is set aside."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from request_purgatory.pipeline.importers.imported import TraceFormatError
from request_purgatory.pipeline.importers.spans import COLUMNS, import_spans
from request_purgatory.pipeline.traces import Trace
from tests.pipeline.trace_folders import NOON, NOON_US, imported, rejects, rows_of, write_lines

HEADER = "TraceID,SpanID,ParentID,PodName,OperationName,StartTimeUnixNano,EndTimeUnixNano,Duration"


def ns(after_ms: float) -> int:
    """A time after noon as whole nanoseconds since the epoch, 999 beyond the microsecond: as a double it would round up."""
    return NOON_US * 1000 + round(after_ms * 1_000_000) + 999


def span(
    span_id: str, parent: str = "root", start_ms: float = 0, end_ms: float = 1, *, pod: str = "web", does: str = "get"
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
def clean(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The good rows, imported."""
    folder = tmp_path_factory.mktemp("clean")
    return imported(spark, write_lines(folder / "spans.csv", [HEADER, *GOOD]), folder / "trace", timeout_ms=250)


def test_span_with_children_waits_for_each_of_them(spark: SparkSession, clean: Trace) -> None:
    """On its own host, from its start, whole microseconds rounded down; leaves and orphans ask for nothing."""
    assert clean.manifest["format"] == "spans"
    assert clean.manifest["rows"] == {"spans in": 6, "spans kept": 6, "rejected": 0, "requests out": 2, "events out": 4}
    common = {"timeout_ms": 250, "aggregate": "count", "threshold": 1.0, "quantifier": "all"}
    ms = timedelta(milliseconds=1)
    assert rows_of(clean.requests(spark)) == [
        {"host": "ads", "request_id": "c", "request_type": "pick", "arrived_at": NOON + 3 * ms, **common, "watch_keys": ["leaf"]},
        {
            "host": "front",
            "request_id": "top",
            "request_type": "home",
            "arrived_at": NOON,
            **common,
            "watch_keys": ["a", "b", "c"],
        },
    ]
    assert rows_of(clean.events(spark)) == [
        {"host": "ads", "key": "leaf", "occurred_at": NOON + 6 * ms, "amount": 1.0},
        {"host": "front", "key": "a", "occurred_at": NOON + 20.5 * ms, "amount": 1.0},
        {"host": "front", "key": "b", "occurred_at": NOON + 30 * ms, "amount": 1.0},
        {"host": "front", "key": "c", "occurred_at": NOON + 95 * ms, "amount": 1.0},
    ]


BAD = {
    "malformed row": ["t,short,root,web,get,1", span("long") + ",1", '"t,open,root,web,get', "\x00\x01\x02�"],
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
    "end before start": [span("x14", start_ms=1, end_ms=0.999)],
    "repeated SpanID": [span("top", start_ms=5, end_ms=6), span("a", "c", 7, 8)],
}


@pytest.fixture(scope="module")
def spoilt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """The good rows with all bad ones among them, imported."""
    folder = tmp_path_factory.mktemp("spoilt")
    bad = [row for rows in BAD.values() for row in rows]
    source = write_lines(folder / "spoilt spans+1.csv", [HEADER, *bad[:9], *GOOD, *bad[9:]])
    return imported(spark, source, folder / "trace", timeout_ms=250)


def test_every_bad_row_is_counted_by_its_reason(spoilt: Trace) -> None:
    """And what came in was kept or rejected."""
    manifest = json.loads((spoilt.path / "trace.json").read_text())
    assert manifest["rejected"] == {reason: len(rows) for reason, rows in sorted(BAD.items())}
    rows = manifest["rows"]
    assert rows["spans in"] == len(GOOD) + sum(map(len, BAD.values())) == rows["spans kept"] + rows["rejected"]


def test_every_bad_row_is_kept_with_its_file(spark: SparkSession, spoilt: Trace) -> None:
    """Malformed ones as they stood in the file, others as JSON."""
    found = rejects(spark, spoilt)
    assert {source for _, source, _ in found} == {"spoilt spans+1.csv"}
    assert sorted(row for reason, _, row in found if reason == "malformed row") == sorted(BAD["malformed row"])
    names = HEADER.split(",")
    for reason, _, row in found:
        if reason != "malformed row":
            given = json.loads(row)
            assert ",".join(given.get(name, "") for name in names) in BAD[reason]


def test_good_rows_are_the_same_with_bad_ones_among_them(spark: SparkSession, clean: Trace, spoilt: Trace) -> None:
    """Nothing is lost, and nothing slips in; of repeated ids the first by time stays."""
    assert rows_of(spoilt.requests(spark)) == rows_of(clean.requests(spark))
    assert rows_of(spoilt.events(spark)) == rows_of(clean.events(spark))


def test_parquet_of_typed_timestamps_and_other_names_is_the_same_trace(spark: SparkSession, clean: Trace, tmp_path: Path) -> None:
    """Nanoseconds too, which pandas writes and Spark does not know; a mapping names the columns, in any order."""
    rows = [row.split(",") for row in GOOD]
    ours = ["trace_id", "span_id", "parent_id", "service", "operation"]
    columns = {f"my `{name}`": pa.array([row[place] for row in rows]) for place, name in enumerate(ours)}
    for name, place, unit in (("start", 5, "ns"), ("end", 6, "us")):
        times = pa.array([int(row[place]) for row in rows]).cast(pa.timestamp("ns", tz="UTC"))
        columns[f"my `{name}`"] = times.cast(pa.timestamp(unit, tz="UTC"), safe=False)
    backwards = dict(reversed(columns.items()))
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table(backwards), tmp_path / "in" / "spans.parquet")
    mapping = {name: f"my `{name}`" for name in COLUMNS}
    typed = imported(spark, tmp_path / "in", tmp_path / "typed", columns=mapping, timeout_ms=250)
    assert typed.manifest["format"] == "spans"
    assert rows_of(typed.requests(spark)) == rows_of(clean.requests(spark))
    assert rows_of(typed.events(spark)) == rows_of(clean.events(spark))


def test_missing_columns_are_named_with_the_file_and_what_it_has(spark: SparkSession, tmp_path: Path) -> None:
    """Also when it is only one file of a folder."""
    write_lines(tmp_path / "a.csv", [HEADER])
    lacking = write_lines(tmp_path / "b.csv", ["TraceID,SpanID,PodName,OperationName,StartTimeUnixNano"])
    with pytest.raises(TraceFormatError) as told:
        import_spans(spark, [tmp_path / "a.csv", lacking])
    assert str(told.value) == (
        f"{lacking}: no column ParentID, EndTimeUnixNano; it has TraceID, SpanID, PodName, OperationName, StartTimeUnixNano"
    )
