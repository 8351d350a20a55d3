"""How far clients may have a cluster grow: a partition costs some three kilobytes on each node that has it, whatever is in it.

What else they store - records, groups, offsets, settings - takes up memory in proportion to the
bytes that they send.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

#: Kafka's limit on one CreateTopics request (`MAX_PARTITIONS_PER_BATCH`).
MAX_PARTITIONS_PER_REQUEST = 10_000
#: Of a cluster, whose partitions are 60 MB on each node then. Kafka has no such limit; code and
#: commands are not held to it.
MAX_PARTITIONS = 20_000
#: Topics that one Metadata request has made; for the others it comes again, as it does for these.
MAX_TOPICS_PER_METADATA = 1_000

TOO_MANY_PER_REQUEST = "Excessively large number of partitions per request."
TOO_MANY = f"The cluster would have more than {MAX_PARTITIONS} partitions."


def room(node: Node) -> int:
    """How many more partitions clients may have made."""
    return MAX_PARTITIONS - sum(len(topic.partitions) for topic in node.topics.values())


def asked_for(node: Node, topic: Any) -> int:
    """How many partitions an element of a CreateTopics request asks for."""
    if topic.assignments:
        return len(topic.assignments)
    return (
        node.settings.num_partitions
        if topic.num_partitions == -1
        else max(int(topic.num_partitions), 0)
    )


def is_excessive(node: Node, topics: Iterable[Any]) -> bool:
    """True for a CreateTopics request of more partitions than one may have."""
    return sum(asked_for(node, each) for each in topics) > MAX_PARTITIONS_PER_REQUEST
