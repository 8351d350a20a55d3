"""The messages of DescribeProducers.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_QIIQIQ = struct.Struct(">qiiqiq")


class TopicRequest(MessageStruct):
    """TopicRequest of Kafka."""

    __slots__ = ("name", "partition_indexes")
    name: str
    partition_indexes: list[int]

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW_LIST) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW_LIST else partition_indexes


class DescribeProducersRequest(MessageStruct):
    """DescribeProducersRequest of Kafka."""

    __slots__ = ("topics",)
    topics: list[TopicRequest]

    def __init__(self, topics: list[TopicRequest] = NEW_LIST) -> None:
        self.topics = [] if topics is NEW_LIST else topics


class ProducerState(MessageStruct):
    """ProducerState of Kafka."""

    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    current_txn_start_offset: int

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.last_sequence = last_sequence
        self.last_timestamp = last_timestamp
        self.coordinator_epoch = coordinator_epoch
        self.current_txn_start_offset = current_txn_start_offset


class PartitionResponse(MessageStruct):
    """PartitionResponse of Kafka."""

    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")
    partition_index: int
    error_code: int
    error_message: str | None
    active_producers: list[ProducerState]

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = NEW_LIST,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.active_producers = [] if active_producers is NEW_LIST else active_producers


class TopicResponse(MessageStruct):
    """TopicResponse of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[PartitionResponse]

    def __init__(self, name: str = "", partitions: list[PartitionResponse] = NEW_LIST) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class DescribeProducersResponse(MessageStruct):
    """DescribeProducersResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[TopicResponse]

    def __init__(self, throttle_time_ms: int = 0, topics: list[TopicResponse] = NEW_LIST) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


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
