"""Streams from and to a real Kafka broker, each in a process of its own, as jars can't be added to a JVM that runs."""

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

from request_purgatory.broker import ClusterProcess
from request_purgatory.pipeline.stream import StreamSettings
from request_purgatory.pipeline.stream.checkpoint import CheckpointError, require_same
from request_purgatory.pipeline.stream.endpoints import EndpointError, KafkaCluster, KafkaSource
from request_purgatory.pipeline.stream.endpoints.connector import connector_of_spark
from tests.spark.checkpoints import as_before_its_end
from tests.spark.job import Job, job, quick_spark
from tests.spark.kafka_broker import BROKER, jars, kafka_jvm, running_broker
from tests.spark.kafka_client import Broker
from tests.spark.stream_files import (
    Row,
    StreamTrace,
    expected_outcomes,
    in_order,
    json_rows,
    stream_trace,
)
from tests.support.downloads import download_folder

#: Where Maven Central lacks the connector of this very Spark: one that works with it, and the
#: newest of its helper.
OLDER = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
)

# One process starts the brokers. Besides, Ivy does not keep two processes of Spark's from writing
# the same jar to its cache.
pytestmark = [pytest.mark.jvm, pytest.mark.xdist_group("kafka streams")]


def libraries(*modules: str, dependencies: bool = True) -> Path | None:
    """The folder of Maven modules' jars, as `jars`, kept from one run of the tests to the next."""
    with download_folder("kafka-jars") as folder:
        return jars(folder, *modules, dependencies=dependencies)


@pytest.fixture(scope="module")
def broker_libraries() -> Path:
    """The jars of Kafka's broker and clients."""
    found = libraries(*BROKER)
    assert found is not None
    return found


@pytest.fixture(scope="module")
def broker(broker_libraries: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Kafka's broker, for all tests of this module."""
    with running_broker(broker_libraries, tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def light_broker() -> Iterator[Broker]:
    """This project's own, for all tests of this module."""
    with ClusterProcess(nodes=3) as cluster:
        yield Broker(cluster.bootstrap.split(",")[0])


@pytest.fixture(params=["broker", "light_broker"], ids=["Kafka", "light broker"])
def either_broker(request: pytest.FixtureRequest) -> Broker:
    """Kafka's broker and ours: the test runs with each."""
    chosen: Broker = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="module")
def driver_jvm(broker_libraries: Path) -> Iterator[Any]:
    """A JVM with what a driver needs to look at topics."""
    # A session that this process may have had makes Py4J hand the errors of every gateway to the
    # session's own JVM, which does not know them.
    with kafka_jvm(broker_libraries) as jvm, pytest.MonkeyPatch.context() as patch:
        patch.setattr(py4j.java_gateway, "get_return_value", py4j.protocol.get_return_value)
        yield jvm


class Streams:
    """Streams in processes of their own, with the connector that can be had."""

    def __init__(self, folder: Path) -> None:
        self._environment = quick_spark(folder)
        self._connector: list[str] = []
        if libraries(connector_of_spark(), dependencies=False) is None:
            helper = libraries(OLDER[1], dependencies=False)
            assert helper is not None
            self._connector = [
                "--kafka-connector",
                ",".join([OLDER[0], *map(str, helper.glob("*.jar"))]),
            ]
            self._environment = quick_spark(
                folder, {"spark.jars.excludes": OLDER[1].rsplit(":", 1)[0]}
            )

    def start(
        self, requests: str, events: str, out: str, folder: Path, *options: str, log: str = "log"
    ) -> AbstractContextManager[Job]:
        """Start `purgatory stream` for a block, its checkpoint in `folder`."""
        command = [
            *(
                sys.executable,
                "-m",
                "request_purgatory.cli.main",
                "stream",
                requests,
                events,
                "--out",
                out,
            ),
            *(
                "--checkpoint",
                str(folder / "checkpoint"),
                "--delay-ms",
                "100",
                "--shards",
                "2",
                *self._connector,
                *options,
            ),
        ]
        return job(command, folder / log, **self._environment)

    def finish(self, requests: str, events: str, out: str, folder: Path, *options: str) -> str:
        """Run it until all that waits has ended; return what it said."""
        with self.start(
            requests, events, out, folder, *options, "--finish", log="finish.log"
        ) as running:
            code, said = running.end()
        assert code == 0, running.log.read_text()[-5000:]
        return said


@pytest.fixture(scope="module")
def streams(tmp_path_factory: pytest.TempPathFactory) -> Streams:
    """Starts streams."""
    return Streams(tmp_path_factory.mktemp("streams"))


@pytest.fixture(scope="module")
def trace() -> StreamTrace:
    """Requests and events of about a second."""
    return stream_trace(hosts=4, requests=400, rate=400.0)


def expected(trace: StreamTrace) -> list[Row]:
    """The outcomes as they are in a topic."""
    return [json.loads(value) for value in json_rows(expected_outcomes(trace))]


ONE_EVENT = b'{"host":"h","key":"k","occurred_at":"2024-01-01T00:00:00Z","amount":1}'
NO_REQUESTS = [b'{"host":"h","timeout_ms":"long"}', b"[]", b"\xff\xfe", None]
NO_EVENTS = [ONE_EVENT + ONE_EVENT, b"", b"x"]
TOLD = [
    ("more than one object", (ONE_EVENT + ONE_EVENT).decode()),
    ("no JSON object", ""),
    ("no JSON object", "[]"),
    ("no JSON object", "x"),
    ("no UTF-8; the row is its base64", "//4="),
    ("no value", None),
    ("timeout_ms is no int", '{"host":"h","timeout_ms":"long"}'),
]


@pytest.mark.smoke
def test_topics_to_topics_agrees_with_the_definition(
    light_broker: Broker, streams: Streams, trace: StreamTrace, tmp_path: Path
) -> None:
    """From the begin to the end, in one start."""
    broker, names = light_broker, ("asked", "happened", "answered", "answered.late")
    broker.make_topics(*names)
    for topic, table in zip(names, (trace.requests, trace.events), strict=False):
        broker.send(topic, json_rows(table.to_pylist()))
    streams.finish(*[f"kafka://{broker.address}/{name}" for name in names[:3]], tmp_path)
    rows = [json.loads(value) for _, value in broker.read("answered") if value is not None]
    assert {row.pop("kind") for row in rows} == {"outcomes"}
    assert in_order(rows) == expected(trace)
    assert broker.read("answered.late") == []


@pytest.mark.timeout(600)
def test_topics_to_topics_agrees_over_a_kill_in_the_middle(
    either_broker: Broker, streams: Streams, trace: StreamTrace, tmp_path: Path
) -> None:
    """What was written twice is the same twice; what is no row is told, and stops nothing."""
    broker = either_broker
    names = ("requests", "events", "ended", "ended.late")
    broker.make_topics(*names)
    sent = [json_rows(table.to_pylist()) for table in (trace.requests, trace.events)]
    for topic, rows, unusable in zip(names, sent, (NO_REQUESTS, NO_EVENTS), strict=False):
        broker.send(topic, [*rows[: len(rows) // 2], *unusable])
    addresses = [f"kafka://{broker.address}/{name}" for name in names[:3]]
    options = ("--rows-per-batch", "100", "--kafka-option", "linger.ms=5")
    with streams.start(*addresses, tmp_path, *options) as first:
        told = first.until("batch ", "completed")
    as_before_its_end(tmp_path / "checkpoint", int(told.split()[1].rstrip(":")))
    before = len(broker.read("ended"))
    for topic, rows in zip(names, sent, strict=False):
        broker.send(topic, rows[len(rows) // 2 :])
    said = streams.finish(*addresses, tmp_path, *options)
    assert (
        f"outcomes: kafka://{broker.address}/ended, late rows: kafka://{broker.address}/ended.late"
        in said
    )

    messages = broker.read("ended")
    ended = [json.loads(value) for _, value in messages if value is not None]
    assert [key for key, _ in messages] == [row["host"].encode() for row in ended]
    assert {row.pop("kind") for row in ended} == {"outcomes"}
    once = {tuple(sorted(row.items())): row for row in ended}
    assert 0 < before < len(once) < len(ended), "the batch whose commit was lost is there twice"
    assert in_order(list(once.values())) == expected(trace)
    late = {
        (row["reason"].partition(": ")[2], row.get("row"))
        for _, row in late_rows(broker, "ended.late")
    }
    assert sorted(late, key=repr) == sorted(TOLD, key=repr)


def late_rows(broker: Broker, topic: str) -> list[tuple[bytes | None, dict[str, Any]]]:
    """Keys and rows of a topic of late rows."""
    return [(key, json.loads(value)) for key, value in broker.read(topic) if value is not None]


def test_topic_and_folder_go_together_and_the_folder_has_each_row_once(
    broker: Broker, streams: Streams, trace: StreamTrace, tmp_path: Path
) -> None:
    """Requests from a topic, events and outcomes in JSON files."""
    broker.make_topics("calls")
    broker.send("calls", json_rows(trace.requests.to_pylist()))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "all.json").write_bytes(b"\n".join(json_rows(trace.events.to_pylist())))
    places = (str(tmp_path / "events"), str(tmp_path / "out"))
    streams.finish(f"kafka://{broker.address}/calls", *places, tmp_path, "--format", "json")
    files = (tmp_path / "out" / "kind=outcomes").glob("*.json")
    written = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert in_order(written) == expected(trace)


def test_checkpoint_knows_its_topic_and_cluster_by_whatever_address(
    broker: Broker, driver_jvm: Any, tmp_path: Path
) -> None:
    """Another topic is refused; another way to the same one is not."""
    broker.make_topics("known", "other")
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=driver_jvm))
    port = broker.address.partition(":")[2]
    known, same, other = (
        KafkaSource(KafkaCluster(f"{host}:{port}"), topic).described(spark)
        for host, topic in (("127.0.0.1", "known"), ("localhost", "known"), ("127.0.0.1", "other"))
    )
    require_same(tmp_path, StreamSettings(), {"requests": known})
    require_same(tmp_path, StreamSettings(), {"requests": same})
    cluster = broker.cluster_id()
    with pytest.raises(
        CheckpointError,
        match=f"requests was topic known of Kafka cluster {cluster}, not topic other of Kafka",
    ):
        require_same(tmp_path, StreamSettings(), {"requests": other})


def test_topics_that_are_not_there_are_told_before_any_work(
    broker: Broker, driver_jvm: Any
) -> None:
    """By name; and brokers that do not answer."""
    cluster = KafkaCluster(broker.address)
    with pytest.raises(
        EndpointError, match=rf"^kafka://{broker.address}: no topic nowhere, or no right to see it"
    ):
        cluster.require_topics(driver_jvm, "nowhere")
    quick = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
    with pytest.raises(EndpointError, match=r"^kafka://127\.0\.0\.1:1: TimeoutException: "):
        KafkaCluster("127.0.0.1:1", quick).require_topics(driver_jvm, "requests")


def test_connector_that_can_not_be_had_is_told(streams: Streams, tmp_path: Path) -> None:
    """With its coordinates, and what to do; nothing is made."""
    address = "kafka://127.0.0.1:1/requests"
    missing = "org.example:no-such-connector_2.13:1.0"
    with streams.start(
        address, address, address, tmp_path, "--kafka-connector", missing
    ) as running:
        code, _ = running.end()
    assert code == 4
    assert (
        f"purgatory: Spark did not start with its Kafka connector {missing}: see above"
        in running.log.read_text()
    )
    assert not (tmp_path / "checkpoint").exists()
