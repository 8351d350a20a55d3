"""kafka-python's consumers in groups."""

from __future__ import annotations

import threading
from typing import Any

from kafka import TopicPartition
from kafka.structs import OffsetAndMetadata

from tests.broker.clients.kafka_python.client import (
    create_topic,
    open_consumer,
    read_messages,
    send,
    subscribe,
)
from tests.broker.clients.waiting import TIME_LIMIT, until


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
        with open_consumer(self._addresses, group=self._topic, **self._config) as consumer:
            subscribe(consumer, self._topic)
            while not self._leaving.is_set():
                consumer.poll(500)
                self.assigned = {each.partition for each in consumer.assignment()}

    def leave(self) -> None:
        """Stop polling, and leave the group."""
        self._leaving.set()
        self.join(TIME_LIMIT)
        assert not self.is_alive()


def test_group_members_share_the_partitions(bootstrap_servers: str, admin: Any, topic: str) -> None:
    create_topic(admin, topic, partitions=4)
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
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", b"b", b"c")
    partition = TopicPartition(topic, 0)
    with open_consumer(bootstrap_servers, group=topic) as consumer:
        subscribe(consumer, topic)
        assert len(read_messages(consumer, 3)) == 3
        consumer.commit({partition: OffsetAndMetadata(2, "as far as b", -1)})
        assert consumer.committed(partition, metadata=True) == OffsetAndMetadata(
            2, "as far as b", -1
        )
    with open_consumer(bootstrap_servers, group=topic) as consumer:
        subscribe(consumer, topic)
        assert [each.value for each in read_messages(consumer, 1)] == [b"c"]


def test_offsets_are_committed_without_membership(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic)
    partition = TopicPartition(topic, 0)
    with open_consumer(bootstrap_servers, group=topic) as consumer:
        consumer.assign([partition])
        assert consumer.committed(partition) is None
        consumer.commit({partition: OffsetAndMetadata(7, "", -1)})
        assert consumer.committed(partition) == 7


def test_offsets_are_committed_automatically(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, b"a", b"b")
    with open_consumer(
        bootstrap_servers, group=topic, enable_auto_commit=True, auto_commit_interval_ms=50
    ) as consumer:
        subscribe(consumer, topic)
        read_messages(consumer, 2)
    with open_consumer(bootstrap_servers, group=topic) as consumer:
        assert consumer.committed(TopicPartition(topic, 0)) == 2


def test_member_that_stops_polling_is_removed(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic, partitions=2)
    with open_consumer(
        bootstrap_servers, group=topic, session_timeout_ms=1_500, max_poll_interval_ms=1_500
    ) as gone:
        subscribe(gone, topic)
        until(lambda: gone.poll(500) or len(gone.assignment()) == 2)
        other = _Member(bootstrap_servers, topic)
        other.start()
        try:
            until(lambda: other.assigned == {0, 1})
        finally:
            other.leave()


def test_groups_are_listed_described_and_deleted(
    bootstrap_servers: str, admin: Any, topic: str
) -> None:
    create_topic(admin, topic)
    with open_consumer(bootstrap_servers, group=topic, client_id="the-client") as consumer:
        subscribe(consumer, topic)
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
