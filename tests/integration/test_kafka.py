"""Streams from and to Kafka brokers.

Each stream is a child process, because jars can't be added to a running JVM.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import py4j.java_gateway
import py4j.protocol
import pytest

from purgatory_broker import ClusterProcess
from purgatory_spark._stream.checkpoint import (
    CheckpointError,
    require_compatible_checkpoint,
)
from purgatory_spark._stream.endpoints.connector import default_connector
from purgatory_spark._stream.endpoints.endpoint import EndpointError
from purgatory_spark._stream.endpoints.kafka import KafkaCluster, KafkaSource
from purgatory_spark.stream import StreamSettings
from tests.spark.checkpoints import remove_commit
from tests.spark.job import Job, job, quick_spark
from tests.spark.kafka_broker import BROKER, jars, kafka_jvm, running_broker
from tests.spark.kafka_client import Broker, Record
from tests.spark.stream_files import (
    Row,
    StreamTrace,
    expected_outcomes,
    in_order,
    json_rows,
    stream_trace,
)
from tests.support.downloads import download_folder

#: A connector that works with a Spark whose own version is not on Maven Central, and the newest
#: version of the library that it needs.
OLDER_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)

#: A package for Avro that works with such a Spark.
OLDER_AVRO = "org.apache.spark:spark-avro_2.13:4.1.1"

# All tests run in one process: it starts the brokers, and Ivy's cache allows no two processes to
# write the same jar.
pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("kafka streams")]


def libraries(*modules: str, dependencies: bool = True) -> Path | None:
    """Return the folder of Maven modules' jars, which later runs use again; see `jars`."""
    with download_folder("kafka-jars") as folder:
        return jars(folder, *modules, dependencies=dependencies)


@pytest.fixture(scope="module")
def broker_libraries() -> Path:
    """Return the jars of Kafka's broker and clients."""
    found = libraries(*BROKER)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def broker(broker_libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Run Kafka's broker for all tests of this module."""
    with running_broker(broker_libraries, tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def light_broker() -> Iterator[Broker]:
    """Run this project's light broker for all tests of this module."""
    # Some records have a time of 2024: none are deleted for their age while the tests run.
    with ClusterProcess(nodes=3, log_retention_check_interval_ms=3_600_000) as cluster:
        yield Broker(cluster.bootstrap_servers.split(",")[0])


@pytest.fixture(params=["broker", "light_broker"], ids=["Kafka", "light broker"])
def either_broker(request: pytest.FixtureRequest) -> Broker:
    """Return Kafka's broker and the light broker in turn."""
    chosen: Broker = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="module")
def driver_jvm(broker_libraries: Path) -> Iterator[Any]:
    """Run a JVM with Kafka's clients, like the driver of a stream has."""
    # PySpark patches Py4J so that errors of every gateway are looked up in the session's JVM, which
    # does not have them. The session may be of an earlier test of this process.
    with kafka_jvm(broker_libraries) as jvm, pytest.MonkeyPatch.context() as patch:
        patch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
        yield jvm


class StreamStarter:
    """Starts streams as child processes, with a connector that is available."""

    def __init__(self, folder: Path) -> None:
        self._environment = quick_spark(folder)
        self._connector: list[str] = []
        if libraries(default_connector(), dependencies=False) is None:
            dependency = libraries(OLDER_CONNECTOR[1], dependencies=False)
            assert dependency is not None
            self._connector = [
                "--kafka-connector",
                ",".join([OLDER_CONNECTOR[0], *map(str, dependency.glob("*.jar"))]),
            ]
            self._environment = quick_spark(
                folder, {"spark.jars.excludes": OLDER_CONNECTOR[1].rsplit(":", 1)[0]}
            )

    def start(
        self, requests: str, events: str, out: str, folder: Path, *options: str, log: str = "log"
    ) -> AbstractContextManager[Job]:
        """Start `purgatory stream` for a block, its checkpoint in `folder`."""
        connector = [] if "--kafka-connector" in options else self._connector
        if connector and "--avro-requests" in options:
            connector = [connector[0], f"{connector[1]},{OLDER_AVRO}"]
        command = [
            *(
                sys.executable,
                "-m",
                "purgatory_command",
                "stream",
                requests,
                events,
                "--out",
                out,
            ),
            *(
                "--checkpoint",
                str(folder / "checkpoint"),
                "--watermark-delay-ms",
                "100",
                "--shards",
                "2",
                *connector,
                *options,
            ),
        ]
        return job(command, folder / log, **self._environment)

    def drain(self, requests: str, events: str, out: str, folder: Path, *options: str) -> str:
        """Run `purgatory stream` until all requests have ended; return its output."""
        with self.start(
            requests, events, out, folder, *options, "--drain", log="drain.log"
        ) as running:
            code, output = running.wait()
        assert code == 0, running.describe()
        return output


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> StreamStarter:
    """Return what starts streams."""
    return StreamStarter(tmp_path_factory.mktemp("streams"))


@pytest.fixture(scope="module")
def trace() -> StreamTrace:
    """Return requests and events of about a second."""
    return stream_trace(hosts=4, requests=400, rate=400.0)


def expected(trace: StreamTrace) -> list[Row]:
    """Return the expected outcomes as rows of a topic."""
    return [json.loads(value) for value in json_rows(expected_outcomes(trace))]


ONE_EVENT = b'{"host":"h","key":"k","occurred_at":"2024-01-01T00:00:00Z","amount":1}'
NO_REQUESTS = [b'{"host":"h","timeout_ms":"long"}', b"[]", b"\xff\xfe", None]
NO_EVENTS = [ONE_EVENT + ONE_EVENT, b"", b"x"]
LATE = [
    ("more than one object", (ONE_EVENT + ONE_EVENT).decode()),
    ("not an object", ""),
    ("not an object", "[]"),
    ("not an object", "x"),
    ("not UTF-8 (row is in base64)", "//4="),
    ("the value is null", None),
    ("timeout_ms is not of type int", '{"host":"h","timeout_ms":"long"}'),
]


def test_topics_to_topics_agrees_with_the_definition(
    light_broker: Broker, streams: StreamStarter, trace: StreamTrace, tmp_path: Path
) -> None:
    broker, names = light_broker, ("asked", "happened", "answered", "answered.late")
    broker.make_topics(*names)
    for topic, table in zip(names, (trace.requests, trace.events), strict=False):
        broker.send(topic, json_rows(table.to_pylist()))
    streams.drain(*[f"kafka://{broker.address}/{name}" for name in names[:3]], tmp_path)
    rows = [json.loads(value) for _, value in broker.read("answered") if value is not None]
    assert {row.pop("kind") for row in rows} == {"outcomes"}
    assert in_order(rows) == expected(trace)
    assert broker.read("answered.late") == []


@pytest.mark.timeout(600)
def test_topics_to_topics_agrees_after_a_kill_between_write_and_commit(
    either_broker: Broker, streams: StreamStarter, trace: StreamTrace, tmp_path: Path
) -> None:
    broker = either_broker
    names = ("requests", "events", "ended", "ended.late")
    broker.make_topics(*names)
    sent = [json_rows(table.to_pylist()) for table in (trace.requests, trace.events)]
    for topic, rows, unusable in zip(names, sent, (NO_REQUESTS, NO_EVENTS), strict=False):
        broker.send(topic, [*rows[: len(rows) // 2], *unusable])
    addresses = [f"kafka://{broker.address}/{name}" for name in names[:3]]
    options = ("--rows-per-batch", "100", "--kafka-option", "linger.ms=5")
    with streams.start(*addresses, tmp_path, *options) as first:
        line = first.wait_for_line("batch ", "completed")
    remove_commit(tmp_path / "checkpoint", int(line.split()[1].rstrip(":")))
    before = len(broker.read("ended"))
    for topic, rows in zip(names, sent, strict=False):
        broker.send(topic, rows[len(rows) // 2 :])
    output = streams.drain(*addresses, tmp_path, *options)
    assert (
        f"outcomes: kafka://{broker.address}/ended, late rows: kafka://{broker.address}/ended.late"
        in output
    )

    messages = broker.read("ended")
    ended = [json.loads(value) for _, value in messages if value is not None]
    assert [key for key, _ in messages] == [row["host"].encode() for row in ended]
    assert {row.pop("kind") for row in ended} == {"outcomes"}
    once = {tuple(sorted(row.items())): row for row in ended}
    assert 0 < before < len(once) < len(ended), "the batch without commit must be written twice"
    assert in_order(list(once.values())) == expected(trace)
    late = {
        (row["reason"].partition(": ")[2], row.get("row"))
        for _, row in late_rows(broker, "ended.late")
    }
    assert sorted(late, key=repr) == sorted(LATE, key=repr)


def late_rows(broker: Broker, topic: str) -> list[tuple[bytes | None, dict[str, Any]]]:
    """Return keys and rows of a topic of late rows."""
    return [(key, json.loads(value)) for key, value in broker.read(topic) if value is not None]


WRITES = (
    *("--map", "request_id=kafka_headers.trace", "--map", "host=kafka_key"),
    *("--map", "arrived_at=at", "--map", "watch_keys=replicas", "--map", "quantifier=acks"),
    *("--map-events", "host=kafka_key", "--map-events", "key=replica"),
    *("--map-events", "occurred_at=kafka_timestamp"),
    *("--time-unit", "ms", "--timeout-ms", "500", "--kafka-key", "request_id"),
)
#: Milliseconds since the epoch: in 2024.
BEGIN_MS = 1_704_067_200_000
#: Writes that wait for two of three replicas: the number, and the replicas that acknowledge it.
ACKNOWLEDGED = [(0, "ab"), (1, "c"), (2, "abc"), (3, "")]


def writes_and_acks(
    write: Any, ack: Any
) -> tuple[list[Record], list[Record], list[tuple[str, str, float]]]:
    """Return records of writes and of acknowledgements, and the expected outcomes.

    Args:
        write: makes a value of a write's time in ms and its replicas.
        ack: makes a value of an acknowledgement's replica.
    """
    requests, events, outcomes = [], [], []
    for number, replicas in ACKNOWLEDGED:
        at_ms = BEGIN_MS + 1_000 * number
        header = (("trace", b"-"), ("trace", f"w{number}".encode()))
        requests.append(Record(write(at_ms, ["a", "b", "c"]), b"node", header))
        for delay_ms, replica in enumerate(replicas, 7):
            events.append(Record(ack(replica), b"node", timestamp_ms=at_ms + delay_ms))
        done = len(replicas) > 1
        outcomes.append((f"w{number}", *(("completed", 8.0) if done else ("expired", 500.0))))
    return requests, events, outcomes


def assert_outcomes(broker: Broker, topic: str, expected: list[tuple[str, str, float]]) -> None:
    """Check the outcomes of a topic, whose keys are the requests' ids."""
    messages = broker.read(topic)
    ended = [json.loads(value) for _, value in messages if value is not None]
    assert [key for key, _ in messages] == [row["request_id"].encode() for row in ended]
    found = [(row["request_id"], row["outcome"], row["waited_ms"]) for row in ended]
    assert sorted(found) == expected


def test_own_columns_with_keys_headers_and_times_of_records(
    light_broker: Broker, streams: StreamStarter, tmp_path: Path
) -> None:
    broker, names = light_broker, ("writes", "acks", "written", "written.late")
    broker.make_topics(*names)
    requests, events, outcomes = writes_and_acks(
        lambda at, replicas: json.dumps({"at": at, "replicas": replicas, "acks": 2}).encode(),
        lambda replica: json.dumps({"replica": replica}).encode(),
    )
    broker.send_records("writes", [*requests, Record(b'{"at":1,"replicas":"a"}', b"node")])
    broker.send_records("acks", events)
    streams.drain(*[f"kafka://{broker.address}/{name}" for name in names[:3]], tmp_path, *WRITES)
    assert_outcomes(broker, "written", outcomes)
    ((key, late),) = late_rows(broker, "written.late")
    assert (key, late["reason"]) == (None, "null kafka_headers.trace")
    assert json.loads(late["row"]) == {"kafka_key": "node", "value": '{"at":1,"replicas":"a"}'}


WRITE_SCHEMA = {
    "type": "record",
    "name": "write",
    "fields": [
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "replicas", "type": {"type": "array", "items": "string"}},
        {"name": "acks", "type": "int"},
    ],
}
ACK_SCHEMA = {"type": "record", "name": "ack", "fields": [{"name": "replica", "type": "string"}]}


def avro_long(number: int) -> bytes:
    """Return a number as Avro writes it: zigzag, seven bits a byte, the lowest first."""
    rest = (number << 1) ^ (number >> 63)
    encoded = bytearray()
    while rest > 127:
        encoded.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*encoded, rest])


def avro_text(text: str) -> bytes:
    """Return text as Avro writes it."""
    return avro_long(len(text)) + text.encode()


@pytest.mark.slow
def test_own_columns_in_avro(light_broker: Broker, streams: StreamStarter, tmp_path: Path) -> None:
    broker, names = light_broker, ("stores", "oks", "stored", "stored.late")
    broker.make_topics(*names)
    header = b"\0\0\0\0\7"
    requests, events, outcomes = writes_and_acks(
        lambda at, replicas: b"".join(
            [
                header,
                avro_long(at),
                avro_long(len(replicas)),
                *map(avro_text, replicas),
                avro_long(0),
                avro_long(2),
            ]
        ),
        lambda replica: header + avro_text(replica),
    )
    broker.send_records("stores", [*requests, Record(header + b"\1"), Record(b"{}"), Record(None)])
    broker.send_records("oks", events)
    options = []
    for name, schema in (("requests", WRITE_SCHEMA), ("events", ACK_SCHEMA)):
        file = tmp_path / f"{name}.avsc"
        file.write_text(json.dumps(schema))
        options += [f"--avro-{name}", str(file)]
    addresses = [f"kafka://{broker.address}/{name}" for name in names[:3]]
    streams.drain(*addresses, tmp_path, *WRITES, *options, "--avro-header")
    assert_outcomes(broker, "stored", outcomes)
    assert sorted(
        (row["reason"], json.loads(row["row"]).get("value"))
        for _, row in late_rows(broker, "stored.late")
    ) == [
        ("invalid Avro row: no header of a schema registry", "{}"),
        ("invalid Avro row: not a record of the schema", "\0\0\0\0\7\1"),
        ("invalid Avro row: the value is null", None),
    ]


def test_topic_and_folders_can_be_combined(
    broker: Broker, streams: StreamStarter, trace: StreamTrace, tmp_path: Path
) -> None:
    broker.make_topics("calls")
    broker.send("calls", json_rows(trace.requests.to_pylist()))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "all.json").write_bytes(b"\n".join(json_rows(trace.events.to_pylist())))
    folders = (str(tmp_path / "events"), str(tmp_path / "out"))
    streams.drain(f"kafka://{broker.address}/calls", *folders, tmp_path, "--format", "json")
    files = (tmp_path / "out" / "kind=outcomes").glob("*.json")
    written = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert in_order(written) == expected(trace)


def test_checkpoint_identifies_topic_and_cluster_by_any_address(
    broker: Broker, driver_jvm: Any, tmp_path: Path
) -> None:
    broker.make_topics("known", "other")
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=driver_jvm))
    port = broker.address.partition(":")[2]
    known, same, other = (
        KafkaSource(KafkaCluster(f"{host}:{port}"), topic).identity(spark)
        for host, topic in (("127.0.0.1", "known"), ("localhost", "known"), ("127.0.0.1", "other"))
    )
    require_compatible_checkpoint(tmp_path, StreamSettings(), {"requests": known})
    require_compatible_checkpoint(tmp_path, StreamSettings(), {"requests": same})
    cluster = broker.cluster_id()
    with pytest.raises(
        CheckpointError,
        match=f"with requests 'topic known of Kafka cluster {cluster}', not 'topic other of Kafka",
    ):
        require_compatible_checkpoint(tmp_path, StreamSettings(), {"requests": other})


def test_missing_topics_are_reported_before_the_start(broker: Broker, driver_jvm: Any) -> None:
    cluster = KafkaCluster(broker.address)
    with pytest.raises(
        EndpointError, match=rf"^kafka://{broker.address}: no topic nowhere, or no permission"
    ):
        cluster.require_topics(driver_jvm, "nowhere")
    quick = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
    with pytest.raises(EndpointError, match=r"^kafka://127\.0\.0\.1:1: TimeoutException: "):
        KafkaCluster("127.0.0.1:1", quick).require_topics(driver_jvm, "requests")


def test_missing_connector_is_reported(streams: StreamStarter, tmp_path: Path) -> None:
    address = "kafka://127.0.0.1:1/requests"
    missing = "org.example:no-such-connector_2.13:1.0"
    with streams.start(
        address, address, address, tmp_path, "--kafka-connector", missing
    ) as running:
        code, _ = running.wait()
    assert code == 4
    assert (
        f"purgatory: Spark did not start with its Kafka connector {missing}: the lines above name"
        in running.log.read_text()
    )
    assert not (tmp_path / "checkpoint").exists()
