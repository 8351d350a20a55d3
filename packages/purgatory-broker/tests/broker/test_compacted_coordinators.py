"""The broker's own topics are compacted, and coordinators find the same state in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from purgatory_broker import Cluster, TransactionSnapshot
from tests.broker.clients.waiting import TIME_LIMIT, until

OWN_TOPICS = ("__consumer_offsets", "__transaction_state")


def _produce(cluster: Cluster, number: int, *, commits: bool, consumer: Consumer) -> None:
    """Run one transaction of a producer, with offsets of a consumer."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"shop-{number % 3}"}
    )
    producer.init_transactions(TIME_LIMIT)
    producer.begin_transaction()
    producer.produce("orders", b"%d" % number)
    producer.send_offsets_to_transaction(
        [TopicPartition("orders", number % 4, number)],
        consumer.consumer_group_metadata(),
        TIME_LIMIT,
    )
    if commits:
        producer.commit_transaction(TIME_LIMIT)
    else:
        producer.abort_transaction(TIME_LIMIT)


def _is_complete(transaction: TransactionSnapshot) -> bool:
    return transaction.state.startswith("Complete")


def _state(cluster: Cluster) -> list[Any]:
    """Return the groups with their members and offsets, and the transactions."""
    groups = {
        name: (group.offsets, group.generation, group.state, group.members)
        for name, group in cluster.groups().items()
    }
    return [groups, cluster.transactions()]


def _member(cluster: Cluster, protocol: str) -> Consumer:
    """Let a consumer join a group, after another one that leaves it."""
    group = f"group-of-{protocol}"
    members = [
        Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "group.protocol": protocol,
                "enable.auto.commit": False,
            }
        )
        for _ in range(2)
    ]
    for member in members:
        member.subscribe(["orders"])
        until(lambda member=member: member.poll(0.05) or len(member.assignment()) == 4)
        if member is members[0]:
            member.close()
    until(lambda: cluster.groups()[group].state == "Stable")
    return members[1]


@pytest.mark.parametrize("in_files", [True, False])
def test_coordinators_find_the_same_in_a_compacted_log(tmp_path: Path, in_files: bool) -> None:
    settings: dict[str, Any] = {"data_dir": tmp_path / "data" if in_files else None}
    with Cluster(nodes=1, transaction_state_log_min_isr=1, **settings) as cluster:
        cluster.create_topic("orders", partitions=4)
        consumers = [
            Consumer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "group.id": f"group-{number}",
                    "enable.auto.commit": False,
                }
            )
            for number in range(3)
        ]
        for number in range(20):
            for consumer in consumers[:2]:
                offsets = [TopicPartition("orders", number % 4, number)]
                consumer.commit(offsets=offsets, asynchronous=False)
        for number in range(9):
            _produce(cluster, number, commits=number % 4 != 3, consumer=consumers[number % 3])
        consumers[2].close()
        members = [_member(cluster, protocol) for protocol in ("classic", "consumer")]
        until(lambda: all(_is_complete(each) for each in cluster.transactions().values()))
        before = _state(cluster)
        assert len(before[0]) == 5
        assert len(before[1]) == 3
        records = {topic: len(cluster.records(topic)) for topic in OWN_TOPICS}
        for topic in OWN_TOPICS:
            cluster.compact(topic)
            assert len(cluster.records(topic)) < records[topic] / 2
        assert _state(cluster) == before
        cluster.kill(0)
        cluster.restart(0)
        until(lambda: len(cluster.groups()) == 5 and len(cluster.transactions()) == 3)
        assert _state(cluster) == before
        # They can go on.
        _produce(cluster, 1, commits=True, consumer=consumers[1])
        cluster.compact("__consumer_offsets")
        for consumer in [*consumers[:2], *members]:
            consumer.close()
