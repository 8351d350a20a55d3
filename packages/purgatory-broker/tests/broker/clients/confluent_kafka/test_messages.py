"""confluent-kafka sends and reads messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.clients.waiting import TIME_LIMIT, until

pytest.importorskip("confluent_kafka")
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.broker.clients.confluent_kafka.client import (
    TIME,
    create_topic,
    open_consumer,
    read_messages,
    read_values,
    send,
)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_messages_are_produced_with_each_acks(
    bootstrap_servers: str, admin: AdminClient, topic: str, acks: str
) -> None:
    create_topic(admin, topic)
    delivered = send(bootstrap_servers, topic, "a", "b", acks=acks)
    assert len(delivered) == 2
    if acks != "0":
        assert [message.offset() for message in delivered] == [0, 1]
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = read_messages(consumer, 2)
    assert [(each.key(), each.value(), each.offset()) for each in found] == [
        (b"key 0", b"a", 0),
        (b"key 1", b"b", 1),
    ]
    assert [each.timestamp() for each in found] == [
        (TIMESTAMP_CREATE_TIME, TIME),
        (TIMESTAMP_CREATE_TIME, TIME + 1),
    ]
    assert [each.headers() for each in found] == [[("number", b"0")], [("number", b"1")]]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed_with_each_codec(
    bootstrap_servers: str, admin: AdminClient, topic: str, codec: str
) -> None:
    create_topic(admin, topic)
    values = [f"{number} " * 100 for number in range(20)]
    send(bootstrap_servers, topic, *values, **{"compression.type": codec, "linger.ms": 20})
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read_values(consumer, 20) == values


def test_idempotent_producer_keeps_the_order(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    values = [str(number) for number in range(500)]
    delivered = send(
        bootstrap_servers,
        topic,
        *values,
        **{"enable.idempotence": True, "batch.num.messages": 5, "linger.ms": 0},
    )
    assert [message.offset() for message in delivered] == list(range(500))
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read_values(consumer, 500) == values


def test_producing_creates_the_topic(bootstrap_servers: str, topic: str) -> None:
    assert send(bootstrap_servers, topic, "first")[0].offset() == 0


def test_consumer_seeks_to_an_offset_or_a_time(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, "a", "b", "c")
    with open_consumer(bootstrap_servers, topic) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIME_LIMIT) == (0, 3)
        consumer.assign([TopicPartition(topic, 0, 1)])
        assert read_values(consumer, 2) == ["b", "c"]
        times = {TIME: 0, TIME + 1: 1, TIME + 3: OFFSET_END}
        asked = {
            time: consumer.offsets_for_times([TopicPartition(topic, 0, time)], TIME_LIMIT)[0].offset
            for time in times
        }
        assert asked == times
        consumer.seek(TopicPartition(topic, 0, asked[TIME + 1]))
        assert read_values(consumer, 1) == ["b"]


def test_offset_out_of_range_is_reset(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, "a", "b")
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, 77)])
        assert read_values(consumer, 2) == ["a", "b"]


def test_long_poll_is_completed_by_a_later_message(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    with open_consumer(
        bootstrap_servers, topic, **{"fetch.wait.max.ms": 50_000, "socket.timeout.ms": 60_000}
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert consumer.poll(0.5) is None
        send(bootstrap_servers, topic, "late")
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"late"


def test_too_large_message_is_refused(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic, max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    errors: list[Any] = []
    producer.produce(topic, "x" * 2000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIME_LIMIT) == 0
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_unknown_partition_is_refused(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "message.timeout.ms": 5_000,
            "topic.metadata.propagation.max.ms": 100,
        }
    )
    errors: list[Any] = []
    producer.produce(topic, "x", partition=9, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIME_LIMIT) == 0
    assert errors[0].code() == KafkaError._UNKNOWN_PARTITION


def test_reading_an_unknown_topic_is_an_error(bootstrap_servers: str, topic: str) -> None:
    with open_consumer(
        bootstrap_servers,
        topic,
        **{"allow.auto.create.topics": False, "topic.metadata.propagation.max.ms": 100},
    ) as consumer:
        consumer.subscribe([topic])
        message = until(lambda: consumer.poll(0.1))
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART
