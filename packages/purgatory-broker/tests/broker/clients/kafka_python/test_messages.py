"""kafka-python sends and reads messages."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka.errors import MessageSizeTooLargeError

from tests.broker.clients.kafka_python.client import (
    TIME,
    create_topic,
    open_consumer,
    read_messages,
    send,
)


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
def test_messages_are_produced_with_each_acks(
    bootstrap_servers: str, admin: Any, topic: str, acks: int | str, idempotent: bool
) -> None:
    create_topic(admin, topic)
    delivered = send(bootstrap_servers, topic, b"a", None, acks=acks, enable_idempotence=idempotent)
    if acks != 0:
        assert [each.offset for each in delivered] == [0, 1]
    with open_consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = read_messages(consumer, 2)
    assert [(each.key, each.value, each.timestamp, each.headers) for each in found] == [
        (b"key 0", b"a", TIME, [("number", b"0")]),
        (b"key 1", None, TIME + 1, [("number", b"1")]),
    ]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed_with_each_codec(
    bootstrap_servers: str, admin: Any, topic: str, codec: str | None
) -> None:
    create_topic(admin, topic)
    values = [b"%d " % number * 100 for number in range(20)]
    send(bootstrap_servers, topic, *values, compression_type=codec, linger_ms=20)
    with open_consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read_messages(consumer, 20)] == values


def test_idempotent_producer_keeps_the_order(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic)
    values = [b"%d" % number for number in range(300)]
    delivered = send(bootstrap_servers, topic, *values, enable_idempotence=True, batch_size=100)
    assert [each.offset for each in delivered] == list(range(300))
    with open_consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read_messages(consumer, 300)] == values


def test_consumer_seeks_to_an_offset_or_a_time(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    with open_consumer(bootstrap_servers) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 3}
        consumer.seek(partition, 2)
        assert [each.value for each in read_messages(consumer, 1)] == [b"c"]
        at = consumer.offsets_for_times({partition: TIME + 1})[partition]
        assert (at.offset, at.timestamp) == (1, TIME + 1)
        assert consumer.offsets_for_times({partition: TIME + 3}) == {partition: None}
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 3
        consumer.seek_to_beginning(partition)
        assert [each.value for each in read_messages(consumer, 3)] == [b"a", b"b", b"c"]


def test_long_poll_is_completed_by_a_later_message(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic)
    with open_consumer(
        bootstrap_servers, fetch_max_wait_ms=50_000, request_timeout_ms=60_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert not consumer.poll(500)
        send(bootstrap_servers, topic, b"late")
        assert [each.value for messages in consumer.poll(20_000).values() for each in messages] == [
            b"late"
        ]


def test_too_large_message_is_refused(bootstrap_servers: str, admin: Any, topic: str) -> None:
    create_topic(admin, topic, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        send(bootstrap_servers, topic, b"x" * 2000)


def test_unknown_topic_is_not_created_if_the_client_forbids_it(
    bootstrap_servers: str, topic: str
) -> None:
    with open_consumer(bootstrap_servers, allow_auto_create_topics=False) as consumer:
        assert not consumer.partitions_for_topic(topic)
        assert topic not in consumer.topics()
