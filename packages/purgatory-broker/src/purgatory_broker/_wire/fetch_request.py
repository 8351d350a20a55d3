"""Decodes Fetch requests of every version that is served.

The classes and attributes are named as kafka-python's, whose schemas have every message of the
protocol. Produce and Fetch are the most frequent ones, and decoded without a schema, which is
faster. Tests compare both decoders.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.fields import (
    TaggedFields,
    add_elements,
    end_of_tagged_struct,
    read_compact_string,
    read_tagged_fields,
    read_topic_id,
    readers,
    required,
    skip_tagged_fields,
)

#: The first versions with the log's start, with fetch sessions (KIP-227), with the leader's epoch
#: (KIP-320), with the consumer's rack (KIP-392), that are flexible and have the last fetched epoch,
#: with topic ids instead of names (KIP-516), with the follower's id in `replica_state` (KIP-903),
#: with the follower's directory (KIP-853), and with its high watermark (KIP-1166).
_LOG_START_SINCE = 5
_SESSION_SINCE = 7
_LEADER_EPOCH_SINCE = 9
_RACK_SINCE = 11
_FLEXIBLE_SINCE = 12
_TOPIC_ID_SINCE = 13
_REPLICA_STATE_SINCE = 15
_DIRECTORY_SINCE = 17
_HIGH_WATERMARK_SINCE = 18

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
#: Maximum wait, minimum and maximum bytes, and isolation level.
_LIMITS = struct.Struct(">iiib")
#: Session id and epoch.
_SESSION = struct.Struct(">ii")
#: The fields of `FetchPartition` up to the maximum bytes. Earlier versions have no last fetched
#: epoch, those before them no leader epoch, and those before them no log start offset.
_PARTITION = struct.Struct(">iiqiqi")
_PARTITION_V9 = struct.Struct(">iiqqi")
_PARTITION_V5 = struct.Struct(">iqqi")
_PARTITION_V4 = struct.Struct(">iqi")
_REPLICA_STATE = struct.Struct(">iq")

_NO_HIGH_WATERMARK = 2**63 - 1


@dataclass(slots=True)
class _ReplicaState:
    replica_id: int = -1
    replica_epoch: int = -1


@dataclass(slots=True)
class FetchPartition:
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = _NO_HIGH_WATERMARK


@dataclass(slots=True)
class FetchTopic:
    topic: str
    topic_id: UUID | None
    partitions: list[FetchPartition]


@dataclass(slots=True)
class ForgottenTopic:
    topic: str
    topic_id: UUID | None
    partitions: list[int]


@dataclass(slots=True)
class FetchRequest:
    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int = 0
    session_epoch: int = -1
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)
    rack_id: str = ""
    cluster_id: str | None = None
    replica_state: _ReplicaState | None = None


def read_fetch_request(frame: bytes, position: int, version: int) -> tuple[FetchRequest, int]:
    """Read a request; return it and the position after it.

    That may be after the end of a frame that is cut. Invalid bytes raise WireError, struct.error,
    IndexError or ValueError.
    """
    flexible = version >= _FLEXIBLE_SINCE
    replica_id = -1
    if version < _REPLICA_STATE_SINCE:
        (replica_id,) = _INT32.unpack_from(frame, position)
        position += _INT32.size
    request = FetchRequest(replica_id, *_LIMITS.unpack_from(frame, position))
    position += _LIMITS.size
    if version >= _SESSION_SINCE:
        request.session_id, request.session_epoch = _SESSION.unpack_from(frame, position)
        position += _SESSION.size
    request.topics, position, elements = _read_topics(frame, position, version)
    if version >= _SESSION_SINCE:
        request.forgotten_topics_data, position, elements = _read_forgotten(
            frame, position, version, elements
        )
    if version >= _RACK_SINCE:
        rack_id, position = readers(flexible=flexible).string(frame, position)
        request.rack_id = required(rack_id, "rack_id")
    if flexible:
        known = _TAGGED if version >= _REPLICA_STATE_SINCE else _TAGGED_V12
        position, _ = read_tagged_fields(frame, position, elements, request, known)
    return request, position


def _read_topics(frame: bytes, position: int, version: int) -> tuple[list[FetchTopic], int, int]:
    flexible = version >= _FLEXIBLE_SINCE
    read_length, read_string = readers(flexible=flexible)
    known = _PARTITION_TAGGED.get(version, {})
    count, position = read_length(frame, position)
    elements = add_elements(0, count, "topics")
    topics = []
    for _ in range(count):
        name: str | None = ""
        topic_id = None
        if version >= _TOPIC_ID_SINCE:
            topic_id, position = read_topic_id(frame, position)
        else:
            name, position = read_string(frame, position)
        length, position = read_length(frame, position)
        elements = add_elements(elements, length, "partitions")
        partitions = []
        for _ in range(length):
            partition, position = _read_partition(frame, position, version)
            if flexible:
                position, elements = read_tagged_fields(frame, position, elements, partition, known)
            partitions.append(partition)
        topics.append(FetchTopic(required(name, "topic"), topic_id, partitions))
        if flexible:
            position, elements = skip_tagged_fields(frame, position, elements)
    return topics, position, elements


def _read_partition(frame: bytes, position: int, version: int) -> tuple[FetchPartition, int]:
    if version >= _FLEXIBLE_SINCE:
        return FetchPartition(*_PARTITION.unpack_from(frame, position)), position + _PARTITION.size
    leader_epoch = log_start_offset = -1
    if version >= _LEADER_EPOCH_SINCE:
        partition, leader_epoch, offset, log_start_offset, max_bytes = _PARTITION_V9.unpack_from(
            frame, position
        )
        position += _PARTITION_V9.size
    elif version >= _LOG_START_SINCE:
        partition, offset, log_start_offset, max_bytes = _PARTITION_V5.unpack_from(frame, position)
        position += _PARTITION_V5.size
    else:
        partition, offset, max_bytes = _PARTITION_V4.unpack_from(frame, position)
        position += _PARTITION_V4.size
    fetched = FetchPartition(partition, leader_epoch, offset, -1, log_start_offset, max_bytes)
    return fetched, position


def _read_forgotten(
    frame: bytes, position: int, version: int, elements: int
) -> tuple[list[ForgottenTopic], int, int]:
    flexible = version >= _FLEXIBLE_SINCE
    read_length, read_string = readers(flexible=flexible)
    count, position = read_length(frame, position)
    elements = add_elements(elements, count, "forgotten_topics_data")
    topics = []
    for _ in range(count):
        name: str | None = ""
        topic_id = None
        if version >= _TOPIC_ID_SINCE:
            topic_id, position = read_topic_id(frame, position)
        else:
            name, position = read_string(frame, position)
        length, position = read_length(frame, position)
        elements = add_elements(elements, length, "partitions")
        partitions: list[int] = []
        if length > 0:
            partitions.extend(struct.unpack_from(f">{length}i", frame, position))
            position += length * _INT32.size
        topics.append(ForgottenTopic(required(name, "topic"), topic_id, partitions))
        if flexible:
            position, elements = skip_tagged_fields(frame, position, elements)
    return topics, position, elements


def _read_replica_state(frame: bytes, position: int) -> tuple[_ReplicaState, int]:
    state = _ReplicaState(*_REPLICA_STATE.unpack_from(frame, position))
    return state, end_of_tagged_struct(frame, position + _REPLICA_STATE.size)


def _read_int64(frame: bytes, position: int) -> tuple[int, int]:
    return _INT64.unpack_from(frame, position)[0], position + _INT64.size


_TAGGED_V12: TaggedFields = {0: ("cluster_id", read_compact_string)}
_TAGGED: TaggedFields = {**_TAGGED_V12, 1: ("replica_state", _read_replica_state)}
_PARTITION_TAGGED: dict[int, TaggedFields] = {
    _DIRECTORY_SINCE: {0: ("replica_directory_id", read_topic_id)},
    _HIGH_WATERMARK_SINCE: {
        0: ("replica_directory_id", read_topic_id),
        1: ("high_watermark", _read_int64),
    },
}
