"""Tests of where tables come from: files of all formats, URIs, and the catalog."""

from __future__ import annotations

import gzip
import json
from datetime import UTC
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.table_source import TableSource
from purgatory_spark._spark.csv_files import has_quoted_newline
from purgatory_spark._traces.trace_reader import ImportSettings, check_source, read_trace
from tests.spark.trace_folders import NOON, Row, imported_rows, write_lines

COLUMNS = {"request_id": "id", "arrived_at": "at", "watch_keys": "keys"}
EVENT_COLUMNS = {"key": "key", "occurred_at": "at"}
REQUEST = {"id": 1, "at": "2022-08-22T12:00:00Z", "keys": [7, 8]}
EVENT = {"key": 7, "at": "2022-08-22T12:00:00Z"}


def write_json(file: Path, *rows: object) -> Path:
    """Write an object a line."""
    return write_lines(file, [json.dumps(row) for row in rows])


def requests_of(spark: SparkSession, source: Path | str, events: Path | str) -> list[Row]:
    """Import requests and events of these sources, and return the requests."""
    found = imported_rows(
        spark,
        source,
        columns=COLUMNS,
        events=str(events),
        event_columns=EVENT_COLUMNS,
        quantifier="1",
    )
    assert [(row["key"], row["occurred_at"]) for row in found.events] == [("7", NOON)]
    assert found.rejects == []
    return found.requests


def test_json_lines_have_arrays_and_malformed_lines(spark: SparkSession, tmp_path: Path) -> None:
    source = write_lines(
        tmp_path / "calls.jsonl.gz.plain", [json.dumps(REQUEST), "{cut", json.dumps({"id": 2})]
    )
    packed = tmp_path / "calls.jsonl.gz"
    packed.write_bytes(gzip.compress(source.read_bytes()))
    events = write_json(tmp_path / "acks.ndjson", EVENT, {"key": 1.5, "at": "soon"})
    found = imported_rows(
        spark, packed, columns=COLUMNS, events=str(events), event_columns=EVENT_COLUMNS
    )
    assert [(row["request_id"], row["watch_keys"]) for row in found.requests] == [("1", ["7", "8"])]
    assert [row["key"] for row in found.events] == ["7"]
    assert found.rejects == [
        ("malformed row", "calls.jsonl.gz", "{cut"),
        ("null at", "calls.jsonl.gz", '{"id":2}'),
        ("unparsable at", "acks.ndjson", '{"at":"soon","key":1.5}'),
    ]
    assert found.rows_read == {"rows": 3, "events": 2}


@pytest.mark.slow
def test_every_kind_of_source_gives_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    plain = write_json(tmp_path / "calls.json", REQUEST)
    named = write_json(tmp_path / "calls.log", REQUEST)
    schema = "id int, at string, keys array<int>"
    table = spark.createDataFrame([(1, REQUEST["at"], [7, 8])], schema)
    table.createOrReplaceTempView("calls_of_test")
    for kind in ("orc", "parquet"):
        table.selectExpr("*", "'x' day").write.partitionBy("day").format(kind).save(
            (tmp_path / f"{kind}-partitions").as_uri()
        )
    orc.write_table(
        pa.table({"id": [1], "at": [REQUEST["at"]], "keys": pa.array([[7, 8]])}),
        tmp_path / "calls.orc",
    )
    events = write_lines(tmp_path / "acks.csv", ["key,at", "7,2022-08-22T12:00:00Z"])
    expected = requests_of(spark, plain, events)
    assert len(expected) == 1
    for source in (
        f"json:{named}",
        plain.as_uri(),
        "table:calls_of_test",
        tmp_path / "calls.orc",
        f"orc:{tmp_path / 'orc-partitions'}",
        f"parquet:{tmp_path / 'parquet-partitions'}",
    ):
        assert requests_of(spark, source, f"csv:{events.as_uri()}") == expected, source


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delta:{}", "this session has no data source 'delta'; add its package"),
        ("avro:{}", "this session has no data source 'avro'; add its package"),
        ("iceberg:db.calls", "this session has no data source 'iceberg'"),
        ("table:no_such_table_here", r"can't be read as table \(.*TABLE_OR_VIEW_NOT_FOUND"),
        ("orc:file:///no/such.orc", r"can't be read as orc \(.*PATH_NOT_FOUND"),
    ],
)
def test_source_that_the_session_lacks_is_an_error(
    spark: SparkSession, tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(TraceFormatError, match=message):
        imported_rows(spark, text.format(tmp_path), columns={"arrived_at": "a", "ended_at": "b"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("csv:", "expected FORMAT:NAME_OR_PATH"),
        ("json:/no/such/file", "/no/such/file: no such file or folder"),
        ("s3a://bucket/calls", "the format can't be told from the name; write FORMAT:s3a://bucket"),
        ("orc:s3a://bucket/calls", "name the --format, or map fields"),
    ],
)
def test_source_that_can_not_be_told_is_an_error(text: str, message: str) -> None:
    with pytest.raises(TraceFormatError, match=message):
        check_source(text, ImportSettings())


def test_names_of_sources() -> None:
    names = {
        "table:lake.calls": "lake.calls",
        "delta:s3a://bucket/calls/": "calls",
        "s3a://bucket/calls.parquet": "calls.parquet",
        "iceberg:lake.db.calls": "lake.db.calls",
    }
    assert {text: TableSource.parse(text).name for text in names} == names


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"events": "no.csv", "event_columns": EVENT_COLUMNS}, "no.csv: no such file"),
        ({"events": "no.csv"}, "there is a table of events, but no mapping of it"),
        ({"event_columns": EVENT_COLUMNS}, "there is a mapping of events, but no --events"),
        ({"format": "recorded", "columns": {}, "events": "a"}, "recorded takes no --events"),
        ({"format": "spans", "columns": {}, "time_zone": "UTC"}, "spans takes no --time-zone"),
    ],
)
def test_settings_that_do_not_apply_are_errors(
    tmp_path: Path, settings: dict[str, object], message: str
) -> None:
    source = write_json(tmp_path / "calls.json", REQUEST)
    with pytest.raises(TraceFormatError, match=message):
        check_source(source, ImportSettings(**{"columns": COLUMNS, **settings}))  # type: ignore[arg-type]


def test_missing_column_of_json_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    source = write_json(tmp_path / "calls.json", {"start": 1, "took": 2})
    with pytest.raises(TraceFormatError, match=r"missing columns: at; the file has start, took"):
        imported_rows(spark, source, columns={"arrived_at": "at", "ended_at": "start"})


def test_quoted_fields_may_have_newlines(spark: SparkSession, tmp_path: Path) -> None:
    lines = ["id,note,at,end", '"a\nb","x ""y""\n",1000,1010', "c,,2000,", '"d\r\n",5" wide,3000,x']
    text = "\n".join([*lines, "short", '"e",plain,4000,4001,more', ""])
    files = {"plain.csv": text.encode(), "packed.csv.gz": gzip.compress(text.encode())}
    found = []
    for name, content in files.items():
        source = tmp_path / name
        source.write_bytes(content)
        columns = {"request_id": "id", "arrived_at": "at", "ended_at": "end"}
        rows = imported_rows(spark, source, columns=columns, time_unit="ms")
        rejects = [(reason, row) for reason, _, row in rows.rejects]
        found.append((sorted(row["request_id"] for row in rows.requests), rejects))
    assert found[0] == found[1]
    ids, rejects = found[0]
    assert ids == ["a\nb", "c"]
    assert rejects == [
        ("malformed row", '"e",plain,4000,4001,more'),
        ("malformed row", "short"),
        (
            "unparsable end",
            json.dumps(
                {"id": "d\r\n", "note": '5" wide', "at": "3000", "end": "x"}, separators=(",", ":")
            ),
        ),
    ]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"", False),
        (b'a,"b"\n"c ""d""",\n', False),
        (b'a,"b\nc"\n', True),
        (b"a,b\nc,d\n" * 700_000 + b'"e\nf"', True),
        (b"a," + b"x" * 2**23 + b'"\n"', True),
        (b'a,"' + b"x" * 2**23 + b"\n", False),
        (b'"a","b"\n' * 700_000, False),
        (b'a,"b\nc"\nd,"e\n', False),
        (b'a,"b\nc"\nd,5" wide\n', True),
        (b'a,"b ""\n"', True),
        (b'a,"b', False),
    ],
    ids=[
        "empty",
        "none",
        "one",
        "late",
        "between",
        "open",
        "quoted",
        "open later",
        "within",
        "doubled",
        "open at the end",
    ],
)
def test_newlines_in_quotes_are_found(tmp_path: Path, text: bytes, found: bool) -> None:
    file = tmp_path / "calls.csv"
    file.write_bytes(text)
    assert has_quoted_newline(file) is found


@pytest.mark.parametrize("partitioned", [pytest.param(False, marks=pytest.mark.slow), True])
def test_parquet_files_as_pandas_writes_them(
    spark: SparkSession, tmp_path: Path, partitioned: bool
) -> None:
    folder = tmp_path / "calls"
    times = {"ns": 1_000_000_000_999, "us": 1_000_000_001, "ms": 1_000_001}
    widths = [pa.int32(), pa.int64(), pa.int16()]
    floats = [pa.float32(), pa.float64(), pa.float32()]
    for number, (unit, at) in enumerate(times.items()):
        table = pa.table(
            {
                "id": pa.array([number], widths[number]),
                "at": pa.array([at], pa.timestamp(unit)),
                "took": pa.array([0.5], floats[number]),
            }
        )
        part = folder / f"pod={number % 2}" if partitioned else folder
        part.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, part / f"{number}.parquet")
    (part / "_ignored.parquet").touch()
    columns = {"request_id": "id", "arrived_at": "at", "service_ms": "took"}
    source = f"parquet:{folder}"
    found = imported_rows(spark, source, columns=columns | ({"host": "pod"} if partitioned else {}))
    assert found.rejects == []
    moments = ["00:16:40", "00:16:40.000001", "00:16:40.001000"]
    assert sorted(
        (row["request_id"], row["host"], str(row["arrived_at"].astimezone(UTC).time()))
        for row in found.requests
    ) == [
        (str(number), str(number % 2) if partitioned else "host-0", moment)
        for number, moment in enumerate(moments)
    ]
    assert len(found.events) == 3
    pq.write_table(pa.table({**table.to_pydict(), "id": ["x"]}), part / "text.parquet")
    with pytest.raises(TraceFormatError, match=r"text\.parquet: column id is string, but int"):
        read_trace(spark, source, ImportSettings(columns=columns))
