"""Streams from and to a real Kafka broker, each in a process of its own, as jars can't be added to a JVM that runs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from request_purgatory.broker import ClusterProcess
from request_purgatory.pipeline.batch import batch_outcomes
from request_purgatory.pipeline.schema import OUTCOMES
from request_purgatory.pipeline.stream import StreamSettings
from request_purgatory.pipeline.stream.checkpoint import CheckpointError, require_same
from request_purgatory.pipeline.stream.endpoints import EndpointError, KafkaCluster, KafkaSource
from request_purgatory.pipeline.stream.endpoints.connector import connector_of_spark
from request_purgatory.pipeline.stream.endpoints.json_rows import to_json_row
from request_purgatory.pipeline.workload import CASES, workload_trace
from tests.pipeline.checkpoints import as_before_its_end
from tests.pipeline.job import job
from tests.pipeline.kafka_broker import BROKER, TIME_LIMIT, Broker, client_of, jars, running_broker

#: Where Maven Central lacks the connector of this very Spark: one that works with it, and the newest of its helper.
OLDER = ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0", "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0")

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def library(pytestconfig: pytest.Config) -> Path:
    """Where jars are kept from one run of the tests to the next."""
    assert pytestconfig.cache is not None
    return pytestconfig.cache.mkdir("kafka-jars")


@pytest.fixture(scope="module")
def broker(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker for all tests of this module."""
    libraries = jars(library, *BROKER)
    assert libraries is not None
    with running_broker(libraries, tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture(scope="module")
def light_broker(library: Path) -> Iterator[Broker]:
    """This project's own, for all tests of this module."""
    libraries = jars(library, *BROKER)
    assert libraries is not None
    with ClusterProcess(nodes=3) as cluster, client_of(libraries, cluster.bootstrap.split(",")[0]) as client:
        yield client


@pytest.fixture(params=["broker", "light_broker"], ids=["Kafka", "light broker"])
def either_broker(request: pytest.FixtureRequest) -> Broker:
    """Kafka's broker and ours: the test runs with each."""
    chosen: Broker = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="module")
def environment() -> Iterator[pytest.MonkeyPatch]:
    """The environment of the streams' processes, taken back afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def stream(library: Path, environment: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Makes command lines of `purgatory stream`, with the connector that can be had."""
    # A JVM that lives for seconds spends half of them on compiling well.
    environment.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    chosen: list[str] = []
    if jars(library, connector_of_spark(), dependencies=False) is None:
        helper = jars(library, OLDER[1], dependencies=False)
        assert helper is not None
        chosen = ["--kafka-connector", ",".join([OLDER[0], *map(str, helper.glob("*.jar"))])]
        configuration = tmp_path_factory.mktemp("conf")
        settings = f"spark.jars.excludes {OLDER[1].rsplit(':', 1)[0]}\n"
        (configuration / "spark-defaults.conf").write_text(settings)
        environment.setenv("SPARK_CONF_DIR", str(configuration))

    def command(requests: str, events: str, out: str, checkpoint: Path, *options: str) -> list[str]:
        return [
            *(sys.executable, "-m", "request_purgatory.cli", "stream", requests, events, "--out", out),
            *("--checkpoint", str(checkpoint), "--delay-ms", "100", "--shards", "2", *chosen, *options),
        ]

    return command


@pytest.fixture(scope="module")
def trace(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Requests and events of about a second, in order of time."""
    requests, events = workload_trace(spark, replace(CASES["low"], requests=400, hosts=3, rate=400.0))
    return requests.orderBy("arrived_at").cache(), events.orderBy("occurred_at").cache()


def values(table: DataFrame) -> list[bytes | None]:
    """A table's rows as they are in a topic."""
    return [row["value"].encode() for row in table.select(to_json_row(table.columns).alias("value")).collect()]


def expected(trace: tuple[DataFrame, DataFrame]) -> Rows:
    """What the batch job makes of it."""
    return in_order([json.loads(value) for value in values(batch_outcomes(*trace)) if value is not None])


def in_order(rows: Rows) -> Rows:
    """By host and request."""
    return sorted(rows, key=lambda row: (row["host"], row["request_id"], row["arrived_at"]))


def finish(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a stream to its end."""
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * TIME_LIMIT, check=False)


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


@pytest.mark.timeout(600)
def test_topics_to_topics_agrees_with_the_batch_over_a_kill_in_the_middle(
    either_broker: Broker, stream: Callable[..., list[str]], trace: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    """What was written twice is the same twice; what is no row is told, and stops nothing."""
    broker = either_broker
    names = ("requests", "events", "ended", "ended.late")
    broker.make_topics(*names)
    sent = [values(table) for table in trace]
    for topic, rows, unusable in zip(names, sent, (NO_REQUESTS, NO_EVENTS), strict=False):
        broker.send(topic, [*rows[: len(rows) // 2], *unusable])
    addresses = [f"kafka://{broker.address}/{name}" for name in names[:3]]
    command = stream(*addresses, tmp_path / "checkpoint", "--rows-per-batch", "100", "--kafka-option", "linger.ms=5")
    with job(command, tmp_path / "first.log") as first:
        told = first.until("batch ", "completed")
    as_before_its_end(tmp_path / "checkpoint", int(told.split()[1].rstrip(":")))
    before = len(broker.read("ended"))
    for topic, rows in zip(names, sent, strict=False):
        broker.send(topic, rows[len(rows) // 2 :])
    second = finish([*command, "--finish"])
    assert second.returncode == 0, second.stderr[-5000:]
    assert f"outcomes: kafka://{broker.address}/ended, late rows: kafka://{broker.address}/ended.late" in second.stdout

    messages = broker.read("ended")
    ended = [json.loads(value) for _, value in messages if value is not None]
    assert [key for key, _ in messages] == [row["host"].encode() for row in ended]
    assert {row.pop("kind") for row in ended} == {"outcomes"}
    once = {tuple(sorted(row.items())): row for row in ended}
    assert 0 < before < len(once) < len(ended), "the batch whose commit was lost is there twice"
    assert in_order(list(once.values())) == expected(trace)
    late = {(row["reason"].partition(": ")[2], row.get("row")) for _, row in late_rows(broker, "ended.late")}
    assert sorted(late, key=repr) == sorted(TOLD, key=repr)


def late_rows(broker: Broker, topic: str) -> list[tuple[bytes | None, dict[str, Any]]]:
    """Keys and rows of a topic of late rows."""
    return [(key, json.loads(value)) for key, value in broker.read(topic) if value is not None]


def test_topic_and_folder_go_together_and_the_folder_has_each_row_once(
    broker: Broker, stream: Callable[..., list[str]], trace: tuple[DataFrame, DataFrame], spark: SparkSession, tmp_path: Path
) -> None:
    """Requests from a topic, events and outcomes in JSON files."""
    broker.make_topics("calls")
    broker.send("calls", values(trace[0]))
    (tmp_path / "events").mkdir()
    lines = b"\n".join(value for value in values(trace[1]) if value is not None)
    (tmp_path / "events" / "all.json").write_bytes(lines)
    places = (str(tmp_path / "events"), str(tmp_path / "out"), tmp_path / "checkpoint", "--format", "json", "--finish")
    ran = finish(stream(f"kafka://{broker.address}/calls", *places))
    assert ran.returncode == 0, ran.stderr[-5000:]
    written = spark.read.schema(OUTCOMES).json(str(tmp_path / "out" / "kind=outcomes"))
    assert in_order([json.loads(value) for value in values(written) if value is not None]) == expected(trace)


def test_checkpoint_knows_its_topic_and_cluster_by_whatever_address(broker: Broker, tmp_path: Path) -> None:
    """Another topic is refused; another way to the same one is not."""
    broker.make_topics("known", "other")
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(_jvm=broker.jvm))
    port = broker.address.partition(":")[2]
    known, same, other = (
        KafkaSource(KafkaCluster(f"{host}:{port}"), topic).described(spark)
        for host, topic in (("127.0.0.1", "known"), ("localhost", "known"), ("127.0.0.1", "other"))
    )
    require_same(tmp_path, StreamSettings(), {"requests": known})
    require_same(tmp_path, StreamSettings(), {"requests": same})
    cluster = broker.cluster_id()
    with pytest.raises(CheckpointError, match=f"requests was topic known of Kafka cluster {cluster}, not topic other of Kafka"):
        require_same(tmp_path, StreamSettings(), {"requests": other})


def test_topics_that_are_not_there_are_told_before_any_work(broker: Broker) -> None:
    """By name; and brokers that do not answer."""
    cluster = KafkaCluster(broker.address)
    with pytest.raises(EndpointError, match=rf"^kafka://{broker.address}: no topic nowhere, or no right to see it"):
        cluster.require_topics(broker.jvm, "nowhere")
    quick = {"default.api.timeout.ms": "1000", "request.timeout.ms": "500"}
    with pytest.raises(EndpointError, match=r"^kafka://127\.0\.0\.1:1: TimeoutException: "):
        KafkaCluster("127.0.0.1:1", quick).require_topics(broker.jvm, "requests")


def test_connector_that_can_not_be_had_is_told(broker: Broker, stream: Callable[..., list[str]], tmp_path: Path) -> None:
    """With its coordinates, and what to do; nothing is made."""
    address = f"kafka://{broker.address}/requests"
    missing = "org.example:no-such-connector_2.13:1.0"
    ran = finish([*stream(address, address, address, tmp_path / "checkpoint"), "--kafka-connector", missing])
    assert ran.returncode == 4
    assert f"purgatory: Spark did not start with its Kafka connector {missing}: see above" in ran.stderr
    assert not (tmp_path / "checkpoint").exists()
