"""The assignment of a consumer."""

from __future__ import annotations

import struct


def assigned_partitions(assignment: bytes) -> dict[str, list[int]]:
    """Return the partitions that an assignment has, by topic.

    Every version of Kafka's ConsumerProtocolAssignment schema begins with a version and the list of
    topics with their partitions; the fields after the list are not read.
    """
    if not assignment:
        return {}
    topics: dict[str, list[int]] = {}
    try:
        _version, count = struct.unpack_from(">hi", assignment)
        position = 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", assignment, position)
            if length < 0:
                raise ValueError(f"the name of a topic has {length} bytes")
            name, position = position + 2, position + 2 + length
            (partitions,) = struct.unpack_from(">i", assignment, position)
            numbers = struct.unpack_from(f">{partitions}i", assignment, position + 4)
            topics[assignment[name:position].decode()] = sorted(numbers)
            position += 4 + 4 * partitions
    except struct.error as error:
        raise ValueError(
            f"{len(assignment)} bytes are not a consumer's assignment: {error}"
        ) from error
    return topics
