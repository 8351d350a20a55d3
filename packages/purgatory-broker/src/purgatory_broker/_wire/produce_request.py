"""Decodes Produce requests of every version that is served; see `fetch_request`."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from purgatory_broker._wire.fields import (
    add_elements,
    read_topic_id,
    readers,
    required,
    skip_tagged_fields,
)

#: The first versions that are flexible, and with topic ids instead of names (KIP-516).
_FLEXIBLE_SINCE = 9
_TOPIC_ID_SINCE = 13

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_INT32 = struct.Struct(">i")


@dataclass(slots=True)
class PartitionProduceData:
    index: int
    records: bytes | None


@dataclass(slots=True)
class TopicProduceData:
    name: str
    topic_id: UUID | None
    partition_data: list[PartitionProduceData]


@dataclass(slots=True)
class ProduceRequest:
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[TopicProduceData]


def read_produce_request(frame: bytes, position: int, version: int) -> tuple[ProduceRequest, int]:
    """Read a request; return it and the position after it.

    That may be after the end of a frame that is cut. Invalid bytes raise WireError, struct.error,
    IndexError or ValueError.
    """
    flexible = version >= _FLEXIBLE_SINCE
    read_length, read_string = readers(flexible=flexible)
    transactional_id, position = read_string(frame, position)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(frame, position)
    topics, position = read_length(frame, position + _ACKS_AND_TIMEOUT.size)
    elements = add_elements(0, topics, "topic_data")
    topic_data = []
    for _ in range(topics):
        name: str | None = ""
        topic_id = None
        if version >= _TOPIC_ID_SINCE:
            topic_id, position = read_topic_id(frame, position)
        else:
            name, position = read_string(frame, position)
        partitions, position = read_length(frame, position)
        elements = add_elements(elements, partitions, "partition_data")
        partition_data = []
        for _ in range(partitions):
            (index,) = _INT32.unpack_from(frame, position)
            length, position = read_length(frame, position + _INT32.size)
            records = None
            if length >= 0:
                records = frame[position : position + length]
                position += length
            partition_data.append(PartitionProduceData(index, records))
            if flexible:
                position, elements = skip_tagged_fields(frame, position, elements)
        topic_data.append(TopicProduceData(required(name, "name"), topic_id, partition_data))
        if flexible:
            position, elements = skip_tagged_fields(frame, position, elements)
    if flexible:
        position, elements = skip_tagged_fields(frame, position, elements)
    return ProduceRequest(transactional_id, acks, timeout_ms, topic_data), position
