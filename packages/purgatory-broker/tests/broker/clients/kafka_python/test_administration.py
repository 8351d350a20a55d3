"""kafka-python's administration of topics and of the cluster."""

from __future__ import annotations

from typing import Any

import pytest
from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions
from kafka.errors import (
    InvalidPartitionsError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from tests.broker.clients.kafka_python.client import (
    create_topic,
    open_consumer,
    read_messages,
    send,
    subscribe,
)
from tests.broker.clients.waiting import until


def test_topics_are_created_extended_and_deleted(admin: Any, topic: str) -> None:
    create_topic(admin, topic, partitions=2)
    with pytest.raises(TopicAlreadyExistsError):
        create_topic(admin, topic)
    admin.create_partitions({topic: NewPartitions(3)})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: NewPartitions(2)})
    until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3)
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics())


def test_partitions_are_described_in_pages(admin: Any, topic: str) -> None:
    create_topic(admin, topic, partitions=3)
    first = admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 2}
    rest = admin.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert rest["next_cursor"] is None
    found = [*first["topics"][0]["partitions"], *rest["topics"][0]["partitions"]]
    assert [(each["partition_index"], len(each["replica_nodes"])) for each in found] == [
        (index, 3) for index in range(3)
    ]


def test_topic_settings_are_described_and_changed(admin: Any, topic: str) -> None:
    create_topic(admin, topic, retention_ms="5000")

    def retention() -> Any:
        try:
            described = admin.describe_configs(
                [ConfigResource(ConfigResourceType.TOPIC, topic)], config_filter="all"
            )
        except UnknownTopicOrPartitionError:
            return None
        return _value(described, "retention.ms")

    assert until(retention) == "5000"
    admin.alter_configs(
        [ConfigResource(ConfigResourceType.TOPIC, topic, {"retention.ms": "6000"})],
        raise_on_unknown=False,
    )
    until(lambda: retention() == "6000")


def _value(described: Any, name: str) -> Any:
    """Return the value of a setting, wherever it is in a description."""
    if isinstance(described, dict):
        if name in described:
            return (
                described[name]["value"] if isinstance(described[name], dict) else described[name]
            )
        if described.get("name") == name:
            return described["value"]
        described = list(described.values())
    if isinstance(described, (list, tuple)):
        return next(
            (found for each in described if (found := _value(each, name)) is not None), None
        )
    return None


def test_cluster_is_described(bootstrap_servers: str, admin: Any) -> None:
    described = admin.describe_cluster()
    assert sorted(f"{node['host']}:{node['port']}" for node in described["brokers"]) == sorted(
        bootstrap_servers.split(",")
    )


def test_records_are_deleted(bootstrap_servers: str, admin: Any, topic: str) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", b"b", b"c")
    admin.delete_records({TopicPartition(topic, 0): 2})
    with open_consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.beginning_offsets([TopicPartition(topic, 0)]) == {
            TopicPartition(topic, 0): 2
        }
        assert [each.value for each in read_messages(consumer, 1)] == [b"c"]


def test_log_directories_are_described(bootstrap_servers: str, admin: Any, topic: str) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", acks="all")
    described = admin.describe_log_dirs({topic: [0]})
    partitions = [
        partition
        for node in described
        for directory in node["log_dirs"]
        for each in directory["topics"]
        for partition in each["partitions"]
    ]
    assert len(described) == 3
    assert len({partition["partition_size"] for partition in partitions}) == 1
    assert partitions[0]["partition_size"] > 0


def test_producers_are_described(bootstrap_servers: str, admin: Any, topic: str) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", b"b", acks="all", enable_idempotence=True)
    partition = TopicPartition(topic, 0)
    (producer,) = admin.describe_producers([partition])[partition].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 1)
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_producers([TopicPartition(topic, 7)], broker_id=0)


def test_partition_is_reassigned(bootstrap_servers: str, admin: Any, topic: str) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", acks="all")
    partition = TopicPartition(topic, 0)

    def replicas() -> Any:
        (described,) = admin.describe_topics([topic])
        return described["partitions"][0]["replica_nodes"]

    node = (replicas()[0] + 1) % 3
    assert admin.alter_partition_reassignments({partition: [node]}) == {partition: None}
    until(lambda: replicas() == [node] and admin.list_partition_reassignments([partition]) == {})
    refused = admin.alter_partition_reassignments({partition: None, TopicPartition(topic, 7): [0]})
    assert [refused[TopicPartition(topic, each)].errno for each in (0, 7)] == [85, 3]
    send(bootstrap_servers, topic, b"b", acks="all")
    with open_consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        subscribe(consumer, topic)
        assert [each.value for each in read_messages(consumer, 2)] == [b"a", b"b"]


def test_quorum_is_described(admin: Any) -> None:
    (found,) = admin.describe_metadata_quorum()["topics"]
    (quorum,) = found["partitions"]
    assert quorum["error"] is None
    assert quorum["leader_id"] in {each["replica_id"] for each in quorum["current_voters"]}
