"""The messages of DescribeShareGroupOffsets.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IQIH = struct.Struct(">iqih")


class DescribeShareGroupOffsetsRequestTopic(MessageStruct):
    """DescribeShareGroupOffsetsRequestTopic of Kafka."""

    __slots__ = ("topic_name", "partitions")
    topic_name: str
    partitions: list[int]

    def __init__(self, topic_name: str = "", partitions: list[int] = NEW_LIST) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW_LIST else partitions


class DescribeShareGroupOffsetsRequestGroup(MessageStruct):
    """DescribeShareGroupOffsetsRequestGroup of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = NEW_LIST,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics


class DescribeShareGroupOffsetsRequest(MessageStruct):
    """DescribeShareGroupOffsetsRequest of Kafka."""

    __slots__ = ("groups",)
    groups: list[DescribeShareGroupOffsetsRequestGroup]

    def __init__(self, groups: list[DescribeShareGroupOffsetsRequestGroup] = NEW_LIST) -> None:
        self.groups = [] if groups is NEW_LIST else groups


class DescribeShareGroupOffsetsResponsePartition(MessageStruct):
    """DescribeShareGroupOffsetsResponsePartition of Kafka."""

    __slots__ = ("partition_index", "start_offset", "leader_epoch", "error_code", "error_message")
    partition_index: int
    start_offset: int
    leader_epoch: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset
        self.leader_epoch = leader_epoch
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponseTopic(MessageStruct):
    """DescribeShareGroupOffsetsResponseTopic of Kafka."""

    __slots__ = ("topic_name", "topic_id", "partitions")
    topic_name: str
    topic_id: UUID | None
    partitions: list[DescribeShareGroupOffsetsResponsePartition]

    def __init__(
        self,
        topic_name: str = "",
        topic_id: UUID | None = None,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] = NEW_LIST,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class DescribeShareGroupOffsetsResponseGroup(MessageStruct):
    """DescribeShareGroupOffsetsResponseGroup of Kafka."""

    __slots__ = ("group_id", "topics", "error_code", "error_message")
    group_id: str
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int
    error_message: str | None

    def __init__(
        self,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] = NEW_LIST,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics
        self.error_code = error_code
        self.error_message = error_message


class DescribeShareGroupOffsetsResponse(MessageStruct):
    """DescribeShareGroupOffsetsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "groups")
    throttle_time_ms: int
    groups: list[DescribeShareGroupOffsetsResponseGroup]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW_LIST else groups


def _read_describe_share_group_offsets_request_topic(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsRequestTopic:
    topic_name = reader.string("topic_name")
    partitions = reader.numbers("partitions", "i", 4)
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsRequestTopic(topic_name, partitions)


def _read_describe_share_group_offsets_request_group(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsRequestGroup:
    group_id = reader.string("group_id")
    topics = (
        None
        if (count := reader.nullable_count("topics", 3)) < 0
        else [
            _read_describe_share_group_offsets_request_topic(reader, version) for _ in range(count)
        ]
    )
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsRequestGroup(group_id, topics)


def _read_describe_share_group_offsets_request(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsRequest:
    groups: list[DescribeShareGroupOffsetsRequestGroup] = []
    for _ in range(reader.count("groups", 3)):
        groups.append(_read_describe_share_group_offsets_request_group(reader, version))
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsRequest(groups)


def _read_describe_share_group_offsets_response_partition(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsResponsePartition:
    partition_index, start_offset, leader_epoch, error_code = _IQIH.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 18
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index, start_offset, leader_epoch, error_code, error_message
    )


def _read_describe_share_group_offsets_response_topic(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsResponseTopic:
    topic_name = reader.string("topic_name")
    topic_id = reader.topic_id("topic_id")
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = []
    for _ in range(reader.count("partitions", 20)):
        partitions.append(_read_describe_share_group_offsets_response_partition(reader, version))
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsResponseTopic(topic_name, topic_id, partitions)


def _read_describe_share_group_offsets_response_group(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = reader.string("group_id")
    topics: list[DescribeShareGroupOffsetsResponseTopic] = []
    for _ in range(reader.count("topics", 19)):
        topics.append(_read_describe_share_group_offsets_response_topic(reader, version))
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsResponseGroup(group_id, topics, error_code, error_message)


def _read_describe_share_group_offsets_response(
    reader: Reader, version: int
) -> DescribeShareGroupOffsetsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
    for _ in range(reader.count("groups", 6)):
        groups.append(_read_describe_share_group_offsets_response_group(reader, version))
    reader.skip_tagged_fields()
    return DescribeShareGroupOffsetsResponse(throttle_time_ms, groups)


def _write_describe_share_group_offsets_response_partition(
    out: Writer, data: DescribeShareGroupOffsetsResponsePartition, version: int
) -> None:
    out += _IQIH.pack(data.partition_index, data.start_offset, data.leader_epoch, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_describe_share_group_offsets_response_topic(
    out: Writer, data: DescribeShareGroupOffsetsResponseTopic, version: int
) -> None:
    out.string(data.topic_name)
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for describe_share_group_offsets_response_partition in data.partitions:
        _write_describe_share_group_offsets_response_partition(
            out, describe_share_group_offsets_response_partition, version
        )
    out.append(0)


def _write_describe_share_group_offsets_response_group(
    out: Writer, data: DescribeShareGroupOffsetsResponseGroup, version: int
) -> None:
    out.string(data.group_id)
    out.length(len(data.topics))
    for describe_share_group_offsets_response_topic in data.topics:
        _write_describe_share_group_offsets_response_topic(
            out, describe_share_group_offsets_response_topic, version
        )
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_describe_share_group_offsets_response(
    out: Writer, data: DescribeShareGroupOffsetsResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.groups))
    for describe_share_group_offsets_response_group in data.groups:
        _write_describe_share_group_offsets_response_group(
            out, describe_share_group_offsets_response_group, version
        )
    out.append(0)


def _error_response(
    request: DescribeShareGroupOffsetsRequest, code: int
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(
        groups=[
            DescribeShareGroupOffsetsResponseGroup(
                group_id=describe_share_group_offsets_request_group.group_id,
                topics=[
                    DescribeShareGroupOffsetsResponseTopic(
                        topic_name=describe_share_group_offsets_request_topic.topic_name,
                        partitions=[
                            DescribeShareGroupOffsetsResponsePartition(
                                partition_index=value, error_code=code
                            )
                            for value in describe_share_group_offsets_request_topic.partitions
                        ],
                    )
                    for describe_share_group_offsets_request_topic in (
                        describe_share_group_offsets_request_group.topics or ()
                    )
                ],
                error_code=code,
            )
            for describe_share_group_offsets_request_group in request.groups
        ]
    )


def _topics(request: DescribeShareGroupOffsetsRequest) -> Iterator[NamedTopic]:
    for describe_share_group_offsets_request_group in request.groups:
        for describe_share_group_offsets_request_topic in (
            describe_share_group_offsets_request_group.topics or ()
        ):
            yield NamedTopic(
                describe_share_group_offsets_request_topic.topic_name,
                None,
                describe_share_group_offsets_request_topic.partitions,
            )


def _groups(request: DescribeShareGroupOffsetsRequest) -> Iterable[str]:
    return [
        describe_share_group_offsets_request_group.group_id
        for describe_share_group_offsets_request_group in request.groups
    ]


DESCRIBE_SHARE_GROUP_OFFSETS_MESSAGES = ApiMessages(
    key=90,
    name="DescribeShareGroupOffsets",
    versions=(0, 0),
    flexible_since=0,
    request=DescribeShareGroupOffsetsRequest,
    response=DescribeShareGroupOffsetsResponse,
    read_request=_read_describe_share_group_offsets_request,
    read_response=_read_describe_share_group_offsets_response,
    write_response=_write_describe_share_group_offsets_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
