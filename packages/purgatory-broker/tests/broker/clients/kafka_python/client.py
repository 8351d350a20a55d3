"""kafka-python: what its tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import NewTopic

from tests.broker.clients.waiting import TIME_LIMIT, until

#: Of the first message, in milliseconds since the epoch: in 2023.
TIME = 1_700_000_000_000
LIMIT_MS = int(TIME_LIMIT * 1000)


def create_topic(
    admin: Any, topic: str, *, partitions: int = 1, replicas: int = 3, **config: str
) -> None:
    configs = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics(
        [NewTopic(topic, partitions, replicas, topic_configs=configs)], wait_for_metadata=True
    )


def send(bootstrap_servers: str, topic: str, *values: bytes | None, **config: Any) -> list[Any]:
    """Return the metadata of each message."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers.split(","), **config)
    try:
        futures = [
            producer.send(
                topic,
                value,
                b"key %d" % number,
                headers=[("number", b"%d" % number)],
                partition=0,
                timestamp_ms=TIME + number,
            )
            for number, value in enumerate(values)
        ]
        producer.flush(TIME_LIMIT)
        return [future.get(TIME_LIMIT) for future in futures]
    finally:
        producer.close(TIME_LIMIT)


@contextmanager
def open_consumer(
    bootstrap_servers: str, *, group: str | None = None, **config: Any
) -> Iterator[Any]:
    common = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "session_timeout_ms": 6_000,
    }
    common |= {"heartbeat_interval_ms": 200, "fetch_max_wait_ms": 200}
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap_servers.split(","), group_id=group, **common | config
    )
    try:
        yield consumer
    finally:
        consumer.close(timeout_ms=LIMIT_MS)


def subscribe(consumer: Any, topic: str) -> None:
    """Subscribe, and wait for the topic's metadata before the consumer joins its group.

    Without them the first assignment is empty and kafka-python 3.0.12 joins again. If a poll times
    out during that, it drops the new assignment and sends no heartbeats from then on.
    """
    consumer.subscribe([topic])
    assert consumer.partitions_for_topic(topic)


def read_messages(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        for messages in consumer.poll(500).values():
            found.extend(messages)
        return len(found) >= count

    until(enough)
    return found
