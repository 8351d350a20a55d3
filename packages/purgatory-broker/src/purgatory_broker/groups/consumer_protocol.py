"""The bytes of Kafka's consumer protocol: assignments and subscriptions."""

from __future__ import annotations

import struct


def assigned_partitions(assignment: bytes) -> dict[str, list[int]]:
    """Return an assignment's partitions by topic, which come first in every version."""
    if not assignment:
        return {}
    topics: dict[str, list[int]] = {}
    try:
        _version, count = struct.unpack_from(">hi", assignment)
        position = 6
        for _ in range(count):
            name, position = _topic_name(assignment, position)
            (partitions,) = struct.unpack_from(">i", assignment, position)
            numbers = struct.unpack_from(f">{partitions}i", assignment, position + 4)
            topics[name] = sorted(numbers)
            position += 4 + 4 * partitions
    except struct.error as error:
        raise ValueError(
            f"{len(assignment)} bytes are not a consumer's assignment: {error}"
        ) from error
    return topics


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return a subscription's topics, which come first in every version of its schema."""
    try:
        _version, count = struct.unpack_from(">hi", metadata)
        position = 6
        topics = []
        for _ in range(count):
            name, position = _topic_name(metadata, position)
            topics.append(name)
    except struct.error as error:
        raise ValueError(
            f"{len(metadata)} bytes are not a consumer's subscription: {error}"
        ) from error
    return frozenset(topics)


def _topic_name(raw: bytes, position: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", raw, position)
    end = position + 2 + length
    if length < 0 or end > len(raw):
        raise ValueError(f"no name of a topic has {length} bytes at {position} of {len(raw)}")
    return raw[position + 2 : end].decode(), end
