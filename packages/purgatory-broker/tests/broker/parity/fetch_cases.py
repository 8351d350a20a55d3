"""Fetch."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness, fetch_fields

#: Longer than it takes until the event that completes the fetch.
_LONG_MS = 10_000


@case
def fetch_at_each_version(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(2)
    topic_id = harness.topic_id(topic)
    return {
        version: client.call(
            "Fetch", version, **fetch_fields(topic, 1, topic_id=topic_id if version >= 13 else None)
        )
        for version in range(4, 18)
    }


@case
def fetch_from_the_middle_of_a_batch(harness: CaseHarness) -> Any:
    topic = harness.topic()
    client = harness.leader(topic)
    harness.produce(client, topic, batch(b"1", b"2", b"3"))
    harness.produce(client, topic, batch(b"4"))
    return [harness.fetch(client, topic, offsets=offset) for offset in (1, 2, 3)]


@case
def fetch_out_of_range(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    wanted = {"beyond the end": 4, "far beyond": 1 << 40, "negative": -1, "very negative": -100}
    seen = {
        name: harness.timed(
            _LONG_MS, harness.fetch, client, topic, offsets=offset, max_wait_ms=_LONG_MS
        )
        for name, offset in wanted.items()
    }
    partition = {"partition_index": 0, "offset": 2}
    client.call(
        "DeleteRecords", 2, topics=[{"name": topic, "partitions": [partition]}], timeout_ms=5_000
    )
    return seen | {
        "before the start": harness.fetch(client, topic, offsets=1),
        "from the start": harness.fetch(client, topic, offsets=2),
    }


@case
def fetch_unknown_topics(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    wait: dict[str, Any] = {"max_wait_ms": _LONG_MS}
    return {
        "topic": harness.timed(_LONG_MS, harness.fetch, client, harness.name("none"), **wait),
        "partition": harness.timed(
            _LONG_MS,
            lambda: client.call("Fetch", 12, **fetch_fields(topic, {7: 0}, **wait)).responses,
        ),
        "negative partition": client.call(
            "Fetch", 12, **fetch_fields(topic, {-1: 0}, **wait)
        ).responses,
        "empty name": client.call("Fetch", 12, **fetch_fields("", **wait)).responses,
    }


@case
def fetch_by_topic_id(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    ids = {"known": harness.topic_id(topic), "unknown": uuid.UUID(int=5), "zero": uuid.UUID(int=0)}
    return {
        name: harness.timed(
            _LONG_MS,
            client.call,
            "Fetch",
            13,
            **fetch_fields(topic, topic_id=topic_id, max_wait_ms=_LONG_MS),
        )
        for name, topic_id in ids.items()
    }


@case
def fetch_with_leader_epochs(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    wait: dict[str, Any] = {"max_wait_ms": _LONG_MS}
    return {
        epoch: harness.timed(_LONG_MS, harness.fetch, client, topic, leader_epoch=epoch, **wait)
        for epoch in (-1, 0, 1, -2)
    }


@case
def fetch_with_last_fetched_epochs(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(2)
    return {
        epoch: harness.fetch(client, topic, offsets=1, last_epoch=epoch) for epoch in (-1, 0, 1)
    }


@case
def fetch_from_a_follower(harness: CaseHarness) -> Any:
    topic, _ = harness.topic_with_records(1)
    copied, leader = harness.topic_with_records(1, what="copied", replicas=3)
    other = harness.non_leader(copied)
    harness.until(
        lambda: (
            harness.fetch(other, copied).high_watermark == 1
            or harness.fetch(leader, copied) is None
        )
    )
    return {
        "no replica": harness.fetch(harness.non_leader(topic), topic),
        "follower": harness.fetch(other, copied),
        "follower, version 10": harness.fetch(other, copied, version=10),
        "follower, as of the epoch": harness.fetch(other, copied, leader_epoch=0),
        "no replica, version 16": harness.non_leader(topic)
        .call("Fetch", 16, **fetch_fields(topic, topic_id=harness.topic_id(topic)))
        .responses[0]
        .partitions,
    }


@case
def fetch_with_a_small_max_bytes_gives_one_batch(harness: CaseHarness) -> Any:
    """Count whole batches: Kafka truncates the last one at the limit, and clients skip it."""
    topic, client = harness.topic_with_records()
    size = len(batch(b"value 0"))
    limits = {
        "zero": 0,
        "one": 1,
        "a batch": size,
        "a batch and a half": size * 3 // 2,
        "two": 2 * size,
    }
    return {
        name: len(harness.fetch(client, topic, max_bytes=limit).records) // size
        for name, limit in limits.items()
    }


@case
def fetch_with_a_small_partition_max_bytes_gives_one_batch(harness: CaseHarness) -> Any:
    """Count whole batches, as for the limit of the whole request."""
    topic, client = harness.topic_with_records()
    size = len(batch(b"value 0"))
    limits = {
        "zero": 0,
        "one": 1,
        "a batch": size,
        "two": 2 * size,
        "two and a half": size * 5 // 2,
    }
    return {
        name: len(harness.fetch(client, topic, partition_max_bytes=limit).records) // size
        for name, limit in limits.items()
    }


@case
def fetch_from_several_partitions_with_a_small_max_bytes(harness: CaseHarness) -> Any:
    topic = harness.topic(nodes=[[0], [0], [0]])
    client = harness.leader(topic)
    harness.produce(client, topic, *[batch(b"value %d" % number) for number in range(3)])
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
def fetch_nothing(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    return harness.timed(
        _LONG_MS, client.call, "Fetch", 12, **fetch_fields(topic, {}, max_wait_ms=_LONG_MS)
    )


@case
def fetch_the_same_partition_twice(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records()
    fields = fetch_fields(topic, 0, partition_max_bytes=1)
    fields["topics"].append(fetch_fields(topic, 1, partition_max_bytes=1)["topics"][0])
    return client.call("Fetch", 12, **fields).responses


@case
def fetch_with_read_committed(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1)
    return {level: harness.fetch(client, topic, isolation_level=level) for level in (0, 1)}


@case
def fetch_reads_only_replicated_records(harness: CaseHarness) -> Any:
    topic, client = harness.topic_with_records(1, replicas=3)
    return harness.fetch(client, topic)
