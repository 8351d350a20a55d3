"""Metadata, and the cluster."""

from __future__ import annotations

import uuid
from typing import Any

from tests.broker.parity.case import case
from tests.broker.parity.scene import Scene

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
def metadata_at_each_version(scene: Scene) -> Any:
    topic = scene.topic(partitions=2, replicas=3)
    return {version: scene.metadata(version, [{"name": topic}]) for version in range(14)}


@case
def metadata_of_all_topics_or_of_none(scene: Scene) -> Any:
    topic = scene.topic()

    def has(version: int, topics: list[dict[str, Any]] | None) -> bool:
        return topic in {each.name for each in scene.metadata(version, topics).topics}

    return {
        "version 0, empty": has(0, []),
        "version 1, empty": has(1, []),
        "version 1, null": has(1, None),
        "version 12, null": has(12, None),
    }


@case
def metadata_of_an_unknown_topic(scene: Scene) -> Any:
    return {
        version: scene.metadata(version, [{"name": scene.name("none")}]).topics
        for version in (4, 9, 12)
    }


@case
def metadata_of_odd_names(scene: Scene) -> Any:
    return {
        name: [
            named(scene.metadata(9, [{"name": odd}], create=create).topics[0], name)
            for create in (False, True)
        ]
        for name, odd in ODD_NAMES.items()
    }


def named(answer: Any, name: str) -> Any:
    """The answer under another name, which can be read."""
    answer.name = name
    return answer


@case
def metadata_creates_a_topic(scene: Scene) -> Any:
    topic = scene.name("made")
    scene.forget_later(topic)
    first = scene.metadata(9, [{"name": topic}], create=True).topics
    scene.await_leader(topic)
    return {"first": first, "then": scene.metadata(9, [{"name": topic}], create=True).topics}


@case
def metadata_of_version_3_creates_a_topic(scene: Scene) -> Any:
    topic = scene.name("made")
    scene.forget_later(topic)
    first = scene.metadata(3, [{"name": topic}]).topics
    scene.await_leader(topic)
    return {"first": first, "then": scene.metadata(3, [{"name": topic}]).topics}


@case
def metadata_by_topic_id(scene: Scene) -> Any:
    topic = scene.topic()
    known, unknown = (
        {"topic_id": scene.topic_id(topic), "name": None},
        {"topic_id": uuid.UUID(int=5), "name": None},
    )
    return {
        version: [scene.metadata(version, [each]).topics for each in (known, unknown)]
        for version in (12, 13)
    }


@case
def metadata_names_the_same_topic_twice(scene: Scene) -> Any:
    topic = scene.topic()
    answer = scene.metadata(9, [{"name": topic}, {"name": topic}, {"name": scene.name("none")}])
    return sorted(answer.topics, key=lambda each: each.name)


@case
def metadata_of_a_deleted_topic(scene: Scene) -> Any:
    topic = scene.topic()
    topic_id = scene.topic_id(topic)
    scene.any.call("DeleteTopics", 5, topic_names=[topic], timeout_ms=5_000)
    scene.until(lambda: scene.metadata(12, [{"name": topic}]).topics[0].error_code != 0)
    return [
        scene.metadata(12, [wanted]).topics
        for wanted in ({"name": topic}, {"topic_id": topic_id, "name": None})
    ]


@case
def describe_cluster(scene: Scene) -> Any:
    return {
        "brokers": scene.any.call(
            "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=1
        ),
        "version 0": scene.any.call(
            "DescribeCluster", 0, include_cluster_authorized_operations=False
        ),
        "controllers are not asked for here": scene.any.call(
            "DescribeCluster", 1, include_cluster_authorized_operations=False, endpoint_type=2
        ).error_code,
    }
