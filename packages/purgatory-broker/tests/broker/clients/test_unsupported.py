"""What the broker does not support ends in a clear and final error, with every client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError

from purgatory_broker import Cluster
from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kafka_server import run_tool


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run a cluster with the topic `t`; these tests are not run on Apache Kafka."""
    with Cluster() as running:
        running.create_topic("t")
        yield running


def test_librdkafka_gives_up_the_consumer_protocol(cluster: Cluster) -> None:
    """It would wait for an API that the broker does not name."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
        }
    )
    consumer.subscribe(["t"])
    limit = time.monotonic() + TIME_LIMIT
    found = None
    while found is None and time.monotonic() < limit:
        found = consumer.poll(0.1)
    consumer.close()
    assert found is not None
    error = found.error()
    assert error is not None
    assert error.code() == KafkaError._FATAL
    assert "ConsumerGroupHeartbeat fatal error: Broker: API version not supported" in error.str()


@pytest.mark.jvm
def test_java_consumer_gives_up_the_consumer_protocol(cluster: Cluster, tools: Path) -> None:
    ran = run_tool(
        tools,
        "ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "t", "--group", "g"),
        *("--consumer-property", "group.protocol=consumer", "--timeout-ms", "3600000"),
    )
    assert "Processed a total of 0 messages" in ran.stdout + ran.stderr
