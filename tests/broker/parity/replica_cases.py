"""Replicas, and the lack of them."""

from __future__ import annotations

from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case, case_that_stops_nodes
from tests.broker.parity.scene import Scene


@case
def min_insync_replicas_above_the_replicas(scene: Scene) -> Any:
    topic = scene.topic(configs={"min.insync.replicas": "2"})
    client = scene.leader(topic)
    return {acks: scene.produce(client, topic, batch(b"1"), acks=acks) for acks in (1, -1)}


def _await_in_sync(scene: Scene, topic: str, count: int) -> None:
    def settled() -> bool:
        answer = scene.metadata(9, [{"name": topic}])
        return len(answer.topics[0].partitions[0].isr_nodes) == count

    scene.until(settled)


@case_that_stops_nodes
def not_enough_replicas(scene: Scene) -> Any:
    topic = scene.topic(nodes=[[0, 1, 2]], configs={"min.insync.replicas": "3"})
    client = scene.leader(topic)
    seen = {"three in sync": scene.produce(client, topic, batch(b"1"))}
    scene.cluster.stop(2)
    try:
        _await_in_sync(scene, topic, 2)
        seen["two in sync"] = {
            acks: scene.timed(5_000, scene.produce, client, topic, batch(b"2"), acks=acks)
            for acks in (-1, 1)
        }
        seen["what acks 1 left is not to be read"] = scene.fetch(client, topic)
        seen["the topic"] = scene.metadata(9, [{"name": topic}]).topics
    finally:
        scene.cluster.restart(2)
    _await_in_sync(scene, topic, 3)
    seen["three again"] = scene.produce(client, topic, batch(b"3"))
    return seen | {"fetched": scene.fetch(client, topic)}


@case_that_stops_nodes
def leader_that_stops_hands_over(scene: Scene) -> Any:
    name = scene.topic(nodes=[[1, 2, 0]])
    first = scene.await_leader(name)
    seen = {"before": scene.produce(scene.connect(first), name, batch(b"1"))}
    scene.cluster.stop(1)
    try:
        second = scene.until(lambda: (found := scene.await_leader(name)) != first and found)
        client = scene.connect(second)
        seen["after"] = scene.produce(client, name, batch(b"2"))
        seen["fetched"] = scene.fetch(client, name)
        seen["fetched as of the old epoch"] = scene.fetch(client, name, leader_epoch=0)
        epoch = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        asked = client.call(
            "OffsetForLeaderEpoch",
            4,
            replica_id=-1,
            topics=[{"topic": name, "partitions": [epoch]}],
        )
        seen["end of the old epoch"] = asked.topics
    finally:
        scene.cluster.restart(1)
    return seen
