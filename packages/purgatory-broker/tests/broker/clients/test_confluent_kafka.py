"""confluent-kafka, which wraps librdkafka, against the broker."""

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
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclOperation,
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
def admin(bootstrap_servers: str) -> AdminClient:
    """Return an admin client for one test."""
    return AdminClient({"bootstrap.servers": bootstrap_servers})


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
            timestamp=_TIME + number,
            headers={"number": str(number)},
            **where,
        )
    assert producer.flush(TIME_LIMIT) == 0
    return delivered


@contextmanager
def _consumer(bootstrap_servers: str, group: str, **config: Any) -> Iterator[Consumer]:
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
def test_messages_are_produced_with_each_acks(
    bootstrap_servers: str, admin: AdminClient, topic: str, acks: str
) -> None:
    _create(admin, topic)
    delivered = _produce(bootstrap_servers, topic, "a", "b", acks=acks)
    assert len(delivered) == 2
    if acks != "0":
        assert [message.offset() for message in delivered] == [0, 1]
    with _consumer(bootstrap_servers, topic) as consumer:
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
def test_messages_are_compressed_with_each_codec(
    bootstrap_servers: str, admin: AdminClient, topic: str, codec: str
) -> None:
    _create(admin, topic)
    values = [f"{number} " * 100 for number in range(20)]
    _produce(bootstrap_servers, topic, *values, **{"compression.type": codec, "linger.ms": 20})
    with _consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _values(consumer, 20) == values


def test_idempotent_producer_keeps_the_order(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    values = [str(number) for number in range(500)]
    delivered = _produce(
        bootstrap_servers,
        topic,
        *values,
        **{"enable.idempotence": True, "batch.num.messages": 5, "linger.ms": 0},
    )
    assert [message.offset() for message in delivered] == list(range(500))
    with _consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _values(consumer, 500) == values


def test_producing_creates_the_topic(bootstrap_servers: str, topic: str) -> None:
    assert _produce(bootstrap_servers, topic, "first")[0].offset() == 0


def test_consumer_seeks_to_an_offset_or_a_time(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, "a", "b", "c")
    with _consumer(bootstrap_servers, topic) as consumer:
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


def test_offset_out_of_range_is_reset(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, "a", "b")
    with _consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, 77)])
        assert _values(consumer, 2) == ["a", "b"]


def test_long_poll_is_completed_by_a_later_message(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    with _consumer(
        bootstrap_servers, topic, **{"fetch.wait.max.ms": 50_000, "socket.timeout.ms": 60_000}
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert consumer.poll(0.5) is None
        _produce(bootstrap_servers, topic, "late")
        message = consumer.poll(20)
        assert message is not None
        assert message.value() == b"late"


def test_group_members_share_the_partitions(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic, partitions=4)
    with _consumer(bootstrap_servers, topic) as first:
        first.subscribe([topic])
        until(lambda: first.poll(0.05) or len(first.assignment()) == 4)
        with _consumer(bootstrap_servers, topic) as second:
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


def test_consumer_resumes_from_the_committed_offset(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, "a", "b", "c")
    with _consumer(bootstrap_servers, topic) as consumer:
        consumer.subscribe([topic])
        found = _messages(consumer, 3)
        consumer.commit(message=found[1], asynchronous=False)
        assert consumer.committed([TopicPartition(topic, 0)], TIME_LIMIT)[0].offset == 2
    with _consumer(bootstrap_servers, topic) as consumer:
        consumer.subscribe([topic])
        assert _values(consumer, 1) == ["c"]


def test_static_member_returns_without_a_rebalance(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, "a", "b")
    for value in ("a", "b"):
        with _consumer(bootstrap_servers, topic, **{"group.instance.id": "one"}) as consumer:
            consumer.subscribe([topic])
            message = _messages(consumer, 1)[0]
            assert message.value().decode() == value
            consumer.commit(message=message, asynchronous=False)


def test_too_large_message_is_refused(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic, max_message_bytes="1000")
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    errors: list[Any] = []
    producer.produce(topic, "x" * 2000, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIME_LIMIT) == 0
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_unknown_partition_is_refused(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
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
    with _consumer(
        bootstrap_servers,
        topic,
        **{"allow.auto.create.topics": False, "topic.metadata.propagation.max.ms": 100},
    ) as consumer:
        consumer.subscribe([topic])
        message = until(lambda: consumer.poll(0.1))
        assert message.error().code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_member_that_stops_polling_is_removed(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic, partitions=2)
    silent = _consumer(
        bootstrap_servers, topic, **{"session.timeout.ms": 1_500, "max.poll.interval.ms": 1_500}
    )
    with silent as gone, _consumer(bootstrap_servers, topic) as other:
        gone.subscribe([topic])
        until(lambda: gone.poll(0.05) or len(gone.assignment()) == 2)
        other.subscribe([topic])
        until(lambda: other.poll(0.05) or len(other.assignment()) == 2)


def test_topics_are_created_extended_and_deleted(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
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


def test_topic_settings_are_described_and_changed(admin: AdminClient, topic: str) -> None:
    _create(admin, topic, retention_ms="5000")
    resource = ConfigResource(ResourceType.TOPIC, topic)

    # Kafka notifies its nodes one after the other.
    until(lambda: topic in admin.list_topics(timeout=TIME_LIMIT).topics)

    def setting(name: str) -> Any:
        described = admin.describe_configs([resource])[resource]
        until(described.done)
        return None if described.exception() else described.result()[name]

    retention = until(lambda: setting("retention.ms"))
    assert (retention.value, retention.is_default) == ("5000", False)
    assert until(lambda: setting("cleanup.policy")).value == "delete"
    change = ConfigEntry("retention.ms", "6000", incremental_operation=AlterConfigOpType.SET)
    altered = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin.incremental_alter_configs([altered])[altered].result(TIME_LIMIT)
    until(lambda: (found := setting("retention.ms")) and found.value == "6000")


def test_cluster_is_described(bootstrap_servers: str, admin: AdminClient) -> None:
    described = admin.describe_cluster().result(TIME_LIMIT)
    assert sorted(f"{node.host}:{node.port}" for node in described.nodes) == sorted(
        bootstrap_servers.split(",")
    )
    assert described.controller is not None


def test_records_are_deleted(bootstrap_servers: str, admin: AdminClient, topic: str) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, "a", "b", "c")
    partition = TopicPartition(topic, 0, 2)
    assert admin.delete_records([partition])[partition].result(TIME_LIMIT).low_watermark == 2
    earliest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert next(iter(earliest.values())).result(TIME_LIMIT).offset == 2
    with _consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert _values(consumer, 1) == ["c"]


def test_groups_are_listed_described_altered_and_deleted(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, "a", "b")
    with _consumer(bootstrap_servers, topic, **{"client.id": "the-client"}) as consumer:
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
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result(
        TIME_LIMIT
    )
    assert [(each.partition, each.offset) for each in listed.topic_partitions] == [(0, 2)]
    altered = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([altered])[topic].result(TIME_LIMIT)
    listed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)])[topic].result(
        TIME_LIMIT
    )
    assert [each.offset for each in listed.topic_partitions] == [1]
    admin.delete_consumer_groups([topic])[topic].result(TIME_LIMIT)
    assert topic not in {
        group.group_id for group in admin.list_consumer_groups().result(TIME_LIMIT).valid
    }


def test_leaders_are_elected(admin: AdminClient, topic: str) -> None:
    _create(admin, topic)
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 7)]
    elected = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(TIME_LIMIT)
    errors = {each.partition: error.code() for each, error in elected.items()}
    assert errors == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        7: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_authorized_operations_are_described(admin: AdminClient, topic: str) -> None:
    _create(admin, topic)
    cluster = admin.describe_cluster(include_authorized_operations=True).result(TIME_LIMIT)
    described = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)[
        topic
    ].result(TIME_LIMIT)
    assert AclOperation.IDEMPOTENT_WRITE in cluster.authorized_operations
    assert len(described.authorized_operations) == 8
    assert AclOperation.WRITE in described.authorized_operations


def test_settings_of_a_broker_are_read_only(admin: AdminClient) -> None:
    def change(name: str) -> None:
        entry = ConfigEntry(name, "1000000", incremental_operation=AlterConfigOpType.SET)
        broker = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
        admin.incremental_alter_configs([broker])[broker].result(TIME_LIMIT)

    with pytest.raises(KafkaException) as refused:
        change("offsets.topic.num.partitions")
    assert refused.value.args[0].code() == KafkaError.INVALID_REQUEST
    rate = "follower.replication.throttled.rate"
    change(rate)
    broker = ConfigResource(ResourceType.BROKER, "0")
    until(lambda: rate in admin.describe_configs([broker])[broker].result(TIME_LIMIT))
    entry = ConfigEntry(rate, None, incremental_operation=AlterConfigOpType.DELETE)
    broker = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
    admin.incremental_alter_configs([broker])[broker].result(TIME_LIMIT)
