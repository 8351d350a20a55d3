"""The topics that a group is subscribed to, as the coordinator's node knows them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Protocol
from uuid import UUID

from purgatory_broker.groups.modern.partitions import Assignment, TopicIdPartition
from purgatory_broker.metadata.topics import Topic


class TopicsMetadata(Protocol):
    """What the coordinator needs to know of topics."""

    @property
    def topics(self) -> Mapping[str, Topic]:
        """The topics by name."""

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Return the name of a topic; None if there is no such topic."""


def topic_partitions(metadata: TopicsMetadata, names: Iterable[str]) -> Assignment:
    """Return the partitions of those topics that exist."""
    topics = metadata.topics
    return frozenset(
        TopicIdPartition(topics[name].topic_id, partition)
        for name in names
        if name in topics
        for partition in range(len(topics[name].partitions))
    )


def metadata_hash(metadata: TopicsMetadata, names: Iterable[str]) -> int:
    """Return a number of 64 bits that changes with the topics; 0 if none of them exists.

    The function is not Kafka's, which compares the number only with its own: a group that changes
    between the two brokers gets another epoch once.
    """
    known = sorted(name for name in names if name in metadata.topics)
    if not known:
        return 0
    digest = hashlib.blake2b(digest_size=8)
    for name in known:
        topic = metadata.topics[name]
        digest.update(topic.topic_id.bytes)
        digest.update(f"{name} {len(topic.partitions)}\n".encode())
    return int.from_bytes(digest.digest(), "big", signed=True)
