"""Encodes Produce responses of every version that is served; see `fetch_request`."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.apis import MAX_PLAIN_RESPONSE_BYTES
from purgatory_broker._wire.fields import topic_id_bytes, write_tagged_fields, writers
from purgatory_broker._wire.leaders import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    leader_value,
    write_endpoints,
)
from purgatory_broker._wire.wire_error import WireError

#: The first versions with the log's start, with record errors, that are flexible, with the current
#: leader (KIP-951), and with topic ids instead of names (KIP-516).
_LOG_START_SINCE = 5
_RECORD_ERRORS_SINCE = 8
_FLEXIBLE_SINCE = 9
_LEADER_SINCE = 10
_TOPIC_ID_SINCE = 13

_INT32 = struct.Struct(">i")
#: Index, error code, base offset, time of the append, and from version 5 on the log's start.
_PARTITION_V3 = struct.Struct(">ihqq")
_PARTITION = struct.Struct(">ihqqq")


@dataclass(slots=True)
class BatchIndexAndErrorMessage:
    """The error of a record: its position in the batch, and a message."""

    batch_index: int
    batch_index_error_message: str | None = None


@dataclass(slots=True)
class PartitionProduceResponse:
    index: int
    error_code: int
    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None


@dataclass(slots=True)
class TopicProduceResponse:
    name: str
    topic_id: UUID | None
    partition_responses: list[PartitionProduceResponse]


@dataclass(slots=True)
class ProduceResponse:
    responses: list[TopicProduceResponse]
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)


def write_produce_response(out: bytearray, response: ProduceResponse, version: int) -> None:
    flexible = version >= _FLEXIBLE_SINCE
    write_length, write_string = writers(flexible=flexible)
    write_length(out, len(response.responses))
    for topic in response.responses:
        if version >= _TOPIC_ID_SINCE:
            out += topic_id_bytes(topic.topic_id)
        else:
            write_string(out, topic.name)
        write_length(out, len(topic.partition_responses))
        for partition in topic.partition_responses:
            if version >= _LOG_START_SINCE:
                out += _PARTITION.pack(
                    partition.index,
                    partition.error_code,
                    partition.base_offset,
                    partition.log_append_time_ms,
                    partition.log_start_offset,
                )
            else:
                out += _PARTITION_V3.pack(
                    partition.index,
                    partition.error_code,
                    partition.base_offset,
                    partition.log_append_time_ms,
                )
            if version >= _RECORD_ERRORS_SINCE:
                write_length(out, len(partition.record_errors))
                for error in partition.record_errors:
                    out += _INT32.pack(error.batch_index)
                    write_string(out, error.batch_index_error_message)
                    if flexible:
                        out.append(0)
                write_string(out, partition.error_message)
            if flexible:
                leader = partition.current_leader if version >= _LEADER_SINCE else None
                write_tagged_fields(out, [] if leader is None else [(0, leader_value(leader))])
            if len(out) > MAX_PLAIN_RESPONSE_BYTES:
                raise WireError(
                    f"a response exceeds the limit of {MAX_PLAIN_RESPONSE_BYTES:,} bytes"
                )
        if flexible:
            out.append(0)
    out += _INT32.pack(response.throttle_time_ms)
    if flexible:
        endpoints = response.node_endpoints if version >= _LEADER_SINCE else []
        write_endpoints(out, endpoints)
