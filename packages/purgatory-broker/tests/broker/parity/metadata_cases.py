"""Metadata and DescribeCluster."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.case_harness import CaseHarness

#: Names that no topic may have.
ODD_NAMES = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "slash": "a/b",
    "blank": "a b",
    "colon": "a:b",
    "umlaut": "ä",
    "too long": "a" * 250,
}


@case
def metadata_at_each_version(harness: CaseHarness) -> Any:
    topic = harness.topic(partitions=2, replicas=3)
    return {version: harness.metadata(version, [{"name": topic}]) for version in range(14)}


@case
def metadata_of_all_topics_or_of_none(harness: CaseHarness) -> Any:
    topic = harness.topic()

    def has(version: int, topics: list[dict[str, Any]] | None) -> bool:
        return topic in {each.name for each in harness.metadata(version, topics).topics}

    return {
        "version 0, empty": has(0, []),
        "version 1, empty": has(1, []),
        "version 1, null": has(1, None),
        "version 12, null": has(12, None),
    }


@case
def metadata_of_an_unknown_topic(harness: CaseHarness) -> Any:
    return {
        version: harness.metadata(version, [{"name": harness.name("none")}]).topics
        for version in (4, 9, 12)
    }


@case
def metadata_of_invalid_names(harness: CaseHarness) -> Any:
    return {
        name: [
            named(harness.metadata(9, [{"name": odd}], create=create).topics[0], name)
            for create in (False, True)
        ]
        for name, odd in ODD_NAMES.items()
    }


def named(answer: Any, name: str) -> Any:
    """Return a response with another topic name, which can be normalised."""
    answer.name = name
    return answer


@case
def metadata_creates_a_topic(harness: CaseHarness) -> Any:
    topic = harness.name("made")
    harness.delete_later(topic)
    first = harness.metadata(9, [{"name": topic}], create=True).topics
    harness.await_leader(topic)
    return {"first": first, "then": harness.metadata(9, [{"name": topic}], create=True).topics}


@case
def metadata_of_version_3_creates_a_topic(harness: CaseHarness) -> Any:
    topic = harness.name("made")
    harness.delete_later(topic)
    first = harness.metadata(3, [{"name": topic}]).topics
    harness.await_leader(topic)
    return {"first": first, "then": harness.metadata(3, [{"name": topic}]).topics}


@case
def metadata_by_topic_id(harness: CaseHarness) -> Any:
    topic = harness.topic()
    known, unknown = (
        {"topic_id": harness.topic_id(topic), "name": None},
        {"topic_id": uuid.UUID(int=5), "name": None},
    )
    return {
        version: [harness.metadata(version, [each]).topics for each in (known, unknown)]
        for version in (12, 13)
    }


@case
def metadata_by_topic_id_in_versions_without(harness: CaseHarness) -> Any:
    topic = harness.topic()
    by_id = {"topic_id": harness.topic_id(topic), "name": topic}
    return {
        version: {
            "an id": harness.metadata(version, [by_id]).topics,
            "no name": [
                named(each, "none") for each in harness.metadata(version, [{"name": None}]).topics
            ],
            "one of two": harness.metadata(version, [{"name": topic}, by_id]).topics,
        }
        for version in (10, 11)
    }


@case
def metadata_names_the_same_topic_twice(harness: CaseHarness) -> Any:
    topic = harness.topic()
    answer = harness.metadata(9, [{"name": topic}, {"name": topic}, {"name": harness.name("none")}])
    return sorted(answer.topics, key=lambda each: each.name)


@case
def metadata_of_a_deleted_topic(harness: CaseHarness) -> Any:
    topic = harness.topic()
    topic_id = harness.topic_id(topic)
    harness.node_0.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    harness.until(lambda: harness.metadata(12, [{"name": topic}]).topics[0].error_code != 0)
    return [
        harness.metadata(12, [wanted]).topics
        for wanted in ({"name": topic}, {"topic_id": topic_id, "name": None})
    ]


@case
def describe_cluster(harness: CaseHarness) -> Any:
    return {
        "brokers": harness.node_0.call(
            "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=1
        ),
        "version 0": harness.node_0.call(
            "DescribeCluster", 0, include_cluster_authorized_operations=False
        ),
        "controllers are not asked for here": harness.node_0.call(
            "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=2
        ).error_code,
    }
