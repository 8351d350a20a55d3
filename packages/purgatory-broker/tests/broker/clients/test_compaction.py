"""Clients and a topic that is compacted while they write it: as Kafka's `LogCompactionTester`."""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer
from kafka import TopicPartition as KafkaPythonPartition

from purgatory_broker import Cluster
from tests.broker.clients.waiting import TIME_LIMIT

MESSAGES = 3_000
KEYS = 150
DELETED_PERCENT = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Run a cluster that compacts its logs all the time."""
    with Cluster(nodes=3, log_segment_bytes=8_192, log_cleaner_backoff_ms=20) as running:
        yield running


def _produce(cluster: Cluster, topic: str, codec: str, seed: int) -> dict[bytes, bytes]:
    """Produce records of random keys, some of them tombstones; return the latest values."""
    choose = random.Random(seed)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 20,
            "linger.ms": 1,
        }
    )
    latest: dict[bytes, bytes] = {}
    for number in range(MESSAGES):
        key = b"%d" % choose.randrange(KEYS)
        if number % 100 < DELETED_PERCENT:
            producer.produce(topic, key=key, value=None)
            latest.pop(key, None)
        else:
            latest[key] = b"%d" % number
            producer.produce(topic, key=key, value=latest[key])
        if number % 250 == 0:
            producer.flush(TIME_LIMIT)
    assert producer.flush(TIME_LIMIT) == 0
    return latest


def _consume(cluster: Cluster, topic: str) -> list[tuple[bytes, bytes | None]]:
    """Return all records from the beginning, read by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": secrets.token_hex(4),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    consumer.subscribe([topic])
    found = []
    while (message := consumer.poll(TIME_LIMIT)) is not None and message.error() is None:
        found.append((message.key(), message.value()))
    consumer.close()
    return found


def _consume_by_kafka_python(
    cluster: Cluster, topic: str, count: int
) -> list[tuple[bytes, bytes | None]]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, check_crcs=True)
    partition = KafkaPythonPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found: list[tuple[bytes, bytes | None]] = []
    end = consumer.end_offsets([partition])[partition]
    while consumer.position(partition) < end:
        for records in consumer.poll(1_000).values():
            found += [(record.key, record.value) for record in records]
    consumer.close()
    assert len(found) == count
    return found


def _table(records: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    return {key: value for key, value in dict(records).items() if value is not None}


@pytest.mark.parametrize(
    "codec",
    [
        "none",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gzip", "snappy", "lz4", "zstd")),
    ],
)
def test_latest_values_survive_compaction(cluster: Cluster, codec: str, topic: str) -> None:
    name = f"{topic}.{codec}"
    cluster.create_topic(
        name, configs={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
    )
    latest = _produce(cluster, name, codec, seed=len(codec))
    found = _consume(cluster, name)
    assert _table(found) == latest
    assert len(found) < MESSAGES / 2  # It was compacted meanwhile.
    cluster.compact(name)
    found = _consume(cluster, name)
    assert _table(found) == latest
    assert len(found) <= KEYS
    assert _table(_consume_by_kafka_python(cluster, name, len(found))) == latest
    cluster.delete_topic(name)
