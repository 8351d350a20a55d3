"""confluent-kafka's administration of topics and of the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker.clients.waiting import TIME_LIMIT, until

pytest.importorskip("confluent_kafka")
from confluent_kafka import (
    OFFSET_BEGINNING,
    ElectionType,
    KafkaError,
    KafkaException,
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
    OffsetSpec,
    ResourceType,
)

from tests.broker.clients.confluent_kafka.client import (
    create_topic,
    open_consumer,
    read_values,
    send,
)


def test_topics_are_created_extended_and_deleted(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic, partitions=2)
    with pytest.raises(KafkaException) as refused:
        create_topic(admin, topic)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIME_LIMIT)
    with pytest.raises(KafkaException) as refused:
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result(TIME_LIMIT)
    assert refused.value.args[0].code() == KafkaError.INVALID_PARTITIONS
    until(lambda: len(admin.list_topics(topic, TIME_LIMIT).topics[topic].partitions) == 3)
    admin.delete_topics([topic])[topic].result(TIME_LIMIT)
    until(lambda: topic not in admin.list_topics(timeout=TIME_LIMIT).topics)


def test_topic_settings_are_described_and_changed(admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, retention_ms="5000")
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
    create_topic(admin, topic)
    send(bootstrap_servers, topic, "a", "b", "c")
    partition = TopicPartition(topic, 0, 2)
    assert admin.delete_records([partition])[partition].result(TIME_LIMIT).low_watermark == 2
    earliest = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert next(iter(earliest.values())).result(TIME_LIMIT).offset == 2
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        assert read_values(consumer, 1) == ["c"]


def test_leaders_are_elected(admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 7)]
    elected = admin.elect_leaders(ElectionType.PREFERRED, wanted).result(TIME_LIMIT)
    errors = {each.partition: error.code() for each, error in elected.items()}
    assert errors == {
        0: KafkaError.ELECTION_NOT_NEEDED,
        7: KafkaError.UNKNOWN_TOPIC_OR_PART,
    }


def test_authorized_operations_are_described(admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
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
