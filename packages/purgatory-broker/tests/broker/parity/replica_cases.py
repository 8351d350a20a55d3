"""In-sync replicas, and stopped nodes."""

from __future__ import annotations

from typing import Any

from kafka.errors import NotEnoughReplicasError

from tests.broker.parity.batches import batch, changed
from tests.broker.parity.case import case, case_that_stops_nodes
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.raw import RawClient


@case
def min_insync_replicas_above_the_replicas(harness: CaseHarness) -> Any:
    topic = harness.topic(configs={"min.insync.replicas": "2"})
    client = harness.leader(topic)
    return {acks: harness.produce(client, topic, batch(b"1"), acks=acks) for acks in (1, -1)}


def _await_in_sync(harness: CaseHarness, topic: str, count: int) -> None:
    def settled() -> bool:
        answer = harness.metadata(9, [{"name": topic}])
        return len(answer.topics[0].partitions[0].isr_nodes) == count

    harness.until(settled)


def _await_enough(harness: CaseHarness, client: RawClient, topic: str, *, enough: bool) -> None:
    """Wait until the leader itself takes its in-sync replicas for enough, or not.

    Kafka's nodes answer Metadata with a change before the leader's partition works by it. Whether
    there are enough is checked before the checksum, so a corrupt batch tells and appends nothing.
    """
    corrupt = changed(batch(b"probe"), crc=1)

    def settled() -> bool:
        answer = harness.produce(client, topic, corrupt)
        return (answer.error_code != NotEnoughReplicasError.errno) == enough

    harness.until(settled)


@case_that_stops_nodes
def not_enough_replicas(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0, 1, 2]], configs={"min.insync.replicas": "3"})
    client = harness.leader(topic)
    seen = {"three in sync": harness.produce(client, topic, batch(b"1"))}
    harness.cluster.stop(2)
    try:
        _await_enough(harness, client, topic, enough=False)
        _await_in_sync(harness, topic, 2)
        seen["two in sync"] = {
            acks: harness.timed(5_000, harness.produce, client, topic, batch(b"2"), acks=acks)
            for acks in (-1, 1)
        }
        seen["what acks 1 left is not to be read"] = harness.fetch(client, topic)
        seen["the topic"] = harness.metadata(9, [{"name": topic}]).topics
    finally:
        harness.cluster.restart(2)
    _await_enough(harness, client, topic, enough=True)
    seen["three again"] = harness.produce(client, topic, batch(b"3"))
    return seen | {"fetched": harness.fetch(client, topic)}


@case_that_stops_nodes
def stopping_leader_hands_over(harness: CaseHarness) -> Any:
    name = harness.topic(nodes=[[1, 2, 0]])
    first = harness.await_leader(name)
    seen = {"before": harness.produce(harness.connect(first), name, batch(b"1"))}
    harness.cluster.stop(1)
    try:
        second = harness.until(lambda: (found := harness.await_leader(name)) != first and found)
        client = harness.connect(second)
        seen["after"] = harness.produce(client, name, batch(b"2"))
        seen["fetched"] = harness.fetch(client, name)
        seen["fetched as of the old epoch"] = harness.fetch(client, name, leader_epoch=0)
        epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        response = client.call(
            "OffsetForLeaderEpoch",
            4,
            replica_id=-1,
            topics=[{"topic": name, "partitions": [epoch]}],
        )
        seen["end of the old epoch"] = response.topics
    finally:
        harness.cluster.restart(1)
    return seen
