"""confluent-kafka, that is librdkafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.broker.clients.waiting import TIME_LIMIT, until

pytest.importorskip("confluent_kafka")
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

_TIME = 1_700_000_000_000


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    """An administrator, of one test: librdkafka connects again whenever it likes."""
    return AdminClient({"bootstrap.servers": bootstrap})


def _create(
    admin: AdminClient, topic: str, *, partitions: int = 1, replicas: int = 3, **config: str
) -> None:
    new = NewTopic(
        topic,
        partitions,
        replicas,
        config={name.replace("_", "."): value for name, value in config.items()},
    )
    admin.create_topics([new])[topic].result(TIME_LIMIT)


def _produce(
    bootstrap: str, topic: str, *values: str, partition: int | None = None, **config: Any
) -> list[Any]:
    """Messages as they were delivered."""
    delivered: list[Any] = []

    def on_delivery(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        delivered.append(message)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1} | config)
    where: dict[str, Any] = {} if partition is None else {"partition": partition}
    for number, value in enumerate(values):
        producer.produce(
            topic,
            value,
            f"key {number}",
            on_delivery=on_delivery,
            timestamp=_TIME + number,
            headers={"number": str(number)},
            **where,
        )
    assert producer.flush(TIME_LIMIT) == 0
    return delivered


@contextmanager
def _consumer(bootstrap: str, group: str, **config: Any) -> Iterator[Consumer]:
    common = {
        "bootstrap.servers": bootstrap,
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
        # A rebalance that waits in the consumer's queue makes its close hang for ever: librdkafka's
        # issue 4884.
        consumer.poll(0)
        consumer.close()


def _messages(consumer: Consumer, count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        for message in consumer.consume(count - len(found), 0.1):
            assert message.error() is None, message.error()
            found.append(message)
        return len(found) >= count

    until(enough)
    return found


def _values(consumer: Consumer, count: int) -> list[str]:
    return [message.value().decode() for message in _messages(consumer, count)]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_messages_are_produced_with_these_acks(
    bootstrap: str, admin: AdminClient, topic: str, acks: str
) -> None:
    """And come back with their keys, times and headers."""
    _create(admin, topic)
    delivered = _produce(bootstrap, topic, "a", "b", acks=acks)
    assert len(delivered) == 2
    if acks != "0":
        assert [message.offset() for message in delivered] == [0, 1]
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found = _messages(consumer, 2)
    assert [(each.key(), each.value(), each.offset()) for each in found] == [
        (b"key 0", b"a", 0),
        (b"key 1", b"b", 1),
    ]
    assert [each.timestamp() for each in found] == [
        (TIMESTAMP_CREATE_TIME, _TIME),
        (TIMESTAMP_CREATE_TIME, _TIME + 1),
    ]
    assert [each.headers() for each in found] == [[("number", b"0")], [("number", b"1")]]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed_with_this_codec(
    bootstrap: str, admin: AdminClient, topic: str, codec: str
) -> None:
    """And come back as they were."""
    _create(admin, topic)
    values = [f"{number} " * 100 for number in range(20)]
    _produce(bootstrap, topic, *values, **{"compression.type": codec, "linger.ms": 20})
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _values(consumer, 20) == values


def test_an_idempotent_producer_keeps_the_order(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """In many small batches that are on their way at once."""
    _create(admin, topic)
    values = [str(number) for number in range(500)]
    delivered = _produce(
        bootstrap,
        topic,
        *values,
        **{"enable.idempotence": True, "batch.num.messages": 5, "linger.ms": 0},
    )
    assert [message.offset() for message in delivered] == list(range(500))
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _values(consumer, 500) == values


def test_a_topic_is_made_by_producing_to_it(bootstrap: str, topic: str) -> None:
    """Where the cluster allows it."""
    assert _produce(bootstrap, topic, "first")[0].offset() == 0


def test_reading_starts_where_it_is_told_to(bootstrap: str, admin: AdminClient, topic: str) -> None:
    """At the beginning, the end, an offset, or a time."""
    _create(admin, topic)
    _produce(bootstrap, topic, "a", "b", "c")
    with _consumer(bootstrap, topic) as consumer:
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0), TIME_LIMIT) == (0, 3)
        consumer.assign([TopicPartition(topic, 0, 1)])
        assert _values(consumer, 2) == ["b", "c"]
        times = {_TIME: 0, _TIME + 1: 1, _TIME + 3: OFFSET_END}
        asked = {
            time: consumer.offsets_for_times([TopicPartition(topic, 0, time)], TIME_LIMIT)[0].offset
            for time in times
        }
        assert asked == times
        consumer.seek(TopicPartition(topic, 0, asked[_TIME + 1]))
        assert _values(consumer, 1) == ["b"]


def test_an_offset_out_of_range_is_reset(bootstrap: str, admin: AdminClient, topic: str) -> None:
    """As `auto.offset.reset` says."""
    _create(admin, topic)
    _produce(bootstrap, topic, "a", "b")
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, 77)])
        assert _values(consumer, 2) == ["a", "b"]


def test_a_long_poll_is_woken_by_a_later_message(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """Long before it would have ended."""
    _create(admin, topic)
    with _consumer(
        bootstrap, topic, **{"fetch.wait.max.ms": 50_000, "socket.timeout.ms": 60_000}
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert consumer.poll(0.5) is None
        _produce(bootstrap, topic, "late")
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"late"


def test_members_of_a_group_share_its_partitions(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """Two when one joins, one again when it leaves."""
    _create(admin, topic, partitions=4)
    with _consumer(bootstrap, topic) as first:
        first.subscribe([topic])
        until(lambda: first.poll(0.05) or len(first.assignment()) == 4)
        with _consumer(bootstrap, topic) as second:
            second.subscribe([topic])

            def shared() -> bool:
                first.poll(0.05)
                second.poll(0.05)
                return [len(each.assignment()) for each in (first, second)] == [2, 2]

            until(shared)
            partitions = {
                each.partition for member in (first, second) for each in member.assignment()
            }
            assert partitions == {0, 1, 2, 3}
        until(lambda: first.poll(0.05) or len(first.assignment()) == 4)


def test_reading_resumes_from_what_was_committed(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """By the next member of the group."""
    _create(admin, topic)
    _produce(bootstrap, topic, "a", "b", "c")
    with _consumer(bootstrap, topic) as consumer:
        consumer.subscribe([topic])
        found = _messages(consumer, 3)
        consumer.commit(message=found[1], asynchronous=False)
        assert consumer.committed([TopicPartition(topic, 0)], TIME_LIMIT)[0].offset == 2
    with _consumer(bootstrap, topic) as consumer:
        consumer.subscribe([topic])
        assert _values(consumer, 1) == ["c"]


def test_static_members_come_back_without_a_rebalance(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """One that is away for less than its session gets its partitions again."""
    _create(admin, topic)
    _produce(bootstrap, topic, "a", "b")
    for value in ("a", "b"):
        with _consumer(bootstrap, topic, **{"group.instance.id": "one"}) as consumer:
            consumer.subscribe([topic])
            message = _messages(consumer, 1)[0]
            assert message.value().decode() == value
            consumer.commit(message=message, asynchronous=False)


def test_a_message_too_large_is_refused(bootstrap: str, admin: AdminClient, topic: str) -> None:
    """By the broker, with its own error."""
    _create(admin, topic, max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": bootstrap})
    errors: list[Any] = []
    producer.produce(topic, "x" * 2000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIME_LIMIT) == 0
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_an_unknown_partition_is_refused(bootstrap: str, admin: AdminClient, topic: str) -> None:
    """For its number, as the client knows how many there are."""
    _create(admin, topic)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "message.timeout.ms": 5_000,
            "topic.metadata.propagation.max.ms": 100,
        }
    )
    errors: list[Any] = []
    producer.produce(topic, "x", partition=9, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIME_LIMIT) == 0
    assert errors[0].code() == KafkaError._UNKNOWN_PARTITION


def test_reading_an_unknown_topic_is_an_error(bootstrap: str, topic: str) -> None:
    """Which the client reports, where it may not have it made."""
    with _consumer(
        bootstrap,
        topic,
        **{"allow.auto.create.topics": False, "topic.metadata.propagation.max.ms": 100},
    ) as consumer:
        consumer.subscribe([topic])
        message = until(lambda: consumer.poll(0.1))
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_member_that_goes_silent_is_put_out(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """Its partitions go to the other one when it has not polled for too long."""
    _create(admin, topic, partitions=2)
    silent = _consumer(
        bootstrap, topic, **{"session.timeout.ms": 1_500, "max.poll.interval.ms": 1_500}
    )
    with silent as gone, _consumer(bootstrap, topic) as other:
        gone.subscribe([topic])
        until(lambda: gone.poll(0.05) or len(gone.assignment()) == 2)
        other.subscribe([topic])
        until(lambda: other.poll(0.05) or len(other.assignment()) == 2)


def test_topics_are_made_widened_and_removed(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """With what there is to know of them in between."""
    _create(admin, topic, partitions=2)
    with pytest.raises(KafkaException) as refused:
        _create(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIME_LIMIT)
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(TIME_LIMIT)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    until(lambda: len(admin.list_topics(topic, TIME_LIMIT).topics[topic].partitions) == 3)
    admin.delete_topics([topic])[topic].result(TIME_LIMIT)
    until(lambda: topic not in admin.list_topics(timeout=TIME_LIMIT).topics)


def test_settings_of_a_topic_are_told_and_changed(admin: AdminClient, topic: str) -> None:
    """Also which of them are its own."""
    _create(admin, topic, retention_ms="5000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    # Kafka's nodes hear of a topic one after the other.
    until(lambda: topic in admin.list_topics(timeout=TIME_LIMIT).topics)

    def told(name: str) -> Any:
        described = admin.describe_configs([resource])[resource]
        until(described.done)
        return None if described.exception() else described.result()[name]

    retention = until(lambda: told("retention.ms"))
    assert (retention.value, retention.is_default) == ("5000", False)
    assert until(lambda: told("cleanup.policy")).value == "delete"
    change = ConfigEntry("retention.ms", "6000", incremental_operation=AlterConfigOpType.SET)
    altered = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([altered])[altered].result(TIME_LIMIT)
    until(lambda: (found := told("retention.ms")) and found.value == "6000")


def test_the_cluster_is_described(bootstrap: str, admin: AdminClient) -> None:
    """With all of its nodes."""
    described = admin.describe_cluster().result(TIME_LIMIT)
    assert sorted(f"{node.host}:{node.port}" for node in described.nodes) == sorted(
        bootstrap.split(",")
    )
    assert described.controller is not None


def test_records_are_deleted(bootstrap: str, admin: AdminClient, topic: str) -> None:
    """Up to an offset; reading from the beginning starts there."""
    _create(admin, topic)
    _produce(bootstrap, topic, "a", "b", "c")
    partition = TopicPartition(topic, 0, 2)
    assert admin.delete_records([partition])[partition].result(TIME_LIMIT).low_watermark == 2
    earliest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert next(iter(earliest.values())).result(TIME_LIMIT).offset == 2
    with _consumer(bootstrap, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _values(consumer, 1) == ["c"]


def test_groups_are_listed_described_altered_and_deleted(
    bootstrap: str, admin: AdminClient, topic: str
) -> None:
    """While they have members, and after."""
    _create(admin, topic)
    _produce(bootstrap, topic, "a", "b")
    with _consumer(bootstrap, topic, **{"client.id": "the-client"}) as consumer:
        consumer.subscribe([topic])
        consumer.commit(message=_messages(consumer, 2)[1], asynchronous=False)
        described = admin.describe_consumer_groups([topic])[topic].result(TIME_LIMIT)
        assert described.state == ConsumerGroupState.STABLE
        assert [member.client_id for member in described.members] == ["the-client"]
        assert [each.partition for each in described.members[0].assignment.topic_partitions] == [0]
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([topic])[topic].result(TIME_LIMIT)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    assert topic in {
        group.group_id for group in admin.list_consumer_groups().result(TIME_LIMIT).valid
    }
    told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result(
        TIME_LIMIT
    )
    assert [(each.partition, each.offset) for each in told.topic_partitions] == [(0, 2)]
    altered = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([altered])[topic].result(TIME_LIMIT)
    told = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result(
        TIME_LIMIT
    )
    assert [each.offset for each in told.topic_partitions] == [1]
    admin.delete_consumer_groups([topic])[topic].result(TIME_LIMIT)
    assert topic not in {
        group.group_id for group in admin.list_consumer_groups().result(TIME_LIMIT).valid
    }
