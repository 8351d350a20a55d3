"""The messages of OffsetDelete.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_HI = struct.Struct(">hi")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class OffsetDeleteRequestPartition(MessageStruct):
    """OffsetDeleteRequestPartition of Kafka."""

    __slots__ = ("partition_index",)
    partition_index: int

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class OffsetDeleteRequestTopic(MessageStruct):
    """OffsetDeleteRequestTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[OffsetDeleteRequestPartition]

    def __init__(
        self, name: str = "", partitions: list[OffsetDeleteRequestPartition] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetDeleteRequest(MessageStruct):
    """OffsetDeleteRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[OffsetDeleteRequestTopic]

    def __init__(
        self, group_id: str = "", topics: list[OffsetDeleteRequestTopic] = NEW_LIST
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics


class OffsetDeleteResponsePartition(MessageStruct):
    """OffsetDeleteResponsePartition of Kafka."""

    __slots__ = ("partition_index", "error_code")
    partition_index: int
    error_code: int

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetDeleteResponseTopic(MessageStruct):
    """OffsetDeleteResponseTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[OffsetDeleteResponsePartition]

    def __init__(
        self, name: str = "", partitions: list[OffsetDeleteResponsePartition] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetDeleteResponse(MessageStruct):
    """OffsetDeleteResponse of Kafka."""

    __slots__ = ("error_code", "throttle_time_ms", "topics")
    error_code: int
    throttle_time_ms: int
    topics: list[OffsetDeleteResponseTopic]

    def __init__(
        self,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_offset_delete_request_partition(
    reader: Reader, version: int
) -> OffsetDeleteRequestPartition:
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    return OffsetDeleteRequestPartition(partition_index)


def _read_offset_delete_request_topic(reader: Reader, version: int) -> OffsetDeleteRequestTopic:
    name = reader.string("name")
    partitions: list[OffsetDeleteRequestPartition] = []
    for _ in range(reader.count("partitions", 4)):
        partitions.append(_read_offset_delete_request_partition(reader, version))
    return OffsetDeleteRequestTopic(name, partitions)


def _read_offset_delete_request(reader: Reader, version: int) -> OffsetDeleteRequest:
    group_id = reader.string("group_id")
    topics: list[OffsetDeleteRequestTopic] = []
    for _ in range(reader.count("topics", 6)):
        topics.append(_read_offset_delete_request_topic(reader, version))
    return OffsetDeleteRequest(group_id, topics)


def _read_offset_delete_response_partition(
    reader: Reader, version: int
) -> OffsetDeleteResponsePartition:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    return OffsetDeleteResponsePartition(partition_index, error_code)


def _read_offset_delete_response_topic(reader: Reader, version: int) -> OffsetDeleteResponseTopic:
    name = reader.string("name")
    partitions: list[OffsetDeleteResponsePartition] = []
    for _ in range(reader.count("partitions", 6)):
        partitions.append(_read_offset_delete_response_partition(reader, version))
    return OffsetDeleteResponseTopic(name, partitions)


def _read_offset_delete_response(reader: Reader, version: int) -> OffsetDeleteResponse:
    error_code, throttle_time_ms = _HI.unpack_from(reader.frame, reader.position)
    reader.position += 6
    topics: list[OffsetDeleteResponseTopic] = []
    for _ in range(reader.count("topics", 6)):
        topics.append(_read_offset_delete_response_topic(reader, version))
    return OffsetDeleteResponse(error_code, throttle_time_ms, topics)


def _write_offset_delete_response_partition(
    out: Writer, data: OffsetDeleteResponsePartition, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.error_code)


def _write_offset_delete_response_topic(
    out: Writer, data: OffsetDeleteResponseTopic, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for offset_delete_response_partition in data.partitions:
        _write_offset_delete_response_partition(out, offset_delete_response_partition, version)


def _write_offset_delete_response(out: Writer, data: OffsetDeleteResponse, version: int) -> None:
    out += _HI.pack(data.error_code, data.throttle_time_ms)
    out.length(len(data.topics))
    for offset_delete_response_topic in data.topics:
        _write_offset_delete_response_topic(out, offset_delete_response_topic, version)


def _error_response(request: OffsetDeleteRequest, code: int) -> OffsetDeleteResponse:
    return OffsetDeleteResponse(error_code=code)


def _topics(request: OffsetDeleteRequest) -> Iterator[NamedTopic]:
    for offset_delete_request_topic in request.topics:
        yield NamedTopic(
            offset_delete_request_topic.name,
            None,
            [partition.partition_index for partition in offset_delete_request_topic.partitions],
        )


def _groups(request: OffsetDeleteRequest) -> Iterable[str]:
    return [request.group_id]


OFFSET_DELETE_MESSAGES = ApiMessages(
    key=47,
    name="OffsetDelete",
    versions=(0, 0),
    flexible_since=None,
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    read_request=_read_offset_delete_request,
    read_response=_read_offset_delete_response,
    write_response=_write_offset_delete_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
