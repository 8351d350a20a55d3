"""The topics that a group coordinator knows."""

from __future__ import annotations

from uuid import NAMESPACE_DNS, UUID, uuid5

from purgatory_broker.metadata.topics import Partition, Topic


class HarnessTopics:
    """The topics of the cluster, as the coordinator's node knows them."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}

    def create(self, name: str, partitions: int) -> Topic:
        """Create a topic, or give it more partitions."""
        if name not in self.topics:
            self.topics[name] = Topic(name, uuid5(NAMESPACE_DNS, name))
        topic = self.topics[name]
        for index in range(len(topic.partitions), partitions):
            topic.partitions.append(Partition(name, index, [1], [1], 1))
        return topic

    def topic_name(self, topic_id: UUID | None) -> str | None:
        """Return a topic's name; None if it does not exist."""
        for topic in self.topics.values():
            if topic.topic_id == topic_id:
                return topic.name
        return None
