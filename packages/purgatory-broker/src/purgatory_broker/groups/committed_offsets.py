"""The committed offsets of one shard."""

from __future__ import annotations

from purgatory_broker.groups.records import OffsetKey, OffsetValue


class CommittedOffsets:
    """The committed offsets of one shard whose records are replicated."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetValue]]] = {}

    def put(self, key: OffsetKey, value: OffsetValue) -> None:
        self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = value

    def get(self, group_id: str, topic: str, partition: int) -> OffsetValue | None:
        """Return a group's committed offset of a partition, or None if there is none."""
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def remove(self, key: OffsetKey) -> None:
        """Remove a committed offset; no-op if there is none."""
        topics = self._by_group.get(key.group_id, {})
        partitions = topics.get(key.topic, {})
        partitions.pop(key.partition, None)
        if not partitions:
            topics.pop(key.topic, None)
        if not topics:
            self._by_group.pop(key.group_id, None)

    def of_group(self, group_id: str) -> dict[str, dict[int, OffsetValue]]:
        """Return a group's committed offsets: topic -> partition -> offset."""
        return self._by_group.get(group_id, {})

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        return [
            OffsetKey(group_id, topic, partition)
            for topic, partitions in self.of_group(group_id).items()
            for partition in partitions
        ]

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        return [
            OffsetKey(group_id, topic, partition)
            for group_id, topics in self._by_group.items()
            for partition in topics.get(topic, {})
        ]
