"""What a cluster knows of its topics: partitions, replicas, leaders and configurations."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from typing import Any, NamedTuple

NO_LEADER = -1
OFFSETS_TOPIC = "__consumer_offsets"
#: Topics of the broker's own, which clients may read but not write, make or delete.
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, "__transaction_state"})
MAX_NAME_LENGTH = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class TopicPartition(NamedTuple):
    """A partition of a topic.

    What requests wait for, and so the watch key of produce, fetch and delete-records requests.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class Partition:
    """A partition as the controller knows it."""

    topic: str
    index: int
    replicas: list[int]
    isr: list[int]
    leader: int
    leader_epoch: int = 0
    #: Grows with every change of what is above.
    partition_epoch: int = 0

    @property
    def key(self) -> TopicPartition:
        """Its topic and index."""
        return TopicPartition(self.topic, self.index)


@dataclass(slots=True)
class Topic:
    """A topic: its partitions, and the settings it was given."""

    name: str
    topic_id: uuid.UUID
    partitions: list[Partition] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def is_internal(self) -> bool:
        """True for the broker's own."""
        return self.name in INTERNAL_TOPICS


def name_fault(name: str | None) -> str | None:
    """What is wrong with a topic's name, in Kafka's words; None if nothing is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return "'.' or '..' is not allowed"
    if len(name) > MAX_NAME_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    if not _NAME.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def as_json(topic: Topic) -> dict[str, Any]:
    """A topic as it is kept on disk."""
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "configs": topic.configs,
        "partitions": [
            {
                "replicas": each.replicas,
                "isr": each.isr,
                "leader": each.leader,
                "leader_epoch": each.leader_epoch,
                "partition_epoch": each.partition_epoch,
            }
            for each in topic.partitions
        ],
    }


def from_json(data: dict[str, Any]) -> Topic:
    """A topic from what is kept on disk."""
    partitions = [
        Partition(data["name"], index, **each) for index, each in enumerate(data["partitions"])
    ]
    return Topic(data["name"], uuid.UUID(data["topic_id"]), partitions, data["configs"])


def default_assignment(
    nodes: list[int], partitions: int, factor: int, first: int
) -> list[list[int]]:
    """The replicas of new partitions.

    Leaders in turn, each partition's followers on the nodes after it.
    """
    count = len(nodes)
    return [
        [nodes[(first + index + step) % count] for step in range(factor)]
        for index in range(partitions)
    ]
