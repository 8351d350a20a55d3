"""The messages of AlterShareGroupOffsets.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_IQ = struct.Struct(">iq")


class AlterShareGroupOffsetsRequestPartition(MessageStruct):
    """AlterShareGroupOffsetsRequestPartition of Kafka."""

    __slots__ = ("partition_index", "start_offset")
    partition_index: int
    start_offset: int

    def __init__(self, partition_index: int = 0, start_offset: int = 0) -> None:
        self.partition_index = partition_index
        self.start_offset = start_offset


class AlterShareGroupOffsetsRequestTopic(MessageStruct):
    """AlterShareGroupOffsetsRequestTopic of Kafka."""

    __slots__ = ("topic_name", "partitions")
    topic_name: str
    partitions: list[AlterShareGroupOffsetsRequestPartition]

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] = NEW_LIST,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW_LIST else partitions


class AlterShareGroupOffsetsRequest(MessageStruct):
    """AlterShareGroupOffsetsRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[AlterShareGroupOffsetsRequestTopic]

    def __init__(
        self, group_id: str = "", topics: list[AlterShareGroupOffsetsRequestTopic] = NEW_LIST
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics


class AlterShareGroupOffsetsResponsePartition(MessageStruct):
    """AlterShareGroupOffsetsResponsePartition of Kafka."""

    __slots__ = ("partition_index", "error_code", "error_message")
    partition_index: int
    error_code: int
    error_message: str | None

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class AlterShareGroupOffsetsResponseTopic(MessageStruct):
    """AlterShareGroupOffsetsResponseTopic of Kafka."""

    __slots__ = ("topic_name", "topic_id", "partitions")
    topic_name: str
    topic_id: UUID | None
    partitions: list[AlterShareGroupOffsetsResponsePartition]

    def __init__(
        self,
        topic_name: str = "",
        topic_id: UUID | None = None,
        partitions: list[AlterShareGroupOffsetsResponsePartition] = NEW_LIST,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class AlterShareGroupOffsetsResponse(MessageStruct):
    """AlterShareGroupOffsetsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[AlterShareGroupOffsetsResponseTopic]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW_LIST else responses


def _read_alter_share_group_offsets_request_partition(
    reader: Reader, version: int
) -> AlterShareGroupOffsetsRequestPartition:
    partition_index, start_offset = _IQ.unpack_from(reader.frame, reader.position)
    reader.position += 12
    reader.skip_tagged_fields()
    return AlterShareGroupOffsetsRequestPartition(partition_index, start_offset)


def _read_alter_share_group_offsets_request_topic(
    reader: Reader, version: int
) -> AlterShareGroupOffsetsRequestTopic:
    topic_name = reader.string("topic_name")
    partitions: list[AlterShareGroupOffsetsRequestPartition] = []
    for _ in range(reader.count("partitions", 13)):
        partitions.append(_read_alter_share_group_offsets_request_partition(reader, version))
    reader.skip_tagged_fields()
    return AlterShareGroupOffsetsRequestTopic(topic_name, partitions)


def _read_alter_share_group_offsets_request(
    reader: Reader, version: int
) -> AlterShareGroupOffsetsRequest:
    group_id = reader.string("group_id")
    topics: list[AlterShareGroupOffsetsRequestTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_alter_share_group_offsets_request_topic(reader, version))
    reader.skip_tagged_fields()
    return AlterShareGroupOffsetsRequest(group_id, topics)


def _read_alter_share_group_offsets_response_partition(
    reader: Reader, version: int
) -> AlterShareGroupOffsetsResponsePartition:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return AlterShareGroupOffsetsResponsePartition(partition_index, error_code, error_message)


def _read_alter_share_group_offsets_response_topic(
    reader: Reader, version: int
) -> AlterShareGroupOffsetsResponseTopic:
    topic_name = reader.string("topic_name")
    topic_id = reader.topic_id("topic_id")
    partitions: list[AlterShareGroupOffsetsResponsePartition] = []
    for _ in range(reader.count("partitions", 8)):
        partitions.append(_read_alter_share_group_offsets_response_partition(reader, version))
    reader.skip_tagged_fields()
    return AlterShareGroupOffsetsResponseTopic(topic_name, topic_id, partitions)


def _read_alter_share_group_offsets_response(
    reader: Reader, version: int
) -> AlterShareGroupOffsetsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
    for _ in range(reader.count("responses", 19)):
        responses.append(_read_alter_share_group_offsets_response_topic(reader, version))
    reader.skip_tagged_fields()
    return AlterShareGroupOffsetsResponse(throttle_time_ms, error_code, error_message, responses)


def _write_alter_share_group_offsets_response_partition(
    out: Writer, data: AlterShareGroupOffsetsResponsePartition, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_alter_share_group_offsets_response_topic(
    out: Writer, data: AlterShareGroupOffsetsResponseTopic, version: int
) -> None:
    out.string(data.topic_name)
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for alter_share_group_offsets_response_partition in data.partitions:
        _write_alter_share_group_offsets_response_partition(
            out, alter_share_group_offsets_response_partition, version
        )
    out.append(0)


def _write_alter_share_group_offsets_response(
    out: Writer, data: AlterShareGroupOffsetsResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.responses))
    for alter_share_group_offsets_response_topic in data.responses:
        _write_alter_share_group_offsets_response_topic(
            out, alter_share_group_offsets_response_topic, version
        )
    out.append(0)


def _error_response(
    request: AlterShareGroupOffsetsRequest, code: int
) -> AlterShareGroupOffsetsResponse:
    return AlterShareGroupOffsetsResponse(
        error_code=code,
        responses=[
            AlterShareGroupOffsetsResponseTopic(
                topic_name=alter_share_group_offsets_request_topic.topic_name,
                partitions=[
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=alter_share_group_offsets_request_partition.partition_index,
                        error_code=code,
                    )
                    for alter_share_group_offsets_request_partition in alter_share_group_offsets_request_topic.partitions
                ],
            )
            for alter_share_group_offsets_request_topic in request.topics
        ],
    )


def _topics(request: AlterShareGroupOffsetsRequest) -> Iterator[NamedTopic]:
    for alter_share_group_offsets_request_topic in request.topics:
        yield NamedTopic(
            alter_share_group_offsets_request_topic.topic_name,
            None,
            [
                partition.partition_index
                for partition in alter_share_group_offsets_request_topic.partitions
            ],
        )


def _groups(request: AlterShareGroupOffsetsRequest) -> Iterable[str]:
    return [request.group_id]


ALTER_SHARE_GROUP_OFFSETS_MESSAGES = ApiMessages(
    key=91,
    name="AlterShareGroupOffsets",
    versions=(0, 0),
    flexible_since=0,
    request=AlterShareGroupOffsetsRequest,
    response=AlterShareGroupOffsetsResponse,
    read_request=_read_alter_share_group_offsets_request,
    read_response=_read_alter_share_group_offsets_response,
    write_response=_write_alter_share_group_offsets_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
