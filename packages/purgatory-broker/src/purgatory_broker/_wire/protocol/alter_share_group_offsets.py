"""The messages of AlterShareGroupOffsets.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_IQ = struct.Struct(">iq")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterShareGroupOffsetsRequestPartition(MessageStruct):
    """AlterShareGroupOffsetsRequestPartition of Kafka."""

    partition_index: int = 0
    start_offset: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterShareGroupOffsetsRequestTopic(MessageStruct):
    """AlterShareGroupOffsetsRequestTopic of Kafka."""

    topic_name: str = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterShareGroupOffsetsRequest(MessageStruct):
    """AlterShareGroupOffsetsRequest of Kafka."""

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterShareGroupOffsetsResponsePartition(MessageStruct):
    """AlterShareGroupOffsetsResponsePartition of Kafka."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterShareGroupOffsetsResponseTopic(MessageStruct):
    """AlterShareGroupOffsetsResponseTopic of Kafka."""

    topic_name: str = ""
    topic_id: UUID | None = None
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class AlterShareGroupOffsetsResponse(MessageStruct):
    """AlterShareGroupOffsetsResponse of Kafka."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(default_factory=list)


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
