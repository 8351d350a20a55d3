"""The subscription in a consumer's JoinGroup metadata."""

from __future__ import annotations

import struct


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """Return the topics of a consumer's subscription.

    Every version of Kafka's ConsumerProtocolSubscription schema begins with a version and the list
    of topics; the fields after the list are not read.
    """
    try:
        _version, count = struct.unpack_from(">hi", metadata)
        position = 6
        topics = []
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, position)
            position += 2 + length
            raw = metadata[position - length : position]
            if length < 0 or len(raw) != length:
                raise ValueError(f"truncated topic name: expected {length} bytes, got {len(raw)}")
            topics.append(raw.decode())
    except struct.error as error:
        raise ValueError(
            f"{len(metadata)} bytes are not a consumer's subscription: {error}"
        ) from error
    return frozenset(topics)
