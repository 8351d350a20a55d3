"""The committed offsets of groups, and those that wait for the end of a transaction."""

from __future__ import annotations

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

    A consumer that may not read an offset which changes soon waits until none is pending. A
    producer may commit an offset again: the earlier one counts if the later one is not written.
    """

    def __init__(self) -> None:
        #: The last offset that was written, if any, and those that are being written, in order.
        self._by_producer: dict[int, dict[OffsetKey, list[OffsetValue]]] = {}
        #: The producers of each group's keys.
        self._by_group: dict[str, dict[OffsetKey, set[int]]] = {}

    def put(self, producer_id: int, key: OffsetKey, value: OffsetValue) -> None:
        self._by_producer.setdefault(producer_id, {}).setdefault(key, []).append(value)
        self._by_group.setdefault(key.group_id, {}).setdefault(key, set()).add(producer_id)

    def note_written(self, producer_id: int, key: OffsetKey, value: OffsetValue) -> None:
        """Forget the offsets before one whose record was written."""
        values = self._by_producer.get(producer_id, {}).get(key, [])
        for index, each in enumerate(values):
            if each is value:
                del values[:index]
                return

    def take(self, producer_id: int) -> dict[OffsetKey, OffsetValue]:
        """Remove and return the offsets of a producer's transaction, which has ended."""
        offsets = self._by_producer.pop(producer_id, {})
        for key in offsets:
            self._forget(producer_id, key)
        return {key: values[-1] for key, values in offsets.items()}

    def discard(self, producer_id: int, key: OffsetKey, value: OffsetValue) -> None:
        """Remove an offset whose record was not written."""
        values = self._by_producer.get(producer_id, {}).get(key, [])
        values[:] = [each for each in values if each is not value]
        if not values:
            self._remove(producer_id, key)

    def remove(self, key: OffsetKey) -> None:
        for producer_id in list(self._by_group.get(key.group_id, {}).get(key, ())):
            self._remove(producer_id, key)

    def _remove(self, producer_id: int, key: OffsetKey) -> None:
        offsets = self._by_producer.get(producer_id, {})
        if offsets.pop(key, None) is None:
            return
        if not offsets:
            del self._by_producer[producer_id]
        self._forget(producer_id, key)

    def _forget(self, producer_id: int, key: OffsetKey) -> None:
        keys = self._by_group[key.group_id]
        keys[key].discard(producer_id)
        if not keys[key]:
            del keys[key]
        if not keys:
            del self._by_group[key.group_id]

    def __contains__(self, key: OffsetKey) -> bool:
        return key in self._by_group.get(key.group_id, {})

    def has_group(self, group_id: str) -> bool:
        return group_id in self._by_group

    def keys_of_group(self, group_id: str) -> list[OffsetKey]:
        return list(self._by_group.get(group_id, {}))

    def keys_of_topic(self, topic: str) -> list[OffsetKey]:
        return [key for keys in self._by_group.values() for key in keys if key.topic == topic]
