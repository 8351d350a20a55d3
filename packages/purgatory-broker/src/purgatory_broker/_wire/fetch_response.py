"""Encodes Fetch responses of every version that is served; see `fetch_request`."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.fields import topic_id_bytes, write_tagged_fields, writers
from purgatory_broker._wire.leaders import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    leader_value,
    write_endpoints,
)

#: The first versions with the log's start, with fetch sessions (KIP-227), with a preferred replica
#: (KIP-392), that are flexible, with topic ids instead of names (KIP-516), and with the leaders'
#: addresses (KIP-951).
_LOG_START_SINCE = 5
_SESSION_SINCE = 7
_PREFERRED_REPLICA_SINCE = 11
_FLEXIBLE_SINCE = 12
_TOPIC_ID_SINCE = 13
_ENDPOINTS_SINCE = 16

_INT32 = struct.Struct(">i")
#: Error code and session id.
_ERROR_AND_SESSION = struct.Struct(">hi")
#: Partition, error code, high watermark, last stable offset, and from version 5 on the log's start.
_PARTITION_V4 = struct.Struct(">ihqq")
_PARTITION = struct.Struct(">ihqqq")
_ABORTED_TRANSACTION = struct.Struct(">qq")
#: The values of tagged fields, with the number of their own tagged fields.
_EPOCH_AND_END = struct.Struct(">iqb")
_END_AND_EPOCH = struct.Struct(">qib")


@dataclass(slots=True)
class EpochEndOffset:
    epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True)
class SnapshotId:
    """A snapshot to fetch instead; only Kafka's controllers have any."""

    end_offset: int = -1
    epoch: int = -1


@dataclass(slots=True)
class AbortedTransaction:
    """An aborted transaction among the records."""

    producer_id: int
    first_offset: int


@dataclass(slots=True)
class PartitionData:
    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: list[AbortedTransaction] | None = None
    preferred_read_replica: int = -1
    records: bytes | None = b""
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None


@dataclass(slots=True)
class FetchableTopicResponse:
    topic: str
    topic_id: UUID | None
    partitions: list[PartitionData]


@dataclass(slots=True)
class FetchResponse:
    responses: list[FetchableTopicResponse]
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


def write_fetch_response(out: bytearray, response: FetchResponse, version: int) -> None:
    flexible = version >= _FLEXIBLE_SINCE
    write_length, write_string = writers(flexible=flexible)
    out += _INT32.pack(response.throttle_time_ms)
    if version >= _SESSION_SINCE:
        out += _ERROR_AND_SESSION.pack(response.error_code, response.session_id)
    write_length(out, len(response.responses))
    for topic in response.responses:
        if version >= _TOPIC_ID_SINCE:
            out += topic_id_bytes(topic.topic_id)
        else:
            write_string(out, topic.topic)
        write_length(out, len(topic.partitions))
        for partition in topic.partitions:
            _write_partition(out, partition, version)
        if flexible:
            out.append(0)
    if flexible:
        write_endpoints(out, response.node_endpoints if version >= _ENDPOINTS_SINCE else [])


def _write_partition(out: bytearray, partition: PartitionData, version: int) -> None:
    flexible = version >= _FLEXIBLE_SINCE
    write_length = writers(flexible=flexible).length
    if version >= _LOG_START_SINCE:
        out += _PARTITION.pack(
            partition.partition_index,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
            partition.log_start_offset,
        )
    else:
        out += _PARTITION_V4.pack(
            partition.partition_index,
            partition.error_code,
            partition.high_watermark,
            partition.last_stable_offset,
        )
    if partition.aborted_transactions is None:
        write_length(out, -1)
    else:
        write_length(out, len(partition.aborted_transactions))
        for transaction in partition.aborted_transactions:
            out += _ABORTED_TRANSACTION.pack(transaction.producer_id, transaction.first_offset)
            if flexible:
                out.append(0)
    if version >= _PREFERRED_REPLICA_SINCE:
        out += _INT32.pack(partition.preferred_read_replica)
    if partition.records is None:
        write_length(out, -1)
    else:
        write_length(out, len(partition.records))
        out += partition.records
    if flexible:
        write_tagged_fields(out, _tagged_values(partition))


def _tagged_values(partition: PartitionData) -> list[tuple[int, bytes | bytearray]]:
    values: list[tuple[int, bytes | bytearray]] = []
    diverging, leader = partition.diverging_epoch, partition.current_leader
    snapshot = partition.snapshot_id
    if diverging is not None:
        values.append((0, _EPOCH_AND_END.pack(diverging.epoch, diverging.end_offset, 0)))
    if leader is not None:
        values.append((1, leader_value(leader)))
    if snapshot is not None:
        values.append((2, _END_AND_EPOCH.pack(snapshot.end_offset, snapshot.epoch, 0)))
    return values
