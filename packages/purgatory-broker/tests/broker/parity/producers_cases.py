"""DescribeProducers."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness


def _describe(client: Any, topics: dict[str, list[int]]) -> Any:
    wanted = [{"name": name, "partition_indexes": each} for name, each in topics.items()]
    return client.call("DescribeProducers", 0, topics=wanted)


@case
def describe_producers(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2)
    client = harness.leader(topic)
    seen = {"none": _describe(client, {topic: [0]})}
    harness.produce(client, topic, batch(b"1", b"2", producer=(77, 3, 0)))
    seen["one"] = _describe(client, {topic: [0]})
    harness.produce(client, topic, batch(b"3", producer=(77, 3, 2)))
    seen["later"] = _describe(client, {topic: [0]})
    return seen | {
        "not the leader": _describe(harness.non_leader(topic), {topic: [0]}),
        "unknown topic": _describe(client, {harness.name("none"): [0]}),
        "invalid name": _describe(client, {"a b": [0]}),
        "unknown partition": _describe(client, {topic: [7, -1]}),
        "no partitions": _describe(client, {topic: []}),
        "no topics": _describe(client, {}),
    }


@case
def describe_producers_of_a_follower(harness: CaseHarness) -> Any:
    topic = harness.topic(replicas=3)
    harness.produce(harness.leader(topic), topic, batch(b"1", producer=(77, 3, 0)))
    return _describe(harness.non_leader(topic), {topic: [0]})
