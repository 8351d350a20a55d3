"""CreateTopics, CreatePartitions and DeleteTopics."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.batches import batch
from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness
from tests.broker.parity.metadata_cases import ODD_NAMES, named


def _create(
    harness: CaseHarness, *, version: int = 7, validate_only: bool = False, **topic: Any
) -> Any:
    wanted = {
        "name": harness.name(),
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    } | topic
    answer = harness.node_0.call(
        "CreateTopics", version, topics=[wanted], timeout_ms=10_000, validate_only=validate_only
    )
    created = answer.topics[0]
    if created.error_code == 0 and not validate_only:
        harness.delete_later(created.name)
    if created.configs is not None:
        # The number of settings may differ.
        created.configs = [
            each
            for each in created.configs
            if each.name in {"retention.ms", "max.message.bytes", "cleanup.policy"}
        ]
    return created


@case
def create_topic_at_each_version(harness: CaseHarness) -> Any:
    return {
        version: _create(
            harness, version=version, name=harness.name(f"v{version}"), num_partitions=2
        )
        for version in range(2, 8)
    }


@case
def create_topic_with_defaults(harness: CaseHarness) -> Any:
    return _create(harness, num_partitions=-1, replication_factor=-1)


@case
def create_topic_that_exists(harness: CaseHarness) -> Any:
    topic = harness.topic()
    return {
        "same": _create(harness, name=topic),
        "validated": _create(harness, name=topic, validate_only=True),
    }


@case
def create_topic_with_an_invalid_name(harness: CaseHarness) -> Any:
    return {
        name: named(_create(harness, name=odd, validate_only=True), name)
        for name, odd in ODD_NAMES.items()
    }


@case
def create_topic_whose_name_collides(harness: CaseHarness) -> Any:
    dotted = _create(harness, name=harness.name("a.b"))
    return {
        "dot": dotted,
        "underscore": named(_create(harness, name=harness.name("a.b").replace(".", "_")), "a_b"),
    }


@case
def create_topic_of_an_invalid_size(harness: CaseHarness) -> Any:
    sizes = {
        "no partitions": (0, 1),
        "minus 2 partitions": (-2, 1),
        "no replicas": (1, 0),
        "minus 2 replicas": (1, -2),
        "4 replicas": (1, 4),
    }
    return {
        name: _create(harness, num_partitions=size[0], replication_factor=size[1])
        for name, size in sizes.items()
    }


@case
def create_topic_validate_only(harness: CaseHarness) -> Any:
    topic = harness.name()
    answer = _create(harness, name=topic, validate_only=True)
    return {"answer": answer, "metadata": harness.metadata(9, [{"name": topic}]).topics}


@case
def create_topic_with_invalid_settings(harness: CaseHarness) -> Any:
    settings = {
        "unknown": ("no.such.setting", "1"),
        "no number": ("retention.ms", "soon"),
        "below the least": ("segment.bytes", "1"),
        "none of these": ("cleanup.policy", "burn"),
        "null": ("retention.ms", None),
        "empty name": ("", "1"),
        "good": ("retention.ms", "1000"),
        "good with blanks": ("retention.ms", " 2000 "),
        "min.insync.replicas of 0": ("min.insync.replicas", "0"),
        "max.message.bytes negative": ("max.message.bytes", "-1"),
        "timestamp type": ("message.timestamp.type", "NoTime"),
        "compression type": ("compression.type", "lz77"),
    }
    return {
        name: _create(
            harness,
            name=harness.name(f"t{number}"),
            validate_only=True,
            configs=[{"name": key, "value": value}],
        )
        for number, (name, (key, value)) in enumerate(settings.items())
    }


@case
def create_topic_with_an_assignment(harness: CaseHarness) -> Any:
    def assignment(*brokers: list[int], start: int = 0, **also: Any) -> Any:
        parts = [
            {"partition_index": start + number, "broker_ids": each}
            for number, each in enumerate(brokers)
        ]
        return {"num_partitions": -1, "replication_factor": -1, "assignments": parts} | also

    wanted = {
        "good": assignment([0, 1], [1, 2]),
        "one partition of two nodes": assignment([2, 0]),
        "unknown node": assignment([0, 9]),
        "the same node twice": assignment([0, 0]),
        "no nodes": assignment([]),
        "from 1 on": assignment([0], start=1),
        "different sizes": assignment([0], [1, 2]),
        "with a count": assignment([0], num_partitions=1),
        "with a replication factor": assignment([0], replication_factor=1),
    }
    return {
        name: _create(harness, name=harness.name(f"t{number}"), **each)
        for number, (name, each) in enumerate(wanted.items())
    }


@case
def create_the_same_topic_twice_in_one_request(harness: CaseHarness) -> Any:
    topic = {
        "name": harness.name(),
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    answer = harness.node_0.call(
        "CreateTopics", 5, topics=[topic, topic], timeout_ms=10_000, validate_only=True
    )
    return [{"name": each.name, "error_code": each.error_code} for each in answer.topics]


@case
def create_no_topics(harness: CaseHarness) -> Any:
    return harness.node_0.call("CreateTopics", 5, topics=[], timeout_ms=10_000, validate_only=False)


@case
def delete_topics_by_name(harness: CaseHarness) -> Any:
    topic = harness.topic()
    ask = {"topic_names": [topic, harness.name("none")], "timeout_ms": 5_000}
    return {
        "first": harness.node_0.call("DeleteTopics", 5, **ask),
        "version 1": harness.node_0.call("DeleteTopics", 1, **ask),
    }


@case
def delete_topics_by_id(harness: CaseHarness) -> Any:
    topic, other = harness.topic(), harness.topic("other")
    known = harness.topic_id(topic)
    wanted = {
        "unknown id": {"topic_id": uuid.UUID(int=5), "name": None},
        "known id": {"topic_id": known, "name": None},
        "known id again": {"topic_id": known, "name": None},
        "name": {"topic_id": uuid.UUID(int=0), "name": other},
        "neither": {"topic_id": uuid.UUID(int=0), "name": None},
    }
    return {
        name: harness.node_0.call("DeleteTopics", 6, topics=[each], timeout_ms=5_000).responses
        for name, each in wanted.items()
    }


@case
def delete_a_topic_by_name_and_id(harness: CaseHarness) -> Any:
    topic = harness.topic()
    both = {"topic_id": harness.topic_id(topic), "name": topic}
    return harness.node_0.call("DeleteTopics", 6, topics=[both], timeout_ms=5_000).responses


@case
def delete_and_recreate_a_topic(harness: CaseHarness) -> Any:
    topic = harness.topic()
    harness.produce(harness.leader(topic), topic, batch(b"old"))
    before = harness.topic_id(topic)
    harness.node_0.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    harness.until(lambda: harness.metadata(12, [{"name": topic}]).topics[0].error_code != 0)
    harness.topic()
    return {
        "another id": harness.topic_id(topic) != before,
        "fetched": harness.fetch(harness.leader(topic), topic),
    }


@case
def create_partitions(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2)

    def ask(
        count: int, *, name: str = topic, assignments: Any = None, validate_only: bool = False
    ) -> Any:
        wanted = {"name": name, "count": count, "assignments": assignments}
        return harness.node_0.call(
            "CreatePartitions", 3, topics=[wanted], timeout_ms=5_000, validate_only=validate_only
        ).results

    seen = {
        "fewer": ask(1),
        "as many": ask(2),
        "none": ask(0),
        "negative": ask(-1),
        "unknown topic": ask(3, name=harness.name("none")),
        "odd name": ask(3, name="a/b"),
        "only validated": ask(3, validate_only=True),
        "too few assignments": ask(4, assignments=[{"broker_ids": [0]}]),
        "too many assignments": ask(3, assignments=[{"broker_ids": [0]}, {"broker_ids": [1]}]),
        "unknown node": ask(3, assignments=[{"broker_ids": [9]}]),
        "another replication factor": ask(3, assignments=[{"broker_ids": [0, 1]}]),
        "more": ask(3),
        "more, assigned": ask(4, assignments=[{"broker_ids": [1]}]),
    }
    harness.await_leader(topic, 3)
    return seen | {"partitions": len(harness.metadata(9, [{"name": topic}]).topics[0].partitions)}


@case
def create_partitions_of_one_topic_twice(harness: CaseHarness) -> Any:
    topic = harness.topic()
    wanted = [{"name": topic, "count": count, "assignments": None} for count in (2, 3)]
    return harness.node_0.call(
        "CreatePartitions", 3, topics=wanted, timeout_ms=5_000, validate_only=True
    ).results
