"""confluent-kafka, which wraps librdkafka: what its tests share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.clients.waiting import TIME_LIMIT, until

#: Of the first message, in milliseconds since the epoch: in 2023.
TIME = 1_700_000_000_000


def create_topic(
    admin: AdminClient, topic: str, *, partitions: int = 1, replicas: int = 3, **config: str
) -> None:
    new = NewTopic(
        topic,
        partitions,
        replicas,
        config={name.replace("_", "."): value for name, value in config.items()},
    )
    admin.create_topics([new])[topic].result(TIME_LIMIT)


def send(
    bootstrap_servers: str, topic: str, *values: str, partition: int | None = None, **config: Any
) -> list[Any]:
    """Return the delivered messages."""
    delivered: list[Any] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        delivered.append(message)

    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 1} | config)
    where: dict[str, Any] = {} if partition is None else {"partition": partition}
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            f"key {number}",
            on_delivery=on_delivery,
            timestamp=TIME + number,
            headers={"number": str(number)},
            **where,
        )
    assert producer.flush(TIME_LIMIT) == 0
    return delivered


@contextmanager
def open_consumer(bootstrap_servers: str, group: str, **config: Any) -> Iterator[Consumer]:
    common = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    consumer = Consumer(
        common
        | {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200, "fetch.wait.max.ms": 200}
        | config
    )
    try:
        yield consumer
    finally:
        # A pending rebalance in the consumer's queue would block close() for ever: issue 4884 of
        # librdkafka.
        consumer.poll(0)
        consumer.close()


def read_messages(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(found), 0.1):
            assert message.error() is None, message.error()
            found.append(message)
        return len(found) >= count

    until(enough)
    return found


def read_values(consumer: Consumer, count: int) -> list[str]:
    return [message.value().decode() for message in read_messages(consumer, count)]
