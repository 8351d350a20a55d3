"""What streams read and write.

Addresses, rows as JSON, files that are not what they should be, a load made up.
"""

from __future__ import annotations

import base64
import json
import os
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from request_purgatory.cli.failures import describe_failure
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.stream import StreamSettings
from request_purgatory.pipeline.stream.endpoints import (
    FolderSink,
    FolderSource,
    KafkaCluster,
    KafkaSink,
    KafkaSource,
    RateSource,
)
from request_purgatory.pipeline.stream.endpoints.address import AddressOptions, endpoints
from request_purgatory.pipeline.stream.endpoints.connector import (
    connector_of_spark,
    connector_settings,
)
from request_purgatory.pipeline.stream.endpoints.json_rows import read_json_rows, to_json_row
from request_purgatory.pipeline.stream.run import StreamPlan, run_stream
from request_purgatory.pipeline.traces.importers.imported import CORRUPT, RAW
from request_purgatory.pipeline.traces.schema import EVENTS, REQUESTS
from tests.model.naive_trace import TraceEvent, TraceRequest
from tests.spark.checkpoints import as_before_its_end
from tests.spark.trace_strategies import events_table, requests_table

TIME_LIMIT = 120.0
SECOND = timedelta(seconds=1)


# -- addresses


def test_addresses_are_folders_topics_and_rates() -> None:
    """In any mix."""
    options = AddressOptions("json", 3, 500, [("security.protocol", "SSL")])
    found = endpoints("kafka://a:1,[::1]:2/calls", "in/events", "out", options)
    assert found.requests == KafkaSource(
        KafkaCluster("a:1,[::1]:2", {"security.protocol": "SSL"}), "calls", 500
    )
    assert found.events == FolderSource(Path("in/events"), "json", 3)
    assert found.out == FolderSink(Path("out"), "json")
    found = endpoints(
        "rate://50?hosts=2&keys=7&timeout_ms=0", "rate://60?keys=7", "kafka://a:1/ended"
    )
    assert found.requests == RateSource(50, hosts=2, keys=7, timeout_ms=0)
    assert found.events == RateSource(60, keys=7)
    assert found.out == KafkaSink(KafkaCluster("a:1"), "ended")
    assert found.out.places == ("kafka://a:1/ended", "kafka://a:1/ended.late")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"requests": "kafka://a:1"},
            r"requests must be kafka://HOST:PORT\[,HOST:PORT\]/TOPIC, got 'kafka://a:1'",
        ),
        (
            {"requests": "kafka://a/topic"},
            "servers must be HOST:PORT, with commas between them, got 'a'",
        ),
        ({"events": "kafka://a:1/to pic"}, "topic must be up to 249 letters, .* got 'to pic'"),
        ({"out": f"kafka://a:1/{'t' * 245}"}, "topic must be up to 249 letters"),
        ({"out": "rate://5"}, "out must be a folder of this machine, kafka://.*, got 'rate://5'"),
        (
            {"events": "s3://bucket/events"},
            "events must be a folder of this machine, .* got 's3://bucket/events'",
        ),
        (
            {"requests": "rate://fast"},
            "requests must be rate://ROWS_PER_SECOND, .* got 'rate://fast'",
        ),
        ({"requests": "rate://0"}, "rows_per_second must be at least 1, got 0"),
        (
            {"events": "rate://5?timeout_ms=1"},
            "events must be rate://ROWS_PER_SECOND, and maybe . and hosts=N, keys=N",
        ),
        ({"rows_per_batch": 5}, "rows_per_batch must be for a kafka:// input, got 5"),
        (
            {"kafka_options": [("sasl.jaas.config", "secret")]},
            r"kafka_option must be for a kafka:// address, got \['sasl.jaas",
        ),
        (
            {"requests": "rate://1", "events": "rate://1", "files_per_batch": 2},
            "files_per_batch must be for an input that is a",
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
def test_what_is_no_address_is_refused(changed: dict[str, Any], message: str) -> None:
    """By what was given, before anything is read."""
    places = {name: changed.get(name, name) for name in ("requests", "events", "out")}
    options = AddressOptions(
        **{name: value for name, value in changed.items() if name not in places}
    )
    with pytest.raises(InvalidArgumentError, match=message):
        endpoints(**places, options=options)


def test_endless_input_is_not_taken_as_one_that_ends(tmp_path: Path) -> None:
    """A rate has no last row."""
    load = endpoints("rate://5", "rate://5", str(tmp_path))
    with pytest.raises(
        InvalidArgumentError, match="an input must be one that has an end, with finish or available"
    ):
        StreamPlan(load, tmp_path, finish=True)


def test_connector_is_that_of_the_spark_and_scala_that_run(spark: SparkSession) -> None:
    """As Spark itself tells them."""
    scala = spark.sparkContext._jvm.scala.util.Properties.versionNumberString()  # type: ignore[union-attr]
    binary = ".".join(scala.split(".")[:2])
    assert connector_of_spark() == f"org.apache.spark:spark-sql-kafka-0-10_{binary}:{spark.version}"


def test_connector_is_coordinates_or_jars_or_provided(tmp_path: Path) -> None:
    """Anything else is refused."""
    jar = tmp_path / "connector.jar"
    jar.touch()
    assert connector_settings(f"g:a:1,{jar},g:b:2") == {
        "spark.jars.packages": "g:a:1,g:b:2",
        "spark.jars": str(jar),
    }
    assert connector_settings("provided") == {}
    assert connector_settings(None) == {"spark.jars.packages": connector_of_spark()}
    for wrong in ("4.2.0", str(tmp_path / "missing.jar")):
        with pytest.raises(InvalidArgumentError, match=r"kafka_connector must be .*, got"):
            connector_settings(wrong)


# -- rows as JSON

EVENT = {"host": "h", "key": "k", "occurred_at": "2024-01-01T00:00:00.123456Z", "amount": 1.0}
TEXT = json.dumps(EVENT)


def changed(**fields: Any) -> str:
    """An event with other fields, as JSON."""
    return json.dumps(EVENT | fields)


VALUES: list[tuple[str | bytes | None, str | None]] = [
    (TEXT, None),
    (f" {TEXT}\n", None),
    (changed(key="{}", further={"a": [1]}), None),
    (changed(amount="Infinity"), None),
    ("{}", None),
    (TEXT[:-1], "no JSON object"),
    ("", "no JSON object"),
    ("null", "no JSON object"),
    ("7", "no JSON object"),
    (f"[{TEXT}]", "no JSON object"),
    ('{"a":' * 2000 + "1" + "}" * 2000, "no JSON object"),
    (TEXT + TEXT, "more than one object"),
    (TEXT + " x", "more than one object"),
    (TEXT + ', "further": 1', "more than one object"),
    (changed(amount="1"), "amount is no double"),
    (changed(occurred_at="soon"), "occurred_at is no timestamp"),
    (TEXT.encode().replace(b"h", b"\xff", 1), "no UTF-8; the row is its base64"),
    (None, "no value"),
]


def test_values_are_rows_or_are_told(spark: SparkSession) -> None:
    """Nothing is taken for a row in part."""
    raw = [(value.encode() if isinstance(value, str) else value,) for value, _ in VALUES]
    found = read_json_rows(spark.createDataFrame(raw, "value BINARY"), EVENTS).collect()
    for (value, why), row in zip(VALUES, found, strict=True):
        text = base64.b64encode(value).decode() if isinstance(value, bytes) else value
        assert (row[CORRUPT], row[RAW]) == (
            (f"not JSON of the table: {why}", text) if why else (None, None)
        )
    assert [tuple(row)[:4] for row in found[:2]] == [("h", "k", found[0]["occurred_at"], 1.0)] * 2


def test_rows_are_the_same_after_they_were_json(spark: SparkSession) -> None:
    """To the microsecond, and with numbers that JSON has no way to write."""
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
    """A stream of the files in a folder, a file a batch."""
    for name in ("requests", "events"):
        (folder / name).mkdir(exist_ok=True)
    format = options.pop("format", "parquet")
    found = endpoints(
        *[str(folder / name) for name in ("requests", "events", "out")], AddressOptions(format, 1)
    )
    return StreamPlan(
        found, folder / "checkpoint", settings=StreamSettings(shards=2, delay_ms=0), **options
    )


def test_lines_that_are_no_rows_are_told_as_they_stand(
    streaming: SparkSession, tmp_path: Path
) -> None:
    """In JSON folders too, whose times keep their microseconds."""
    chosen = plan(tmp_path, format="json", finish=True)
    asked = {
        "aggregate": "count",
        "threshold": 1,
        "quantifier": "all",
        "watch_keys": ["k"],
        "timeout_ms": 5,
    }
    request = {"host": "h", "request_id": "r", "arrived_at": "2024-01-01T00:00:00.000007Z", **asked}
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
    told = sorted((row["reason"], row["row"]) for row in out["late"])
    assert told[:-1] == [
        ("not JSON of the table: no JSON object", "x"),
        (
            "not JSON of the table: no UTF-8; the row is its base64",
            base64.b64encode(b'{"host":"\xff"}').decode(),
        ),
        ("not JSON of the table: timeout_ms is no int", lines[2]),
    ]
    assert (told[-1][0], json.loads(told[-1][1])["arrived_at"]) == (
        "null host",
        "2024-01-01T00:00:00.000007Z",
    )


def read_lines(folder: Path) -> list[dict[str, Any]]:
    """The rows of JSON files."""
    return [
        json.loads(line)
        for file in folder.glob("*.json")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]


def test_file_that_is_not_as_it_should_be_stops_the_stream_until_it_is_mended(
    streaming: SparkSession, tmp_path: Path
) -> None:
    """With its name and what is wrong; nothing is lost."""
    chosen = plan(tmp_path, available=True)
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
        1: "column timeout_ms is of the Parquet type BINARY, not int",
        2: "no column request_type; it has host, request_id, arrived_at,",
        3: "can't be read to its end; the file is damaged",
    }
    for number, message in wrong.items():
        with pytest.raises(StreamingQueryException) as failure:
            run_stream(streaming, chosen, lambda batch: None)
        code, told = describe_failure(failure.value)
        assert code == 2
        assert told.startswith(f"{files[number]}: {message}")
        pq.write_table(tables[number], files[number])
    run_stream(streaming, replace(chosen, available=False, finish=True), lambda batch: None)
    ended = streaming.read.parquet(str(tmp_path / "out")).select("kind", "request_id").collect()
    assert sorted(ended) == [
        ("outcomes", name) for table in tables for name in table.column("request_id").to_pylist()
    ]


# -- a load


def test_load_is_of_the_present_and_the_same_when_it_is_read_again(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A batch that was not committed has the same rows after a restart."""
    requests = RateSource(20, hosts=2, keys=3, timeout_ms=7).read(spark, REQUESTS)
    events = RateSource(20, hosts=2, keys=3).read(spark, EVENTS)
    assert [table.schema.simpleString() for table in (requests, events)] == [
        table.simpleString() for table in (REQUESTS, EVENTS)
    ]
    checkpoint = tmp_path / "checkpoint"
    started = datetime.now(UTC)
    first = batches_until_rows(requests, checkpoint)
    last = max(first)
    as_before_its_end(checkpoint, last)
    again = batches_until_rows(requests, checkpoint)
    rows = first[last]
    assert again[last] == rows
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
    """The rows of a stream's batches, by number, up to the first one that has any."""
    found: dict[int, list[Any]] = {}
    writer = table.writeStream.foreachBatch(
        lambda rows, number: found.update({number: sorted(rows.collect(), key=_number)})
    )
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    try:
        until = time.monotonic() + TIME_LIMIT
        while not any(found.values()) and time.monotonic() < until:
            assert query.isActive, query.exception()
            query.awaitTermination(0.2)
    finally:
        query.stop()
    return {number: rows for number, rows in found.items() if rows}


def _number(row: Any) -> int:
    return int(row["request_id"].removeprefix("request-"))
