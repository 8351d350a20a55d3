"""A Kafka client for tests: librdkafka, which needs no JVM."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

#: Seconds.
TIME_LIMIT = 120.0


@dataclass(frozen=True)
class Record:
    """A message with its key, headers and timestamp, in milliseconds since the epoch."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int = 0


class Broker:
    """A running broker, known by its address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._config = {"bootstrap.servers": address}

    def is_ready(self) -> bool:
        """Return whether the broker answers within a second."""
        # Without `log_level` librdkafka would print connection errors.
        admin = AdminClient(self._config | {"log_level": 0})
        try:
            admin.list_topics(timeout=1.0)
        except KafkaException:
            return False
        return True

    def cluster_id(self) -> str:
        """Return the cluster's id."""
        return str(AdminClient(self._config).list_topics(timeout=TIME_LIMIT).cluster_id)

    def make_topics(self, *names: str, partitions: int = 2) -> None:
        """Create topics."""
        # The futures are only valid while the client exists.
        admin = AdminClient(self._config)
        made = admin.create_topics([NewTopic(name, partitions, 1) for name in names])
        for future in made.values():
            future.result(TIME_LIMIT)

    def send(self, topic: str, values: Iterable[bytes | None], *, partitions: int = 2) -> None:
        """Send messages without keys, round-robin over the partitions."""
        self.send_records(topic, map(Record, values), partitions=partitions)

    def send_records(self, topic: str, records: Iterable[Record], *, partitions: int = 2) -> None:
        """Send messages round-robin over the partitions; a time of 0 is the present."""
        failed: list[KafkaError] = []
        producer = Producer(self._config | {"linger.ms": 5})
        for number, record in enumerate(records):
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=number % partitions,
                headers=list(record.headers),
                timestamp=record.timestamp_ms,
                on_delivery=lambda error, _: error and failed.append(error),
            )
        assert producer.flush(TIME_LIMIT) == 0
        assert not failed, failed[0]

    def read(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Return all keys and values of a topic, partition by partition."""
        consumer = Consumer(
            self._config
            | {"group.id": "tests", "enable.auto.commit": False, "enable.partition.eof": True}
        )
        found = []
        try:
            for partition in consumer.list_topics(topic, TIME_LIMIT).topics[topic].partitions:
                consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
                while (message := consumer.poll(TIME_LIMIT)) is not None:
                    error = message.error()
                    if error is None:
                        found.append((message.key(), message.value()))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        break
                    else:
                        raise KafkaException(error)
                assert message is not None, f"{topic} can't be read to its end"
        finally:
            consumer.close()
        return found
