"""The messages of DeleteRecords.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IQ = struct.Struct(">iq")
_IQH = struct.Struct(">iqh")


class DeleteRecordsPartition(MessageStruct):
    """DeleteRecordsPartition of Kafka."""

    __slots__ = ("partition_index", "offset")
    partition_index: int
    offset: int

    def __init__(self, partition_index: int = 0, offset: int = 0) -> None:
        self.partition_index = partition_index
        self.offset = offset


class DeleteRecordsTopic(MessageStruct):
    """DeleteRecordsTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[DeleteRecordsPartition]

    def __init__(self, name: str = "", partitions: list[DeleteRecordsPartition] = NEW_LIST) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class DeleteRecordsRequest(MessageStruct):
    """DeleteRecordsRequest of Kafka."""

    __slots__ = ("topics", "timeout_ms")
    topics: list[DeleteRecordsTopic]
    timeout_ms: int

    def __init__(self, topics: list[DeleteRecordsTopic] = NEW_LIST, timeout_ms: int = 0) -> None:
        self.topics = [] if topics is NEW_LIST else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsPartitionResult(MessageStruct):
    """DeleteRecordsPartitionResult of Kafka."""

    __slots__ = ("partition_index", "low_watermark", "error_code")
    partition_index: int
    low_watermark: int
    error_code: int

    def __init__(
        self, partition_index: int = 0, low_watermark: int = 0, error_code: int = 0
    ) -> None:
        self.partition_index = partition_index
        self.low_watermark = low_watermark
        self.error_code = error_code


class DeleteRecordsTopicResult(MessageStruct):
    """DeleteRecordsTopicResult of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[DeleteRecordsPartitionResult]

    def __init__(
        self, name: str = "", partitions: list[DeleteRecordsPartitionResult] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class DeleteRecordsResponse(MessageStruct):
    """DeleteRecordsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[DeleteRecordsTopicResult]

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[DeleteRecordsTopicResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_delete_records_partition(reader: Reader, version: int) -> DeleteRecordsPartition:
    partition_index, offset = _IQ.unpack_from(reader.frame, reader.position)
    reader.position += 12
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteRecordsPartition(partition_index, offset)


def _read_delete_records_topic(reader: Reader, version: int) -> DeleteRecordsTopic:
    name = reader.string("name")
    partitions: list[DeleteRecordsPartition] = []
    for _ in range(reader.count("partitions", 12)):
        partitions.append(_read_delete_records_partition(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteRecordsTopic(name, partitions)


def _read_delete_records_request(reader: Reader, version: int) -> DeleteRecordsRequest:
    topics: list[DeleteRecordsTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_delete_records_topic(reader, version))
    (timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteRecordsRequest(topics, timeout_ms)


def _read_delete_records_partition_result(
    reader: Reader, version: int
) -> DeleteRecordsPartitionResult:
    partition_index, low_watermark, error_code = _IQH.unpack_from(reader.frame, reader.position)
    reader.position += 14
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteRecordsPartitionResult(partition_index, low_watermark, error_code)


def _read_delete_records_topic_result(reader: Reader, version: int) -> DeleteRecordsTopicResult:
    name = reader.string("name")
    partitions: list[DeleteRecordsPartitionResult] = []
    for _ in range(reader.count("partitions", 14)):
        partitions.append(_read_delete_records_partition_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteRecordsTopicResult(name, partitions)


def _read_delete_records_response(reader: Reader, version: int) -> DeleteRecordsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics: list[DeleteRecordsTopicResult] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_delete_records_topic_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteRecordsResponse(throttle_time_ms, topics)


def _write_delete_records_partition_result(
    out: Writer, data: DeleteRecordsPartitionResult, version: int
) -> None:
    out += _IQH.pack(data.partition_index, data.low_watermark, data.error_code)
    if version >= 2:
        out.append(0)


def _write_delete_records_topic_result(
    out: Writer, data: DeleteRecordsTopicResult, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for delete_records_partition_result in data.partitions:
        _write_delete_records_partition_result(out, delete_records_partition_result, version)
    if version >= 2:
        out.append(0)


def _write_delete_records_response(out: Writer, data: DeleteRecordsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for delete_records_topic_result in data.topics:
        _write_delete_records_topic_result(out, delete_records_topic_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: DeleteRecordsRequest, code: int) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=delete_records_topic.name,
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=delete_records_partition.partition_index,
                        low_watermark=-1,
                        error_code=code,
                    )
                    for delete_records_partition in delete_records_topic.partitions
                ],
            )
            for delete_records_topic in request.topics
        ]
    )


def _topics(request: DeleteRecordsRequest) -> Iterator[NamedTopic]:
    for delete_records_topic in request.topics:
        yield NamedTopic(
            delete_records_topic.name,
            None,
            [partition.partition_index for partition in delete_records_topic.partitions],
        )


DELETE_RECORDS_MESSAGES = ApiMessages(
    key=21,
    name="DeleteRecords",
    versions=(0, 2),
    flexible_since=2,
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    read_request=_read_delete_records_request,
    read_response=_read_delete_records_response,
    write_response=_write_delete_records_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
