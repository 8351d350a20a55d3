"""Partitions of topics by their ids, as the newer group protocols assign them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias
from uuid import UUID


class TopicIdPartition(NamedTuple):
    topic_id: UUID
    partition: int


Assignment: TypeAlias = frozenset[TopicIdPartition]

NO_PARTITIONS: Assignment = frozenset()


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[UUID, list[int]]:
    """Return the numbers of partitions by topic, both in order."""
    topics: dict[UUID, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        topics.setdefault(topic_id, []).append(partition)
    return topics


def of_topics(topics: Iterable[tuple[UUID | None, Iterable[int]]]) -> Assignment:
    """Return partitions that are given by topic; a topic without an id has none."""
    return frozenset(
        TopicIdPartition(topic_id, partition)
        for topic_id, partitions in topics
        if topic_id is not None
        for partition in partitions
    )
