"""kafka-python against the broker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, NewPartitions, NewTopic
from kafka.errors import (
    InvalidPartitionsError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from kafka.structs import OffsetAndMetadata

from tests.broker.clients.waiting import TIME_LIMIT, until

_TIME = 1_700_000_000_000
_LIMIT_MS = int(TIME_LIMIT * 1000)


@pytest.fixture(scope="module")
def admin(bootstrap_servers: str) -> Iterator[Any]:
    """Return an admin client."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap_servers.split(","))
    yield admin
    admin.close()


def _create(
    admin: Any, topic: str, *, partitions: int = 1, replicas: int = 3, **config: str
) -> None:
    configs = {name.replace("_", "."): value for name, value in config.items()}
    admin.create_topics(
        [NewTopic(topic, partitions, replicas, topic_configs=configs)], wait_for_metadata=True
    )


def _produce(bootstrap_servers: str, topic: str, *values: bytes | None, **config: Any) -> list[Any]:
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
                timestamp_ms=_TIME + number,
            )
            for number, value in enumerate(values)
        ]
        producer.flush(TIME_LIMIT)
        return [future.get(TIME_LIMIT) for future in futures]
    finally:
        producer.close(TIME_LIMIT)


@contextmanager
def _consumer(bootstrap_servers: str, *, group: str | None = None, **config: Any) -> Iterator[Any]:
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
        consumer.close(timeout_ms=_LIMIT_MS)


def _subscribe(consumer: Any, topic: str) -> None:
    """Subscribe, and wait for the topic's metadata before the consumer joins its group.

    Without them the first assignment is empty and kafka-python 3.0.12 joins again. If a poll times
    out during that, it drops the new assignment and sends no heartbeats from then on.
    """
    consumer.subscribe([topic])
    assert consumer.partitions_for_topic(topic)


def _messages(consumer: Any, count: int) -> list[Any]:
    found: list[Any] = []

    def enough() -> bool:
        for messages in consumer.poll(500).values():
            found.extend(messages)
        return len(found) >= count

    until(enough)
    return found


@pytest.mark.parametrize(
    ("acks", "idempotent"), [(0, False), (1, False), ("all", False), ("all", True)]
)
def test_messages_are_produced_with_each_acks(
    bootstrap_servers: str, admin: Any, topic: str, acks: int | str, idempotent: bool
) -> None:
    _create(admin, topic)
    delivered = _produce(
        bootstrap_servers, topic, b"a", None, acks=acks, enable_idempotence=idempotent
    )
    if acks != 0:
        assert [each.offset for each in delivered] == [0, 1]
    with _consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = _messages(consumer, 2)
    assert [(each.key, each.value, each.timestamp, each.headers) for each in found] == [
        (b"key 0", b"a", _TIME, [("number", b"0")]),
        (b"key 1", None, _TIME + 1, [("number", b"1")]),
    ]


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed_with_each_codec(
    bootstrap_servers: str, admin: Any, topic: str, codec: str | None
) -> None:
    _create(admin, topic)
    values = [b"%d " % number * 100 for number in range(20)]
    _produce(bootstrap_servers, topic, *values, compression_type=codec, linger_ms=20)
    with _consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in _messages(consumer, 20)] == values


def test_idempotent_producer_keeps_the_order(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    values = [b"%d" % number for number in range(300)]
    delivered = _produce(bootstrap_servers, topic, *values, enable_idempotence=True, batch_size=100)
    assert [each.offset for each in delivered] == list(range(300))
    with _consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in _messages(consumer, 300)] == values


def test_consumer_seeks_to_an_offset_or_a_time(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    with _consumer(bootstrap_servers) as consumer:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: 3}
        consumer.seek(partition, 2)
        assert [each.value for each in _messages(consumer, 1)] == [b"c"]
        at = consumer.offsets_for_times({partition: _TIME + 1})[partition]
        assert (at.offset, at.timestamp) == (1, _TIME + 1)
        assert consumer.offsets_for_times({partition: _TIME + 3}) == {partition: None}
        consumer.seek_to_end(partition)
        assert consumer.position(partition) == 3
        consumer.seek_to_beginning(partition)
        assert [each.value for each in _messages(consumer, 3)] == [b"a", b"b", b"c"]


def test_long_poll_is_completed_by_a_later_message(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    with _consumer(
        bootstrap_servers, fetch_max_wait_ms=50_000, request_timeout_ms=60_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert not consumer.poll(500)
        _produce(bootstrap_servers, topic, b"late")
        assert [each.value for messages in consumer.poll(20_000).values() for each in messages] == [
            b"late"
        ]


class _Member(threading.Thread):
    """A consumer that polls on its own thread: joins wait for all members to be polled."""

    def __init__(self, bootstrap_servers: str, topic: str, **config: Any) -> None:
        super().__init__()
        self.assigned: set[int] = set()
        self._addresses = bootstrap_servers
        self._topic = topic
        self._config = config
        self._leaving = threading.Event()

    def run(self) -> None:
        with _consumer(self._addresses, group=self._topic, **self._config) as consumer:
            _subscribe(consumer, self._topic)
            while not self._leaving.is_set():
                consumer.poll(500)
                self.assigned = {each.partition for each in consumer.assignment()}

    def leave(self) -> None:
        """Stop polling, and leave the group."""
        self._leaving.set()
        self.join(TIME_LIMIT)
        assert not self.is_alive()


def test_group_members_share_the_partitions(bootstrap_servers: str, admin: Any, topic: str) -> None:
    _create(admin, topic, partitions=4)
    members = [_Member(bootstrap_servers, topic), _Member(bootstrap_servers, topic)]
    try:
        members[0].start()
        until(lambda: members[0].assigned == {0, 1, 2, 3})
        members[1].start()
        until(
            lambda: (
                [len(each.assigned) for each in members] == [2, 2]
                and members[0].assigned | members[1].assigned == {0, 1, 2, 3}
            )
        )
        members[1].leave()
        until(lambda: members[0].assigned == {0, 1, 2, 3})
    finally:
        for each in members:
            if each.is_alive():
                each.leave()


def test_consumer_resumes_from_the_committed_offset(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    with _consumer(bootstrap_servers, group=topic) as consumer:
        _subscribe(consumer, topic)
        assert len(_messages(consumer, 3)) == 3
        consumer.commit({partition: OffsetAndMetadata(2, "as far as b", -1)})
        assert consumer.committed(partition, metadata=True) == OffsetAndMetadata(
            2, "as far as b", -1
        )
    with _consumer(bootstrap_servers, group=topic) as consumer:
        _subscribe(consumer, topic)
        assert [each.value for each in _messages(consumer, 1)] == [b"c"]


def test_offsets_are_committed_without_membership(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    partition = TopicPartition(topic, 0)
    with _consumer(bootstrap_servers, group=topic) as consumer:
        consumer.assign([partition])
        assert consumer.committed(partition) is None
        consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
        assert consumer.committed(partition) == 7


def test_offsets_are_committed_automatically(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", b"b")
    with _consumer(
        bootstrap_servers, group=topic, enable_auto_commit=True, auto_commit_interval_ms=50
    ) as consumer:
        _subscribe(consumer, topic)
        _messages(consumer, 2)
    with _consumer(bootstrap_servers, group=topic) as consumer:
        assert consumer.committed(TopicPartition(topic, 0)) == 2


def test_too_large_message_is_refused(bootstrap_servers: str, admin: Any, topic: str) -> None:
    _create(admin, topic, max_message_bytes="1000")
    with pytest.raises(MessageSizeTooLargeError):
        _produce(bootstrap_servers, topic, b"x" * 2000)


def test_unknown_topic_is_not_created_if_the_client_forbids_it(
    bootstrap_servers: str, topic: str
) -> None:
    with _consumer(bootstrap_servers, allow_auto_create_topics=False) as consumer:
        assert not consumer.partitions_for_topic(topic)
        assert topic not in consumer.topics()


def test_member_that_stops_polling_is_removed(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic, partitions=2)
    with _consumer(
        bootstrap_servers, group=topic, session_timeout_ms=1_500, max_poll_interval_ms=1_500
    ) as gone:
        _subscribe(gone, topic)
        until(lambda: gone.poll(500) or len(gone.assignment()) == 2)
        other = _Member(bootstrap_servers, topic)
        other.start()
        try:
            until(lambda: other.assigned == {0, 1})
        finally:
            other.leave()


def test_topics_are_created_extended_and_deleted(admin: Any, topic: str) -> None:
    _create(admin, topic, partitions=2)
    with pytest.raises(TopicAlreadyExistsError):
        _create(admin, topic)
    admin.create_partitions({topic: NewPartitions(3)})
    with pytest.raises(InvalidPartitionsError):
        admin.create_partitions({topic: NewPartitions(2)})
    until(lambda: len(admin.describe_topics([topic])[0]["partitions"]) == 3)
    admin.delete_topics([topic])
    until(lambda: topic not in admin.list_topics())


def test_partitions_are_described_in_pages(admin: Any, topic: str) -> None:
    _create(admin, topic, partitions=3)
    first = admin.describe_topic_partitions([topic], response_partition_limit=2)
    assert first["next_cursor"] == {"topic_name": topic, "partition_index": 2}
    rest = admin.describe_topic_partitions([topic], cursor=first["next_cursor"])
    assert rest["next_cursor"] is None
    found = [*first["topics"][0]["partitions"], *rest["topics"][0]["partitions"]]
    assert [(each["partition_index"], len(each["replica_nodes"])) for each in found] == [
        (index, 3) for index in range(3)
    ]


def test_topic_settings_are_described_and_changed(admin: Any, topic: str) -> None:
    _create(admin, topic, retention_ms="5000")

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
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", b"b", b"c")
    admin.delete_records({TopicPartition(topic, 0): 2})
    with _consumer(bootstrap_servers) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.beginning_offsets([TopicPartition(topic, 0)]) == {
            TopicPartition(topic, 0): 2
        }
        assert [each.value for each in _messages(consumer, 1)] == [b"c"]


def test_groups_are_listed_described_and_deleted(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    _create(admin, topic)
    with _consumer(bootstrap_servers, group=topic, client_id="the-client") as consumer:
        _subscribe(consumer, topic)
        until(lambda: consumer.poll(500) or consumer.assignment())
        consumer.commit({TopicPartition(topic, 0): OffsetAndMetadata(1, "", -1)})
        described = admin.describe_groups([topic])[topic]
        assert described["group_state"] == "Stable"
        assert [member["client_id"] for member in described["members"]] == ["the-client"]
        assert admin.delete_groups([topic])[topic] == "NonEmptyGroupError"
    assert topic in {group["group_id"] for group in admin.list_groups()}
    offsets = admin.list_group_offsets({topic: None})[topic]
    assert offsets[TopicPartition(topic, 0)].offset == 1
    admin.delete_groups([topic])
    assert admin.delete_groups([topic])[topic] == "GroupIdNotFoundError"


def test_log_directories_are_described(bootstrap_servers: str, admin: Any, topic: str) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", acks="all")
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
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", b"b", acks="all", enable_idempotence=True)
    partition = TopicPartition(topic, 0)
    (producer,) = admin.describe_producers([partition])[partition].active_producers
    assert (producer.producer_epoch, producer.last_sequence) == (0, 1)
    with pytest.raises(UnknownTopicOrPartitionError):
        admin.describe_producers([TopicPartition(topic, 7)], broker_id=0)


def test_partition_is_reassigned(bootstrap_servers: str, admin: Any, topic: str) -> None:
    _create(admin, topic)
    _produce(bootstrap_servers, topic, b"a", acks="all")
    partition = TopicPartition(topic, 0)

    def replicas() -> Any:
        (described,) = admin.describe_topics([topic])
        return described["partitions"][0]["replica_nodes"]

    node = (replicas()[0] + 1) % 3
    assert admin.alter_partition_reassignments({partition: [node]}) == {partition: None}
    until(lambda: replicas() == [node] and admin.list_partition_reassignments([partition]) == {})
    refused = admin.alter_partition_reassignments({partition: None, TopicPartition(topic, 7): [0]})
    assert [refused[TopicPartition(topic, each)].errno for each in (0, 7)] == [85, 3]
    _produce(bootstrap_servers, topic, b"b", acks="all")
    with _consumer(bootstrap_servers, auto_offset_reset="earliest") as consumer:
        _subscribe(consumer, topic)
        assert [each.value for each in _messages(consumer, 2)] == [b"a", b"b"]


def test_quorum_is_described(admin: Any) -> None:
    (found,) = admin.describe_metadata_quorum()["topics"]
    (quorum,) = found["partitions"]
    assert quorum["error"] is None
    assert quorum["leader_id"] in {each["replica_id"] for each in quorum["current_voters"]}
