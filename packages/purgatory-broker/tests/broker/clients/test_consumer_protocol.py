"""Consumers of the newer group protocol (KIP-848): real clients with group.protocol=consumer."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.broker.clients.waiting import TIME_LIMIT
from tests.broker.kafka_server import run_tool

CLASSIC = {"group.protocol": "classic", "heartbeat.interval.ms": 100}


def create(bootstrap_servers: str, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(topic, partitions, 3)])[topic].result(TIME_LIMIT)


def fill(bootstrap_servers: str, topic: str, partitions: int, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(records):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(TIME_LIMIT) == 0


def consumer(bootstrap_servers: str, group: str, **options: object) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            **options,
        }
    )


def poll_until_assigned(counts: dict[Consumer, int]) -> None:
    """Poll consumers until each has its number of partitions."""
    end = time.monotonic() + TIME_LIMIT
    while any(len(each.assignment()) != count for each, count in counts.items()):
        assert time.monotonic() < end, [each.assignment() for each in counts]
        for each in counts:
            each.poll(0.02)


def read(reader: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    end = time.monotonic() + TIME_LIMIT
    while len(values) < count:
        assert time.monotonic() < end, f"{len(values)} of {count} records"
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
    return values


def test_members_share_partitions_and_take_over_those_of_one_that_leaves(
    bootstrap_servers: str, topic: str
) -> None:
    create(bootstrap_servers, topic, 4)
    fill(bootstrap_servers, topic, 4, 40)
    first, second = (consumer(bootstrap_servers, topic) for _ in range(2))
    first.subscribe([topic])
    assert sorted(read(first, 40)) == sorted(str(number).encode() for number in range(40))
    second.subscribe([topic])
    poll_until_assigned({first: 2, second: 2})
    owned = {each.partition for each in first.assignment()}
    assert owned.isdisjoint({each.partition for each in second.assignment()})
    first.close()
    poll_until_assigned({second: 4})
    committed = second.committed(second.assignment(), timeout=TIME_LIMIT)
    assert [each.offset for each in committed] == [10] * 4
    second.close()


@pytest.mark.slow  # Kafka looks for topics every 10 seconds at most.
def test_regular_expression_finds_topics_that_are_created_later(
    bootstrap_servers: str, topic: str
) -> None:
    create(bootstrap_servers, f"{topic}-a", 1)
    reader = consumer(bootstrap_servers, topic)
    reader.subscribe([f"^{topic}-.*"])
    poll_until_assigned({reader: 1})
    create(bootstrap_servers, f"{topic}-b", 2)
    poll_until_assigned({reader: 3})
    reader.close()


def test_members_get_partitions_that_are_added(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic, 1)
    reader = consumer(bootstrap_servers, topic)
    reader.subscribe([topic])
    poll_until_assigned({reader: 1})
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(TIME_LIMIT)
    poll_until_assigned({reader: 3})
    reader.close()


def test_static_member_keeps_its_partitions(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic, 2)
    members = {name: {"group.instance.id": name} for name in ("a", "b")}
    first, second = (consumer(bootstrap_servers, topic, **options) for options in members.values())
    first.subscribe([topic])
    poll_until_assigned({first: 2})
    second.subscribe([topic])
    poll_until_assigned({first: 1, second: 1})
    before = first.assignment()
    first.close()
    returned = consumer(bootstrap_servers, topic, **members["a"])
    returned.subscribe([topic])
    poll_until_assigned({returned: 1, second: 1})
    assert returned.assignment() == before
    returned.close()
    second.close()


def test_groups_change_between_the_protocols(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic, 2)
    classic = consumer(bootstrap_servers, topic, **CLASSIC)
    classic.subscribe([topic])
    poll_until_assigned({classic: 2})
    newer = consumer(bootstrap_servers, topic)
    newer.subscribe([topic])
    poll_until_assigned({classic: 1, newer: 1})
    newer.close()
    poll_until_assigned({classic: 2})
    classic.close()


def test_offsets_of_another_epoch_are_refused(bootstrap_servers: str, topic: str) -> None:
    create(bootstrap_servers, topic, 1)
    reader = consumer(bootstrap_servers, topic)
    reader.subscribe([topic])
    poll_until_assigned({reader: 1})
    outsider = consumer(bootstrap_servers, topic)
    offset = TopicPartition(topic, 0, 5)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - the extension's own class.
        outsider.commit(offsets=[offset], asynchronous=False)
    assert raised.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    outsider.close()
    reader.close()


@pytest.mark.jvm
def test_java_consumer_reads_in_a_group(bootstrap_servers: str, topic: str, tools: Path) -> None:
    create(bootstrap_servers, topic, 3)
    fill(bootstrap_servers, topic, 3, 30)
    ran = run_tool(
        tools,
        "ConsoleConsumer",
        *("--bootstrap-server", bootstrap_servers, "--topic", topic, "--group", topic),
        *("--consumer-property", "group.protocol=consumer"),
        *("--from-beginning", "--max-messages", "30"),
    )
    assert sorted(ran.stdout.split(), key=int) == list(map(str, range(30))), ran.stderr
    described = run_tool(
        tools,
        "ConsumerGroupCommand",
        *("--bootstrap-server", bootstrap_servers, "--describe", "--group", topic, "--state"),
    )
    assert "Empty" in described.stdout, described.stdout + described.stderr
