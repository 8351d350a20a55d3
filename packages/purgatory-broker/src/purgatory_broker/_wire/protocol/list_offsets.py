"""The messages of ListOffsets.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IB = struct.Struct(">ib")
_IHQQ = struct.Struct(">ihqq")
_IHQQI = struct.Struct(">ihqqi")
_IIQ = struct.Struct(">iiq")
_IQ = struct.Struct(">iq")


class ListOffsetsPartition(MessageStruct):
    """ListOffsetsPartition of Kafka."""

    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    partition_index: int
    current_leader_epoch: int
    timestamp: int

    def __init__(
        self, partition_index: int = 0, current_leader_epoch: int = -1, timestamp: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp


class ListOffsetsTopic(MessageStruct):
    """ListOffsetsTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[ListOffsetsPartition]

    def __init__(self, name: str = "", partitions: list[ListOffsetsPartition] = NEW_LIST) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class ListOffsetsRequest(MessageStruct):
    """ListOffsetsRequest of Kafka."""

    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    replica_id: int
    isolation_level: int
    topics: list[ListOffsetsTopic]
    timeout_ms: int

    def __init__(
        self,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = NEW_LIST,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is NEW_LIST else topics
        self.timeout_ms = timeout_ms


class ListOffsetsPartitionResponse(MessageStruct):
    """ListOffsetsPartitionResponse of Kafka."""

    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    partition_index: int
    error_code: int
    timestamp: int
    offset: int
    leader_epoch: int

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.timestamp = timestamp
        self.offset = offset
        self.leader_epoch = leader_epoch


class ListOffsetsTopicResponse(MessageStruct):
    """ListOffsetsTopicResponse of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[ListOffsetsPartitionResponse]

    def __init__(
        self, name: str = "", partitions: list[ListOffsetsPartitionResponse] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class ListOffsetsResponse(MessageStruct):
    """ListOffsetsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[ListOffsetsTopicResponse]

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[ListOffsetsTopicResponse] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_list_offsets_partition(reader: Reader, version: int) -> ListOffsetsPartition:
    current_leader_epoch: int = -1
    if version >= 4:
        partition_index, current_leader_epoch, timestamp = _IIQ.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    else:
        partition_index, timestamp = _IQ.unpack_from(reader.frame, reader.position)
        reader.position += 12
    if version >= 6:
        reader.skip_tagged_fields()
    return ListOffsetsPartition(partition_index, current_leader_epoch, timestamp)


def _read_list_offsets_topic(reader: Reader, version: int) -> ListOffsetsTopic:
    name = reader.string("name")
    partitions: list[ListOffsetsPartition] = []
    for _ in range(reader.count("partitions", 12)):
        partitions.append(_read_list_offsets_partition(reader, version))
    if version >= 6:
        reader.skip_tagged_fields()
    return ListOffsetsTopic(name, partitions)


def _read_list_offsets_request(reader: Reader, version: int) -> ListOffsetsRequest:
    isolation_level: int = 0
    timeout_ms: int = 0
    if version >= 2:
        replica_id, isolation_level = _IB.unpack_from(reader.frame, reader.position)
        reader.position += 5
    else:
        (replica_id,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics: list[ListOffsetsTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_list_offsets_topic(reader, version))
    if version >= 10:
        (timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 6:
        reader.skip_tagged_fields()
    return ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms)


def _read_list_offsets_partition_response(
    reader: Reader, version: int
) -> ListOffsetsPartitionResponse:
    leader_epoch: int = -1
    if version >= 4:
        partition_index, error_code, timestamp, offset, leader_epoch = _IHQQI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 26
    else:
        partition_index, error_code, timestamp, offset = _IHQQ.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 22
    if version >= 6:
        reader.skip_tagged_fields()
    return ListOffsetsPartitionResponse(
        partition_index, error_code, timestamp, offset, leader_epoch
    )


def _read_list_offsets_topic_response(reader: Reader, version: int) -> ListOffsetsTopicResponse:
    name = reader.string("name")
    partitions: list[ListOffsetsPartitionResponse] = []
    for _ in range(reader.count("partitions", 22)):
        partitions.append(_read_list_offsets_partition_response(reader, version))
    if version >= 6:
        reader.skip_tagged_fields()
    return ListOffsetsTopicResponse(name, partitions)


def _read_list_offsets_response(reader: Reader, version: int) -> ListOffsetsResponse:
    throttle_time_ms: int = 0
    if version >= 2:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics: list[ListOffsetsTopicResponse] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_list_offsets_topic_response(reader, version))
    if version >= 6:
        reader.skip_tagged_fields()
    return ListOffsetsResponse(throttle_time_ms, topics)


def _write_list_offsets_partition_response(
    out: Writer, data: ListOffsetsPartitionResponse, version: int
) -> None:
    if version >= 4:
        out += _IHQQI.pack(
            data.partition_index, data.error_code, data.timestamp, data.offset, data.leader_epoch
        )
    else:
        out += _IHQQ.pack(data.partition_index, data.error_code, data.timestamp, data.offset)
    if version >= 6:
        out.append(0)


def _write_list_offsets_topic_response(
    out: Writer, data: ListOffsetsTopicResponse, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for list_offsets_partition_response in data.partitions:
        _write_list_offsets_partition_response(out, list_offsets_partition_response, version)
    if version >= 6:
        out.append(0)


def _write_list_offsets_response(out: Writer, data: ListOffsetsResponse, version: int) -> None:
    if version >= 2:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for list_offsets_topic_response in data.topics:
        _write_list_offsets_topic_response(out, list_offsets_topic_response, version)
    if version >= 6:
        out.append(0)


def _error_response(request: ListOffsetsRequest, code: int) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=list_offsets_topic.name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=list_offsets_partition.partition_index, error_code=code
                    )
                    for list_offsets_partition in list_offsets_topic.partitions
                ],
            )
            for list_offsets_topic in request.topics
        ]
    )


def _topics(request: ListOffsetsRequest) -> Iterator[NamedTopic]:
    for list_offsets_topic in request.topics:
        yield NamedTopic(
            list_offsets_topic.name,
            None,
            [partition.partition_index for partition in list_offsets_topic.partitions],
        )


LIST_OFFSETS_MESSAGES = ApiMessages(
    key=2,
    name="ListOffsets",
    versions=(1, 10),
    flexible_since=6,
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    read_request=_read_list_offsets_request,
    read_response=_read_list_offsets_response,
    write_response=_write_list_offsets_response,
    error_response=_error_response,
    fields={
        ListOffsetsPartition: {"current_leader_epoch": (4, 10)},
        ListOffsetsRequest: {"isolation_level": (2, 10), "timeout_ms": (10, 10)},
        ListOffsetsPartitionResponse: {"leader_epoch": (4, 10)},
        ListOffsetsResponse: {"throttle_time_ms": (2, 10)},
    },
    topics=_topics,
    names_partitions=True,
)
