"""Streams of any columns: folders, records of Kafka, and streaming DataFrames of users' own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.columns import map_tables
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark.files import CORRUPT, RAW
from purgatory_spark._stream.endpoints.address import AddressOptions, parse_endpoints
from purgatory_spark._stream.endpoints.avro_rows import AvroMessages, require_avro
from purgatory_spark._stream.endpoints.connector import AVRO, spark_package
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.endpoints.folders import FolderSource
from purgatory_spark._stream.endpoints.kafka import needs_headers, read_records
from purgatory_spark._stream.endpoints.rate import RateSource
from purgatory_spark.stream import StreamSettings, delayed_operations, map_streams
from request_purgatory.errors import InvalidArgumentError
from tests.spark.command import command_runner

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)

#: Writes to replicas, which acknowledge them.
WRITES = {"request_id": "id", "arrived_at": "at", "watch_keys": "replicas", "quantifier": "acks"}
ACKS = {"key": "replica", "occurred_at": "at"}
MAPPING = TableMapping(WRITES, ACKS, time_unit="s", timeout_ms=5_000)

RECORD = (
    "key BINARY, value BINARY, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def record(
    value: object, key: bytes | None = None, headers: Mapping[str, bytes] | None = None
) -> tuple[Any, ...]:
    """Return a record of Kafka's; a value that is not bytes is written as JSON."""
    data = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
    pairs = None if headers is None else list(headers.items())
    return key, data, 1, 70, EPOCH + SECOND, pairs


def read(
    spark: SparkSession, records: list[tuple[Any, ...]], *columns: str, lists: Any = ()
) -> Any:
    """Return columns of records as lists, by name."""
    rows = read_records(spark.createDataFrame(records, RECORD), columns, lists, None).collect()
    return {name: [row[name] for row in rows] for name in (*columns, CORRUPT, RAW)}


def test_fields_of_json_are_text_of_any_type(spark: SparkSession) -> None:
    values: list[tuple[object, object, str | None]] = [
        ({"a.b": 7}, "7", None),
        ({"a.b": 7.0}, "7", None),
        ({"a.b": "7.0"}, "7.0", None),
        ({"a.b": 1700000000000000001}, "1700000000000000001", None),
        ({"a.b": True, "more": {"x": [1]}}, "true", None),
        ({"a.b": None}, None, None),
        ({"b": 1}, None, None),
        ({"a.b": "[x]"}, "[x]", None),
        ({"a.b": [7]}, ..., "a.b is not text or a number"),
        ({"a.b": {"c": 7}}, ..., "a.b is not text or a number"),
        ([{"a.b": 7}], ..., "not an object"),
        (b'{"a.b": 7', ..., "not an object"),
        (b'{"a.b": 7} {"a.b": 8}', ..., "more than one object"),
        (b"\xff", ..., "not UTF-8 (row is in base64)"),
        (None, ..., "the value is null"),
    ]
    found = read(spark, [record(value) for value, *_ in values], "a.b")
    for (value, text, reason), given, corrupt in zip(
        values, found["a.b"], found[CORRUPT], strict=True
    ):
        assert corrupt == (reason and f"invalid JSON row: {reason}"), value
        assert text in (given, ...), value
    assert found[RAW][:2] + found[RAW][-2:] == ['{"a.b": 7}', '{"a.b": 7.0}', "/w==", None]
    keys = [["a", 1, 2.5, None], [], "a", 3, None, ["["], [["a"]], [{}], {}]
    found = read(spark, [record({"k": each}) for each in keys], "k", lists=("k",))
    assert found["k"][:6] == [["a", "1", "2.5", None], [], ["a"], ["3"], None, ["["]]
    wrong = "invalid JSON row: k is not an array of text or numbers"
    assert found[CORRUPT] == [None] * 6 + [wrong] * 3
    with pytest.raises(InvalidArgumentError, match="a field of JSON must be a name with one kind"):
        read(spark, [], "a'\"")


def test_records_have_key_headers_and_position(spark: SparkSession) -> None:
    columns = ("kafka_headers.trace id", "kafka_key", "kafka_timestamp", "kafka_offset", "n")
    assert needs_headers(columns)
    assert not needs_headers(["kafka_key", "n"])
    twice = (b"k", b'{"n": 1}', 1, 7, EPOCH, [("trace id", b"1"), ("x", b"-"), ("trace id", b"2")])
    bad = [record({"n": 2}, b"\xff"), record({"n": 3}, b"k", {"trace id": b"\xfe"})]
    found = read(spark, [twice, record({"n": 4}), *bad], *columns)
    assert found["kafka_headers.trace id"] == ["2", None, None, "/g=="]
    assert found["kafka_key"] == ["k", None, "/w==", "k"]
    assert [moment.astimezone(UTC) - EPOCH for moment in found["kafka_timestamp"]][:2] == [
        0 * SECOND,
        SECOND,
    ]
    assert (found["kafka_offset"], found["n"]) == ([7, 70, 70, 70], ["1", "4", "2", "3"])
    reasons = [None, None, "kafka_key is not UTF-8", "kafka_headers.trace id is not UTF-8"]
    assert found[CORRUPT] == reasons
    row = json.loads(found[RAW][0])
    assert (row["kafka_headers.trace id"], row["value"]) == ("2", '{"n": 1}')
    # Without a field of the value, any value will do.
    found = read(spark, [record(None, b"k"), record(b"\xff", b"l")], "kafka_key", "kafka_partition")
    assert (found["kafka_key"], found[CORRUPT]) == (["k", "l"], [None, None])
    assert found[RAW][1] == '{"kafka_key":"l","kafka_partition":1,"value":"/w=="}'


def test_a_mapped_stream_has_the_rows_of_a_mapped_table(spark: SparkSession) -> None:
    requests = spark.createDataFrame(
        [
            (1.0, 1000, ["a", "b"], "2"),
            (2.0, 1001, ["a"], "2"),
            (None, 1002, ["a"], "1"),
            (4.0, 2**62, ["a"], "all"),
        ],
        "id DOUBLE, at BIGINT, replicas ARRAY<STRING>, acks STRING",
    )
    events = spark.createDataFrame([("a", 1002), (None, 1003)], "replica STRING, at BIGINT")
    batch = map_tables(requests, MAPPING, events=events)
    streams = map_streams(requests, MAPPING, events=events)
    rejects = []
    for stream, table in zip(streams, (batch.requests, batch.events), strict=True):
        rows = stream.collect()
        good = [tuple(row)[: len(table.columns)] for row in rows if row[CORRUPT] is None]
        assert good == [tuple(row) for row in table.collect()]
        assert all(json.loads(row[RAW]) for row in rows)
        rejects += [(row[CORRUPT], row[RAW]) for row in rows if row[CORRUPT] is not None]
    assert len(rejects) == 4
    assert sorted(rejects) == sorted((row["reason"], row["row"]) for row in batch.rejects.collect())


def written(frame: DataFrame, checkpoint: Path) -> list[Any]:
    """Return the rows of a streaming DataFrame without state."""
    writer = frame.writeStream.format("memory").queryName("written")
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return frame.sparkSession.table("written").collect()


def test_csv_files_have_the_columns_of_the_first_one(
    streaming: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    source = FolderSource(folder, "csv")
    with pytest.raises(TraceFormatError, match=r"no file whose name ends with \.csv, .*; a stream"):
        source.read_columns(streaming, ["id"], ())
    (folder / "1.csv").write_text('id,at,a,b\nr1,1,"x ""y""",b\nr2,2\nr3,3,,\nr4,soon,a,b\n')
    columns = {"request_id": "id", "arrived_at": "at", "watch_keys": ("a", "b")}
    mapping = TableMapping(columns, ACKS, time_unit="s")
    rows = source.read_columns(streaming, mapping.input_columns, mapping.list_columns)
    requests, _ = map_streams(
        rows, mapping, events=streaming.range(0).selectExpr("*", "id AS at", "'' AS replica")
    )
    found = written(requests, tmp_path / "checkpoint")
    assert [(row["request_id"], row["watch_keys"]) for row in found if not row[CORRUPT]] == [
        ("r1", ['x "y"', "b"])
    ]
    assert [(row[CORRUPT], row[RAW]) for row in found if row[CORRUPT]] == [
        ("malformed row", "r2,2"),
        ("null a, b", '{"id":"r3","at":"3"}'),
        ("unparsable at", '{"id":"r4","at":"soon","a":"a","b":"b"}'),
    ]
    (folder / "2.csv").write_text("at,id,a,b\n1,r1,a,b\n")
    with pytest.raises(StreamingQueryException) as failure:
        written(requests, tmp_path / "other")
    code, message = describe_failure(failure.value)
    assert code == 2
    assert message.startswith(f"{folder / '2.csv'}: can't be read: the file is damaged, or its col")
    (folder / "0.csv").write_text("id,ID\n")
    with pytest.raises(TraceFormatError, match="several columns are named 'id', but for the case"):
        source.read_columns(streaming, ["id"], ())


def test_parquet_files_have_the_types_of_the_first_one(
    streaming: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    at = pa.array([1_000_000_999], pa.timestamp("ns"))
    acks = pa.table({"replica": pa.array([7.0]), "at": at, "more": ["x"]})
    pq.write_table(acks, folder / "1.parquet")
    (folder / "0.parquet").touch()
    source = FolderSource(folder)
    writes = streaming.createDataFrame([], "id STRING, at BIGINT, replicas ARRAY<STRING>, acks INT")
    rows = source.read_columns(streaming, ["at", "replica"], ())
    _, events = map_streams(writes, MAPPING, events=rows)
    found = written(events, tmp_path / "checkpoint")
    assert [tuple(row)[1:4] for row in found] == [
        ("7", (EPOCH + SECOND).astimezone().replace(tzinfo=None), 1.0)
    ]
    with pytest.raises(TraceFormatError, match=r"1\.parquet: missing columns: other"):
        source.read_columns(streaming, ["other"], ())


@pytest.mark.slow
def test_parquet_file_without_a_mapped_column_ends_the_stream(
    streaming: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    acks = pa.table({"replica": ["a"], "at": [1]})
    pq.write_table(acks, folder / "1.parquet")
    rows = FolderSource(folder).read_columns(streaming, ["at", "replica"], ())
    writes = streaming.createDataFrame([], "id STRING, at BIGINT, replicas ARRAY<STRING>, acks INT")
    _, events = map_streams(writes, MAPPING, events=rows)
    pq.write_table(acks.drop(["replica"]), folder / "2.parquet")
    requests = streaming.readStream.schema(REQUESTS).parquet(str(folder)).where("false")
    results = delayed_operations(requests, events, settings=StreamSettings(shards=1))
    with pytest.raises(StreamingQueryException, match=r"2\.parquet: missing columns: replica"):
        written(results, tmp_path / "checkpoint")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "is_empty"),
    [
        ("parquet", False),
        ("parquet", True),
        ("partitions", False),
        ("mapped parquet", False),
        ("json", False),
        ("csv", True),
    ],
)
def test_later_file_that_spark_takes_for_a_pattern_ends_the_stream(
    streaming: SparkSession, tmp_path: Path, kind: str, is_empty: bool
) -> None:
    """Spark would read the batch's other file twice, even if the named one has no rows."""
    folder = tmp_path / "in"
    folder.mkdir()
    events = pa.table(
        {
            "host": ["a"],
            "key": ["x"],
            "occurred_at": pa.array([EPOCH + SECOND], pa.timestamp("us", tz="UTC")),
            "amount": [1.0],
        }
    )
    row = {"host": "a", "key": "x", "occurred_at": "1970-01-01T00:00:01Z", "amount": 1.0}
    suffix = {"json": "json", "csv": "csv"}.get(kind, "parquet")

    def write(name: str) -> None:
        file = folder / f"{name}.{suffix}"
        if is_empty and name == "[a]":
            file.touch()
        elif kind == "json":
            file.write_text(json.dumps(row) + "\n")
        elif kind == "csv":
            file.write_text("replica,at\na,1\n")
        else:
            rows = pa.table({"replica": ["a"], "at": [1]}) if kind.startswith("mapped") else events
            pq.write_table(rows, file)

    if kind == "partitions":
        folder = folder / "day=1"
        folder.mkdir()
    write("1")
    source = FolderSource(tmp_path / "in", "parquet" if suffix == "parquet" else suffix)
    (tmp_path / "none").mkdir()
    requests = streaming.readStream.schema(REQUESTS).parquet(str(tmp_path / "none"))
    if kind in ("mapped parquet", "csv"):
        rows = source.read_columns(streaming, ["at", "replica"], ())
        writes = streaming.createDataFrame(
            [], "id STRING, at BIGINT, replicas ARRAY<STRING>, acks INT"
        )
        _, table = map_streams(writes, MAPPING, events=rows)
    else:
        table = source.read(streaming, EVENTS)
    write("[a]")
    results = delayed_operations(requests, table, settings=StreamSettings(shards=1))
    with pytest.raises(
        StreamingQueryException, match=r"\[a\]\.\w+: in a stream, Spark reads files"
    ):
        written(results, tmp_path / "checkpoint")


@pytest.mark.slow
def test_users_own_streaming_frames_are_mapped(streaming: SparkSession, tmp_path: Path) -> None:
    for name, lines in (
        (
            "requests",
            [
                {"id": 1, "at": 1, "replicas": ["a", "b"], "acks": "1"},
                {"id": 2, "at": 1, "replicas": ["c"], "acks": "2"},
            ],
        ),
        ("events", [{"replica": "b", "at": 4}, {"replica": "x", "at": 60}]),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.json").write_text("\n".join(map(json.dumps, lines)))

    def frame(name: str, schema: str) -> DataFrame:
        return streaming.readStream.schema(schema).json(str(tmp_path / name))

    requests = frame("requests", "id BIGINT, at BIGINT, replicas ARRAY<STRING>, acks STRING")
    # Requests without a row of theirs would hold the watermark back.
    events = frame("events", "replica STRING, at BIGINT")
    ticks = events.selectExpr("timestamp_seconds(at) AS at")
    with pytest.raises(TraceFormatError, match="streaming DataFrames are mapped by map_streams"):
        map_tables(requests, MAPPING, events=events)
    mapped = map_streams(requests, MAPPING, events=events)
    settings = StreamSettings(shards=1, watermark_delay_ms=0)
    results = delayed_operations(*mapped, settings=settings, ticks=ticks)
    rows = written(results, tmp_path / "checkpoint")
    assert sorted((row["kind"], row["request_id"], row["reason"], row["row"]) for row in rows) == [
        ("late", None, "quorum of more keys than the request has", rows_json(2, ["c"], "2")),
        ("outcomes", "1", None, None),
    ]


def rows_json(number: int, replicas: list[str], acks: str) -> str:
    """Return a request of the test above as Spark writes it."""
    row = {"id": number, "at": 1, "replicas": replicas, "acks": acks}
    return json.dumps(row, separators=(",", ":"))


def test_mapping_that_a_stream_cannot_use_is_refused(tmp_path: Path) -> None:
    ended = TableMapping({"arrived_at": "at", "ended_at": "end"})
    with pytest.raises(TraceFormatError, match="events of a stream are an input of their own"):
        parse_endpoints("in", "in", "out", mapping=ended)
    numbered = TableMapping({"arrived_at": "at", "watch_keys": "k"}, ACKS)
    with pytest.raises(TraceFormatError, match=r"lacks request_id=COLUMN; a stream can't number"):
        parse_endpoints("in", "in", "out", mapping=numbered)
    topic = "kafka://a:1/topic"
    schema = tmp_path / "ack.avsc"
    schema.write_text(json.dumps({"type": "record", "name": "ack", "fields": []}))
    for addresses, options, mapping, message in (
        (
            ("rate://1", "in", "out"),
            {},
            MAPPING,
            "requests must be a folder or a topic, with --map",
        ),
        (("in", "in", "out"), {"format": "csv"}, None, "format must be one of parquet, json"),
        (("in", "in", "out"), {"kafka_key": "request_id"}, None, "kafka_key must be used with a"),
        (("in", "in", topic), {"kafka_key": "row"}, None, "kafka_key must be one of host, request"),
        ((topic, "in", "out"), {"avro_requests": schema}, None, "avro_requests must be used with"),
        ((topic, "in", "out"), {"avro_events": schema}, MAPPING, "avro_events must be used with"),
        ((topic, topic, "out"), {"avro_header": True}, MAPPING, "avro_header must be used with"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            parse_endpoints(*addresses, AddressOptions(**options), mapping)  # type: ignore[arg-type]
    schema.write_text("[]")
    with pytest.raises(EndpointError, match=r"ack\.avsc: not the Avro schema of a record"):
        AvroMessages(schema)
    with pytest.raises(EndpointError, match=r"a generated load .* takes no mapping"):
        RateSource(1).read_columns(None, [], ())  # type: ignore[arg-type]


def test_command_names_what_a_mapping_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    purgatory = command_runner(capsys)
    command = ("stream", "in", "in", "--out", "out", "--checkpoint", "checkpoint")
    keys = ("--map-events", "key=k")
    writes = ("--map", "request_id=id", "--map", "arrived_at=at")
    for options, message in (
        (("--time-unit", "ms"), "time_unit must be used with --map, got 'ms'"),
        (keys, "map_events must be used with --map, got {'key': 'k'}"),
        (writes, "the events of a stream are an input of their own: map their columns, too, with"),
        ((*writes, *keys), "the mapping of events lacks occurred_at=COLUMN"),
        ((*writes, "--map", "host=h", *keys, "--map-events", "occurred_at=at"), "lacks host="),
    ):
        ran = purgatory(*command, *options)
        assert ran.code == 2, options
        assert message in ran.err


def test_session_without_avro_is_refused_with_the_name_of_the_package(spark: SparkSession) -> None:
    assert spark_package(AVRO) == f"org.apache.spark:spark-avro_2.13:{spark.version}"
    with pytest.raises(
        EndpointError, match=rf"^Avro needs Spark's package {spark_package(AVRO)}, which"
    ):
        require_avro(spark)
