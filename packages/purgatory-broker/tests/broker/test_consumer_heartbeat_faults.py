"""A heartbeat whose answer is lost is repeated, and its member keeps its partitions (KIP-848)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer

from purgatory_broker import Cluster

_LIMIT = 30.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=1, group_consumer_heartbeat_interval_ms=50) as running:
        running.create_topic("t", partitions=4)
        yield running


def consumer(cluster: Cluster) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
            "reconnect.backoff.ms": 1,
            "log_level": 0,
        }
    )
    made.subscribe(["t"])
    return made


def poll_until(counts: dict[Consumer, int]) -> None:
    end = time.monotonic() + _LIMIT
    while any(len(each.assignment()) != count for each, count in counts.items()):
        assert time.monotonic() < end, [each.assignment() for each in counts]
        for each in counts:
            each.poll(0.01)


def test_answer_to_a_join_is_lost(cluster: Cluster) -> None:
    fault = cluster.inject_response_fault("ConsumerGroupHeartbeat", "disconnect")
    first = consumer(cluster)
    poll_until({first: 4})
    assert len(cluster.groups()["g"].members) == 1
    cluster.wait_for(fault=(fault, 1), timeout=_LIMIT)
    first.close()


def test_answers_are_lost_in_a_reconciliation(cluster: Cluster) -> None:
    first, second = consumer(cluster), consumer(cluster)
    poll_until({first: 2, second: 2})
    third = consumer(cluster)
    fault = cluster.inject_response_fault("ConsumerGroupHeartbeat", "disconnect", times=3)
    end = time.monotonic() + _LIMIT
    while True:
        assert time.monotonic() < end
        sizes = []
        for each in (first, second, third):
            each.poll(0.01)
            sizes.append(len(each.assignment()))
        if sorted(sizes) == [1, 1, 2]:
            break
    cluster.wait_for(fault=(fault, 3), timeout=_LIMIT)
    owned = [part.partition for each in (first, second, third) for part in each.assignment()]
    assert sorted(owned) == [0, 1, 2, 3]
    for each in (first, second, third):
        each.close()


def test_group_goes_on_with_another_coordinator() -> None:
    with Cluster(nodes=3, group_consumer_heartbeat_interval_ms=50) as cluster:
        cluster.create_topic("t", partitions=4)
        first, second = consumer(cluster), consumer(cluster)
        poll_until({first: 2, second: 2})
        before = cluster.groups()["g"]
        third = consumer(cluster)
        third.poll(0.01)
        cluster.kill(before.coordinator)
        end = time.monotonic() + _LIMIT
        while True:
            assert time.monotonic() < end, cluster.groups()
            sizes = []
            for each in (first, second, third):
                each.poll(0.01)
                sizes.append(len(each.assignment()))
            if sorted(sizes) == [1, 1, 2] and "g" in cluster.groups():
                break
        after = cluster.groups()["g"]
        assert after.coordinator != before.coordinator
        assert {member.member_id for member in before.members} < {
            member.member_id for member in after.members
        }
        for each in (first, second, third):
            each.close()
