"""The committed offsets of groups, and those that wait for the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterator

from purgatory_broker.groups.group_records import OffsetKey, OffsetValue


class CommittedOffsets:
    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetValue]]] = {}

    def put(self, key: OffsetKey, value: OffsetValue) -> None:
        self._by_group.setdefault(key.group_id, {}).setdefault(key.topic, {})[key.partition] = value

    def get(self, group_id: str, topic: str, partition: int) -> OffsetValue | None:
        return self._by_group.get(group_id, {}).get(topic, {}).get(partition)

    def remove(self, key: OffsetKey) -> None:
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


class PendingOffsets:
    """Offsets that producers have committed in transactions that have no marker yet.

    A consumer that may not read an offset which changes soon waits until none is pending.
    """

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, OffsetValue]] = {}

    def put(self, producer_id: int, key: OffsetKey, value: OffsetValue) -> None:
        self._by_producer.setdefault(producer_id, {})[key] = value

    def take(self, producer_id: int) -> dict[OffsetKey, OffsetValue]:
        """Remove and return the offsets of a producer's transaction, which has ended."""
        return self._by_producer.pop(producer_id, {})

    def discard(self, producer_id: int, key: OffsetKey, value: OffsetValue) -> None:
        """Remove an offset whose record was not written, unless another has replaced it."""
        offsets = self._by_producer.get(producer_id, {})
        if offsets.get(key) is value:
            del offsets[key]
        if not offsets:
            self._by_producer.pop(producer_id, None)

    def remove(self, key: OffsetKey) -> None:
        for producer_id, offsets in list(self._by_producer.items()):
            offsets.pop(key, None)
            if not offsets:
                del self._by_producer[producer_id]

    def __contains__(self, key: OffsetKey) -> bool:
        return any(key in offsets for offsets in self._by_producer.values())

    def _keys(self) -> Iterator[OffsetKey]:
        for offsets in self._by_producer.values():
            yield from offsets

    def has_group(self, group_id: str) -> bool:
        return any(key.group_id == group_id for key in self._keys())

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        return list(dict.fromkeys(key for key in self._keys() if key.group_id == group_id))

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        return list(dict.fromkeys(key for key in self._keys() if key.topic == topic))
