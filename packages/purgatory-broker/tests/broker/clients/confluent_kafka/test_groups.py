"""confluent-kafka's consumers in groups."""

from __future__ import annotations

import pytest

from tests.broker.clients.waiting import TIME_LIMIT, until

pytest.importorskip("confluent_kafka")
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from tests.broker.clients.confluent_kafka.client import (
    create_topic,
    open_consumer,
    read_messages,
    read_values,
    send,
)


def test_group_members_share_the_partitions(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic, partitions=4)
    with open_consumer(bootstrap_servers, topic) as first:
        first.subscribe([topic])
        until(lambda: first.poll(0.05) or len(first.assignment()) == 4)
        with open_consumer(bootstrap_servers, topic) as second:
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
    create_topic(admin, topic)
    send(bootstrap_servers, topic, "a", "b", "c")
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.subscribe([topic])
        found = read_messages(consumer, 3)
        consumer.commit(message=found[1], asynchronous=False)
        assert consumer.committed([TopicPartition(topic, 0)], TIME_LIMIT)[0].offset == 2
    with open_consumer(bootstrap_servers, topic) as consumer:
        consumer.subscribe([topic])
        assert read_values(consumer, 1) == ["c"]


def test_static_member_returns_without_a_rebalance(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, "a", "b")
    for value in ("a", "b"):
        with open_consumer(bootstrap_servers, topic, **{"group.instance.id": "one"}) as consumer:
            consumer.subscribe([topic])
            message = read_messages(consumer, 1)[0]
            assert message.value().decode() == value
            consumer.commit(message=message, asynchronous=False)


def test_member_that_stops_polling_is_removed(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic, partitions=2)
    silent = open_consumer(
        bootstrap_servers, topic, **{"session.timeout.ms": 1_500, "max.poll.interval.ms": 1_500}
    )
    with silent as gone, open_consumer(bootstrap_servers, topic) as other:
        gone.subscribe([topic])
        until(lambda: gone.poll(0.05) or len(gone.assignment()) == 2)
        other.subscribe([topic])
        until(lambda: other.poll(0.05) or len(other.assignment()) == 2)


def test_groups_are_listed_described_altered_and_deleted(
    bootstrap_servers: str, admin: AdminClient, topic: str
) -> None:
    create_topic(admin, topic)
    send(bootstrap_servers, topic, "a", "b")
    with open_consumer(bootstrap_servers, topic, **{"client.id": "the-client"}) as consumer:
        consumer.subscribe([topic])
        consumer.commit(message=read_messages(consumer, 2)[1], asynchronous=False)
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
