"""Inputs and outputs of streams: addresses, JSON rows, unusable files, generated load."""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._cli.failures import describe_failure
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark.files import CORRUPT, RAW
from purgatory_spark._stream.endpoints.address import AddressOptions, parse_endpoints
from purgatory_spark._stream.endpoints.connector import (
    connector_settings,
    create_kafka_session,
    default_connector,
)
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.endpoints.folders import FolderSink, FolderSource
from purgatory_spark._stream.endpoints.json_rows import read_json_rows, to_json_row
from purgatory_spark._stream.endpoints.kafka import KafkaCluster, KafkaSink, KafkaSource
from purgatory_spark._stream.endpoints.rate import RateSource
from purgatory_spark._stream.run import StreamPlan, run_stream
from purgatory_spark.stream import StreamSettings
from request_purgatory.errors import InvalidArgumentError
from tests.spark.checkpoints import remove_commit
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.trace_strategies import events_table, requests_table

TIME_LIMIT = 120.0
SECOND = timedelta(seconds=1)


# -- addresses


def test_addresses_are_folders_topics_and_rates() -> None:
    options = AddressOptions("json", 3, 500, [("security.protocol", "SSL")])
    found = parse_endpoints("kafka://a:1,[::1]:2/calls", "in/events", "out", options)
    assert found.requests == KafkaSource(
        KafkaCluster("a:1,[::1]:2", {"security.protocol": "SSL"}), "calls", 500
    )
    assert found.events == FolderSource(Path("in/events"), "json", 3)
    assert found.out == FolderSink(Path("out"), "json")
    found = parse_endpoints(
        "rate://50?hosts=2&keys=7&timeout_ms=0", "rate://60?keys=7", "kafka://a:1/ended"
    )
    assert found.requests == RateSource(50, hosts=2, keys=7, timeout_ms=0)
    assert found.events == RateSource(60, keys=7)
    assert found.out == KafkaSink(KafkaCluster("a:1"), "ended")
    assert found.out.locations == ("kafka://a:1/ended", "kafka://a:1/ended.late")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"requests": "kafka://a:1"},
            r"requests must be kafka://HOST:PORT\[,HOST:PORT\]/TOPIC, got 'kafka://a:1'",
        ),
        (
            {"requests": "kafka://a/topic"},
            "servers must be HOST:PORT, with commas between several, got 'a'",
        ),
        ({"events": "kafka://a:1/to pic"}, "topic must be up to 249 letters, .* got 'to pic'"),
        ({"out": f"kafka://a:1/{'t' * 245}"}, "topic must be up to 249 letters"),
        ({"out": "rate://5"}, "out must be a local folder, or kafka://.*, got 'rate://5'"),
        (
            {"events": "s3://bucket/events"},
            "events must be a local folder, .* got 's3://bucket/events'",
        ),
        (
            {"requests": "rate://fast"},
            r"requests must be rate://ROWS_PER_SECOND\[.* got 'rate://fast'",
        ),
        ({"requests": "rate://0"}, "rows_per_second must be at least 1, got 0"),
        (
            {"events": "rate://5?timeout_ms=1"},
            r"events must be rate://ROWS_PER_SECOND\[\?hosts=N&keys=N\] with whole numbers, got",
        ),
        ({"rows_per_batch": 5}, "rows_per_batch must be used with a kafka:// input, got 5"),
        (
            {"kafka_options": [("sasl.jaas.config", "secret")]},
            r"kafka_option must be used with a kafka:// address, got \['sasl.jaas",
        ),
        (
            {"requests": "rate://1", "events": "rate://1", "files_per_batch": 2},
            "files_per_batch must be used with an input folder, got 2",
        ),
        (
            {"out": "kafka://a:1/t", "kafka_options": [("acks", "0")]},
            "the Kafka option acks must be left out: .* got '0'",
        ),
        (
            {"out": "kafka://a:1/t", "kafka_options": [("failOnDataLoss", "false")]},
            "a Kafka option must be one of Kafka's",
        ),
    ],
    ids=str,
)
def test_invalid_address_is_refused(changed: dict[str, Any], message: str) -> None:
    addresses = {name: changed.get(name, name) for name in ("requests", "events", "out")}
    options = AddressOptions(
        **{name: value for name, value in changed.items() if name not in addresses}
    )
    with pytest.raises(InvalidArgumentError, match=message):
        parse_endpoints(**addresses, options=options)


def test_unbounded_input_is_refused_for_a_stream_that_ends(tmp_path: Path) -> None:
    load = parse_endpoints("rate://5", "rate://5", str(tmp_path))
    with pytest.raises(
        InvalidArgumentError,
        match="requests must be an input that has an end, with available_now or drain",
    ):
        StreamPlan(load, tmp_path, drain=True)


def test_default_connector_fits_the_running_spark_and_scala(spark: SparkSession) -> None:
    scala = spark.sparkContext._jvm.scala.util.Properties.versionNumberString()  # type: ignore[union-attr]
    binary = ".".join(scala.split(".")[:2])
    assert default_connector() == f"org.apache.spark:spark-sql-kafka-0-10_{binary}:{spark.version}"


def test_connector_is_coordinates_or_jars_or_provided(tmp_path: Path) -> None:
    jar = tmp_path / "connector.jar"
    jar.touch()
    assert connector_settings(f"g:a:1,{jar},g:b:2") == {
        "spark.jars.packages": "g:a:1,g:b:2",
        "spark.jars": str(jar),
    }
    assert connector_settings("provided") == {}
    assert connector_settings(None) == {"spark.jars.packages": default_connector()}
    for wrong in ("4.2.0", str(tmp_path / "missing.jar")):
        with pytest.raises(InvalidArgumentError, match=r"kafka_connector must be .*, got"):
            connector_settings(wrong)


# -- rows as JSON

EVENT = {"host": "h", "key": "k", "occurred_at": "2024-01-01T00:00:00.123456Z", "amount": 1.0}
TEXT = json.dumps(EVENT)


def test_kafka_is_refused_with_spark_connect(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = r"kafka:// addresses do not work with Spark Connect, .* unset SPARK_REMOTE"
    remote = SimpleNamespace(spark=spark)
    with pytest.raises(EndpointError, match=message):
        KafkaSource(KafkaCluster("127.0.0.1:9"), "topic").identity(remote)  # type: ignore[arg-type]
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    with pytest.raises(EndpointError, match=message):
        create_kafka_session("provided")


def changed(**fields: Any) -> str:
    """Return an event with changed fields, as JSON."""
    return json.dumps(EVENT | fields)


VALUES: list[tuple[str | bytes | None, str | None]] = [
    (TEXT, None),
    (f" {TEXT}\n", None),
    (changed(key="{}", further={"a": [1]}), None),
    (changed(amount="Infinity"), None),
    ("{}", None),
    (TEXT[:-1], "not an object"),
    ("", "not an object"),
    ("null", "not an object"),
    ("7", "not an object"),
    (f"[{TEXT}]", "not an object"),
    ('{"a":' * 2000 + "1" + "}" * 2000, "not an object"),
    (TEXT + TEXT, "more than one object"),
    (TEXT + " x", "more than one object"),
    (TEXT + ', "further": 1', "more than one object"),
    (changed(amount="1"), "amount is not of type double"),
    (changed(occurred_at="soon"), "occurred_at is not of type timestamp"),
    (TEXT.encode().replace(b"h", b"\xff", 1), "not UTF-8 (row is in base64)"),
    (None, "the value is null"),
]


def test_value_is_a_row_or_has_a_reason(spark: SparkSession) -> None:
    raw = [(value.encode() if isinstance(value, str) else value,) for value, _ in VALUES]
    found = read_json_rows(spark.createDataFrame(raw, "value BINARY"), EVENTS).collect()
    for (value, reason), row in zip(VALUES, found, strict=True):
        text = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        assert (row[CORRUPT], row[RAW]) == (
            (f"invalid JSON row: {reason}", text) if reason else (None, None)
        )
    assert [tuple(row)[:4] for row in found[:2]] == [("h", "k", found[0]["occurred_at"], 1.0)] * 2


def test_rows_survive_json(spark: SparkSession) -> None:
    requests = [
        TraceRequest("é\n", -1, 0, [], "sum", float("inf"), "any"),
        TraceRequest("", 10**15 + 1, 2**31 - 1, ["", '{"'], "max", -0.1, "all"),
    ]
    table = spark.createDataFrame(requests_table(requests))
    back = read_json_rows(table.select(to_json_row(table.columns).alias("value")), REQUESTS)
    assert back.select(*table.columns).collect() == table.collect()
    assert back.where(F.col(CORRUPT).isNotNull()).count() == 0


# -- folders


def plan(folder: Path, **options: Any) -> StreamPlan:
    """Return the plan of a stream of the files in a folder, one of each kind per batch."""
    for name in ("requests", "events"):
        (folder / name).mkdir(exist_ok=True)
    format = options.pop("format", "parquet")
    found = parse_endpoints(
        *[str(folder / name) for name in ("requests", "events", "out")], AddressOptions(format, 1)
    )
    return StreamPlan(
        found,
        folder / "checkpoint",
        settings=StreamSettings(shards=2, watermark_delay_ms=0),
        **options,
    )


@pytest.mark.slow
def test_invalid_lines_are_reported_unchanged(streaming: SparkSession, tmp_path: Path) -> None:
    chosen = plan(tmp_path, format="json", drain=True)
    condition = {
        "aggregate": "count",
        "threshold": 1,
        "quantifier": "all",
        "watch_keys": ["k"],
        "timeout_ms": 5,
    }
    request = {
        "host": "h",
        "request_id": "r",
        "arrived_at": "2024-01-01T00:00:00.000007Z",
        **condition,
    }
    lines = [
        "\ufeff" + json.dumps(request),
        "",
        json.dumps(request | {"timeout_ms": "5"}),
        "x",
        json.dumps(request | {"host": None}),
    ]
    (tmp_path / "requests" / "a.json").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "events" / "a.json").write_bytes(b'{"host":"\xff"}\r\n')
    run_stream(streaming, chosen, lambda batch: None)
    out = {kind: read_lines(tmp_path / "out" / f"kind={kind}") for kind in ("outcomes", "late")}
    assert [(row["arrived_at"], row["ended_at"], row["waited_ms"]) for row in out["outcomes"]] == [
        ("2024-01-01T00:00:00.000007Z", "2024-01-01T00:00:00.005007Z", 5.0)
    ]
    late = sorted((row["reason"], row["row"]) for row in out["late"])
    assert late[:-1] == [
        (
            "invalid JSON row: not UTF-8 (row is in base64)",
            base64.b64encode(b'{"host":"\xff"}').decode(),
        ),
        ("invalid JSON row: not an object", "x"),
        ("invalid JSON row: timeout_ms is not of type int", lines[2]),
    ]
    assert (late[-1][0], json.loads(late[-1][1])["arrived_at"]) == (
        "null host",
        "2024-01-01T00:00:00.000007Z",
    )


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of JSON files."""
    return [
        json.loads(line)
        for file in folder.glob("*.json")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.slow
def test_unusable_file_stops_the_stream_until_it_is_repaired(
    streaming: SparkSession, tmp_path: Path
) -> None:
    chosen = plan(tmp_path, available_now=True)
    tables = [
        requests_table(
            [
                TraceRequest(
                    f"r{file}{row}", 10**15 + 10 * file + row, 5, ["k"], "count", 1.0, "all"
                )
                for row in range(3)
            ]
        )
        for file in range(4)
    ]
    files = [tmp_path / "requests" / f"{number} a.parquet" for number in range(4)]
    for file, table in zip(files, tables, strict=True):
        pq.write_table(table, file)
    pq.write_table(events_table([TraceEvent("k", 10**15, 1.0)]), tmp_path / "events" / "0.parquet")
    text = pa.array([str(value) for value in tables[1].column("timeout_ms").to_pylist()])
    pq.write_table(tables[1].set_column(4, "timeout_ms", text), files[1])
    pq.write_table(tables[2].drop(["request_type"]), files[2])
    files[3].write_bytes(files[3].read_bytes()[:-50])
    for number, file in enumerate(files):
        # Spark takes the oldest first.
        os.utime(file, (1e9 + number, 1e9 + number))
    wrong = {
        1: "column timeout_ms is string, not int32",
        2: "missing columns: request_type; the file has host, request_id, arrived_at,",
        3: "can't be read as Parquet (",
    }
    for number, message in wrong.items():
        with pytest.raises(StreamingQueryException) as failure:
            run_stream(streaming, chosen, lambda batch: None)
        code, text = describe_failure(failure.value)
        assert code == 2
        assert text.startswith(f"{files[number]}: {message}")
        pq.write_table(tables[number], files[number])
    run_stream(streaming, replace(chosen, available_now=False, drain=True), lambda batch: None)
    ended = streaming.read.parquet(str(tmp_path / "out")).select("kind", "request_id").collect()
    assert sorted(ended) == [
        ("outcomes", name) for table in tables for name in table.column("request_id").to_pylist()
    ]


# -- a load


def test_load_has_the_clocks_times_and_is_repeatable(spark: SparkSession, tmp_path: Path) -> None:
    requests = RateSource(20, hosts=2, keys=3, timeout_ms=7).read(spark, REQUESTS)
    events = RateSource(20, hosts=2, keys=3).read(spark, EVENTS)
    assert [table.schema.simpleString() for table in (requests, events)] == [
        table.simpleString() for table in (REQUESTS, EVENTS)
    ]
    checkpoint = tmp_path / "checkpoint"
    started = datetime.now(UTC)
    first = batches_until_rows(requests, checkpoint)
    last = max(first)
    remove_commit(checkpoint, last)
    repeated = batches_until_rows(requests, checkpoint)
    rows = first[last]
    assert repeated[last] == rows
    assert {row["host"] for row in rows} == {"host-0", "host-1"}
    assert {row["watch_keys"][0] for row in rows} == {"key-0", "key-1", "key-2"}
    assert {row["timeout_ms"] for row in rows} == {7}
    numbers = [_number(row) for row in rows]
    assert numbers == list(range(numbers[0], numbers[0] + len(rows)))
    now = datetime.now(UTC)
    assert all(
        started - SECOND < moment.astimezone(UTC) < now
        for moment in (row["arrived_at"] for row in rows)
    )


def batches_until_rows(table: DataFrame, checkpoint: Path) -> dict[int, list[Any]]:
    """Return the rows of a stream's batches by number, up to the first batch with rows."""
    found: dict[int, list[Any]] = {}
    writer = table.writeStream.foreachBatch(
        lambda rows, number: found.update({number: sorted(rows.collect(), key=_number)})
    )
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        deadline = time.monotonic() + TIME_LIMIT
        while not any(found.values()) and time.monotonic() < deadline:
            assert query.isActive, query.exception()
            query.awaitTermination(0.2)
    finally:
        query.stop()
    return {number: rows for number, rows in found.items() if rows}


def _number(row: Any) -> int:
    return int(row["request_id"].removeprefix("request-"))
