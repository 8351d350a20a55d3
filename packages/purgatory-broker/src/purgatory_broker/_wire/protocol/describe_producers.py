"""The messages of DescribeProducers.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_QIIQIQ = struct.Struct(">qiiqiq")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class TopicRequest(MessageStruct):
    """TopicRequest of Kafka."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeProducersRequest(MessageStruct):
    """DescribeProducersRequest of Kafka."""

    topics: list[TopicRequest] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class ProducerState(MessageStruct):
    """ProducerState of Kafka."""

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class PartitionResponse(MessageStruct):
    """PartitionResponse of Kafka."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class TopicResponse(MessageStruct):
    """TopicResponse of Kafka."""

    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DescribeProducersResponse(MessageStruct):
    """DescribeProducersResponse of Kafka."""

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)


def _read_topic_request(reader: Reader, version: int) -> TopicRequest:
    name = reader.string("name")
    partition_indexes = reader.numbers("partition_indexes", "i", 4)
    reader.skip_tagged_fields()
    return TopicRequest(name, partition_indexes)


def _read_describe_producers_request(reader: Reader, version: int) -> DescribeProducersRequest:
    topics: list[TopicRequest] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_topic_request(reader, version))
    reader.skip_tagged_fields()
    return DescribeProducersRequest(topics)


def _read_producer_state(reader: Reader, version: int) -> ProducerState:
    (
        producer_id,
        producer_epoch,
        last_sequence,
        last_timestamp,
        coordinator_epoch,
        current_txn_start_offset,
    ) = _QIIQIQ.unpack_from(reader.frame, reader.position)
    reader.position += 36
    reader.skip_tagged_fields()
    return ProducerState(
        producer_id,
        producer_epoch,
        last_sequence,
        last_timestamp,
        coordinator_epoch,
        current_txn_start_offset,
    )


def _read_partition_response(reader: Reader, version: int) -> PartitionResponse:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    active_producers: list[ProducerState] = []
    for _ in range(reader.count("active_producers", 37)):
        active_producers.append(_read_producer_state(reader, version))
    reader.skip_tagged_fields()
    return PartitionResponse(partition_index, error_code, error_message, active_producers)


def _read_topic_response(reader: Reader, version: int) -> TopicResponse:
    name = reader.string("name")
    partitions: list[PartitionResponse] = []
    for _ in range(reader.count("partitions", 9)):
        partitions.append(_read_partition_response(reader, version))
    reader.skip_tagged_fields()
    return TopicResponse(name, partitions)


def _read_describe_producers_response(reader: Reader, version: int) -> DescribeProducersResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics: list[TopicResponse] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_topic_response(reader, version))
    reader.skip_tagged_fields()
    return DescribeProducersResponse(throttle_time_ms, topics)


def _write_producer_state(out: Writer, data: ProducerState, version: int) -> None:
    out += _QIIQIQ.pack(
        data.producer_id,
        data.producer_epoch,
        data.last_sequence,
        data.last_timestamp,
        data.coordinator_epoch,
        data.current_txn_start_offset,
    )
    out.append(0)


def _write_partition_response(out: Writer, data: PartitionResponse, version: int) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.active_producers))
    for producer_state in data.active_producers:
        _write_producer_state(out, producer_state, version)
    out.append(0)


def _write_topic_response(out: Writer, data: TopicResponse, version: int) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for partition_response in data.partitions:
        _write_partition_response(out, partition_response, version)
    out.append(0)


def _write_describe_producers_response(
    out: Writer, data: DescribeProducersResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for topic_response in data.topics:
        _write_topic_response(out, topic_response, version)
    out.append(0)


def _error_response(request: DescribeProducersRequest, code: int) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic_request.name,
                partitions=[
                    PartitionResponse(partition_index=value, error_code=code, error_message=None)
                    for value in topic_request.partition_indexes
                ],
            )
            for topic_request in request.topics
        ]
    )


def _topics(request: DescribeProducersRequest) -> Iterator[NamedTopic]:
    for topic_request in request.topics:
        yield NamedTopic(topic_request.name, None, topic_request.partition_indexes)


DESCRIBE_PRODUCERS_MESSAGES = ApiMessages(
    key=61,
    name="DescribeProducers",
    versions=(0, 0),
    flexible_since=0,
    request=DescribeProducersRequest,
    response=DescribeProducersResponse,
    read_request=_read_describe_producers_request,
    read_response=_read_describe_producers_response,
    write_response=_write_describe_producers_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
