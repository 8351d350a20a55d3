"""What a consumer tells its group's leader."""

from __future__ import annotations

import struct


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """The topics of a consumer's subscription, which every version of it begins with; ValueError for bytes that are none.

    Source: Kafka's schema ConsumerProtocolSubscription.
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
                raise ValueError(f"a topic's name of {length} bytes, of which {len(raw)} are there")
            topics.append(raw.decode())
    except struct.error as error:
        raise ValueError(
            f"{len(metadata)} bytes are no consumer's subscription: {error}"
        ) from error
    return frozenset(topics)
