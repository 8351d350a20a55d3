"""Fetch."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.scene import Scene, fetch_fields

#: So long that what wakes a fetch up comes before it ends.
_LONG_MS = 10_000


@case
def fetch_at_each_version(scene: Scene) -> Any:
    topic, client = scene.filled(2)
    topic_id = scene.topic_id(topic)
    return {
        version: client.call(
            "Fetch", version, **fetch_fields(topic, 1, topic_id=topic_id if version >= 13 else None)
        )
        for version in range(4, 18)
    }


@case
def fetch_from_the_middle_of_a_batch(scene: Scene) -> Any:
    topic = scene.topic()
    client = scene.leader(topic)
    scene.produce(client, topic, batch(b"1", b"2", b"3"))
    scene.produce(client, topic, batch(b"4"))
    return [scene.fetch(client, topic, offsets=offset) for offset in (1, 2, 3)]


@case
def fetch_out_of_range(scene: Scene) -> Any:
    topic, client = scene.filled()
    wanted = {"beyond the end": 4, "far beyond": 1 << 40, "negative": -1, "very negative": -100}
    seen = {
        name: scene.timed(
            _LONG_MS, scene.fetch, client, topic, offsets=offset, max_wait_ms=_LONG_MS
        )
        for name, offset in wanted.items()
    }
    partition = {"partition_index": 0, "offset": 2}
    client.call(
        "DeleteRecords", 2, topics=[{"name": topic, "partitions": [partition]}], timeout_ms=5_000
    )
    return seen | {
        "before the start": scene.fetch(client, topic, offsets=1),
        "from the start": scene.fetch(client, topic, offsets=2),
    }


@case
def fetch_unknown_topics(scene: Scene) -> Any:
    topic, client = scene.filled()
    wait: dict[str, Any] = {"max_wait_ms": _LONG_MS}
    return {
        "topic": scene.timed(_LONG_MS, scene.fetch, client, scene.name("none"), **wait),
        "partition": scene.timed(
            _LONG_MS,
            lambda: client.call("Fetch", 12, **fetch_fields(topic, {7: 0}, **wait)).responses,
        ),
        "negative partition": client.call(
            "Fetch", 12, **fetch_fields(topic, {-1: 0}, **wait)
        ).responses,
        "empty name": client.call("Fetch", 12, **fetch_fields("", **wait)).responses,
    }


@case
def fetch_by_topic_id(scene: Scene) -> Any:
    topic, client = scene.filled(1)
    ids = {"known": scene.topic_id(topic), "unknown": uuid.UUID(int=5), "zero": uuid.UUID(int=0)}
    return {
        name: scene.timed(
            _LONG_MS,
            client.call,
            "Fetch",
            13,
            **fetch_fields(topic, topic_id=topic_id, max_wait_ms=_LONG_MS),
        )
        for name, topic_id in ids.items()
    }


@case
def fetch_with_leader_epochs(scene: Scene) -> Any:
    topic, client = scene.filled(1)
    wait: dict[str, Any] = {"max_wait_ms": _LONG_MS}
    return {
        epoch: scene.timed(_LONG_MS, scene.fetch, client, topic, leader_epoch=epoch, **wait)
        for epoch in (-1, 0, 1, -2)
    }


@case
def fetch_with_last_fetched_epochs(scene: Scene) -> Any:
    topic, client = scene.filled(2)
    return {epoch: scene.fetch(client, topic, offsets=1, last_epoch=epoch) for epoch in (-1, 0, 1)}


@case
def fetch_from_a_node_that_does_not_lead(scene: Scene) -> Any:
    topic, _ = scene.filled(1)
    copied, leader = scene.filled(1, what="copied", replicas=3)
    other = scene.other(copied)
    scene.until(
        lambda: (
            scene.fetch(other, copied).high_watermark == 1 or scene.fetch(leader, copied) is None
        )
    )
    return {
        "no replica": scene.fetch(scene.other(topic), topic),
        "follower": scene.fetch(other, copied),
        "follower, version 10": scene.fetch(other, copied, version=10),
        "follower, as of the epoch": scene.fetch(other, copied, leader_epoch=0),
        "no replica, version 16": scene.other(topic)
        .call("Fetch", 16, **fetch_fields(topic, topic_id=scene.topic_id(topic)))
        .responses[0]
        .partitions,
    }


@case
def fetch_with_a_small_max_bytes_gives_one_batch(scene: Scene) -> Any:
    """What comes after the first batch Kafka cuts where the limit is, and clients skip it.

    Only whole batches are compared.
    """
    topic, client = scene.filled()
    size = len(batch(b"value 0"))
    limits = {
        "zero": 0,
        "one": 1,
        "a batch": size,
        "a batch and a half": size * 3 // 2,
        "two": 2 * size,
    }
    return {
        name: len(scene.fetch(client, topic, max_bytes=limit).records) // size
        for name, limit in limits.items()
    }


@case
def fetch_with_a_small_partition_max_bytes_gives_one_batch(scene: Scene) -> Any:
    """As for the whole request."""
    topic, client = scene.filled()
    size = len(batch(b"value 0"))
    limits = {
        "zero": 0,
        "one": 1,
        "a batch": size,
        "two": 2 * size,
        "two and a half": size * 5 // 2,
    }
    return {
        name: len(scene.fetch(client, topic, partition_max_bytes=limit).records) // size
        for name, limit in limits.items()
    }


@case
def fetch_from_several_partitions_with_a_small_max_bytes(scene: Scene) -> Any:
    topic = scene.topic(nodes=[[0], [0], [0]])
    client = scene.leader(topic)
    scene.produce(client, topic, *[batch(b"value %d" % number) for number in range(3)])
    size = len(batch(b"value 0"))
    seen = {}
    for name, limit in {"one byte": 1, "a batch": size, "two": 2 * size, "all": 3 * size}.items():
        partitions = (
            client.call("Fetch", 12, **fetch_fields(topic, {0: 0, 1: 0, 2: 0}, max_bytes=limit))
            .responses[0]
            .partitions
        )
        seen[name] = [
            [each.partition_index, len(each.records or b"") // size] for each in partitions
        ]
    return seen


@case
def fetch_nothing(scene: Scene) -> Any:
    topic, client = scene.filled()
    return scene.timed(
        _LONG_MS, client.call, "Fetch", 12, **fetch_fields(topic, {}, max_wait_ms=_LONG_MS)
    )


@case
def fetch_the_same_partition_twice(scene: Scene) -> Any:
    topic, client = scene.filled()
    fields = fetch_fields(topic, 0, partition_max_bytes=1)
    fields["topics"].append(fetch_fields(topic, 1, partition_max_bytes=1)["topics"][0])
    return client.call("Fetch", 12, **fields).responses


@case
def fetch_committed_only(scene: Scene) -> Any:
    topic, client = scene.filled(1)
    return {level: scene.fetch(client, topic, isolation_level=level) for level in (0, 1)}


@case
def fetch_sees_only_what_is_replicated(scene: Scene) -> Any:
    topic, client = scene.filled(1, replicas=3)
    return scene.fetch(client, topic)
