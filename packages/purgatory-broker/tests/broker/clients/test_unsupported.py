"""What the broker does not support ends in a clear and final error, with every client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AiokafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from kafka import KafkaProducer
from kafka.errors import KafkaError as KafkaPythonError

from purgatory_broker import Cluster
from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kafka_server import run_tool

TRANSACTION = "transaction"


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


def test_librdkafka_gives_up_transactions(cluster: Cluster) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": TRANSACTION,
        }
    )
    with pytest.raises(KafkaException, match="This broker does not support transactions") as caught:
        producer.init_transactions(TIME_LIMIT)
    assert caught.value.args[0].fatal()


def test_kafka_python_gives_up_transactions(cluster: Cluster) -> None:
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=TRANSACTION
    )
    try:
        with pytest.raises(KafkaPythonError, match="UnsupportedVersionError"):
            producer.init_transactions()
    finally:
        producer.close(timeout=0)


def test_aiokafka_gives_up_transactions(cluster: Cluster) -> None:
    async def start() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id=TRANSACTION
        )
        try:
            with pytest.raises(AiokafkaError, match="UnsupportedVersionError"):
                await asyncio.wait_for(producer.start(), TIME_LIMIT)
        finally:
            await producer.stop()

    asyncio.run(start())


@pytest.mark.jvm
def test_java_consumer_gives_up_the_consumer_protocol(cluster: Cluster, tools: Path) -> None:
    ran = run_tool(
        tools,
        "ConsoleConsumer",
        *("--bootstrap-server", cluster.bootstrap_servers, "--topic", "t", "--group", "g"),
        *("--consumer-property", "group.protocol=consumer", "--timeout-ms", "3600000"),
    )
    assert "Processed a total of 0 messages" in ran.stdout + ran.stderr


@pytest.mark.jvm
def test_java_producer_gives_up_transactions(cluster: Cluster, tools: Path) -> None:
    ran = run_tool(
        tools,
        "ProducerPerformance",
        *("--topic", "t", "--num-records", "1", "--record-size", "1", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}"),
        *("--transactional-id", TRANSACTION),
    )
    assert ran.returncode == 1
    assert "due to unexpected error: This broker does not support transactions" in ran.stderr
