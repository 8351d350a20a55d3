"""The messages of OffsetCommit.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IQ = struct.Struct(">iq")
_IQI = struct.Struct(">iqi")
_Q = struct.Struct(">q")


class OffsetCommitRequestPartition(MessageStruct):
    """OffsetCommitRequestPartition of Kafka."""

    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "committed_metadata",
    )
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class OffsetCommitRequestTopic(MessageStruct):
    """OffsetCommitRequestTopic of Kafka."""

    __slots__ = ("name", "topic_id", "partitions")
    name: str
    topic_id: UUID | None
    partitions: list[OffsetCommitRequestPartition]

    def __init__(
        self,
        name: str = "",
        topic_id: UUID | None = None,
        partitions: list[OffsetCommitRequestPartition] = NEW_LIST,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetCommitRequest(MessageStruct):
    """OffsetCommitRequest of Kafka."""

    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )
    group_id: str
    generation_id_or_member_epoch: int
    member_id: str
    group_instance_id: str | None
    retention_time_ms: int
    topics: list[OffsetCommitRequestTopic]

    def __init__(
        self,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = NEW_LIST,
    ) -> None:
        self.group_id = group_id
        self.generation_id_or_member_epoch = generation_id_or_member_epoch
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.retention_time_ms = retention_time_ms
        self.topics = [] if topics is NEW_LIST else topics


class OffsetCommitResponsePartition(MessageStruct):
    """OffsetCommitResponsePartition of Kafka."""

    __slots__ = ("partition_index", "error_code")
    partition_index: int
    error_code: int

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class OffsetCommitResponseTopic(MessageStruct):
    """OffsetCommitResponseTopic of Kafka."""

    __slots__ = ("name", "topic_id", "partitions")
    name: str
    topic_id: UUID | None
    partitions: list[OffsetCommitResponsePartition]

    def __init__(
        self,
        name: str = "",
        topic_id: UUID | None = None,
        partitions: list[OffsetCommitResponsePartition] = NEW_LIST,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetCommitResponse(MessageStruct):
    """OffsetCommitResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[OffsetCommitResponseTopic]

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[OffsetCommitResponseTopic] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_offset_commit_request_partition(
    reader: Reader, version: int
) -> OffsetCommitRequestPartition:
    committed_leader_epoch: int = -1
    if version >= 6:
        partition_index, committed_offset, committed_leader_epoch = _IQI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    else:
        partition_index, committed_offset = _IQ.unpack_from(reader.frame, reader.position)
        reader.position += 12
    committed_metadata = reader.nullable_string("committed_metadata")
    if version >= 8:
        reader.skip_tagged_fields()
    return OffsetCommitRequestPartition(
        partition_index, committed_offset, committed_leader_epoch, committed_metadata
    )


def _read_offset_commit_request_topic(reader: Reader, version: int) -> OffsetCommitRequestTopic:
    name: str = ""
    topic_id: UUID | None = None
    if version <= 9:
        name = reader.string("name")
    if version >= 10:
        topic_id = reader.topic_id("topic_id")
    partitions: list[OffsetCommitRequestPartition] = []
    for _ in range(reader.count("partitions", 14)):
        partitions.append(_read_offset_commit_request_partition(reader, version))
    if version >= 8:
        reader.skip_tagged_fields()
    return OffsetCommitRequestTopic(name, topic_id, partitions)


def _read_offset_commit_request(reader: Reader, version: int) -> OffsetCommitRequest:
    group_instance_id: str | None = None
    retention_time_ms: int = -1
    group_id = reader.string("group_id")
    (generation_id_or_member_epoch,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    member_id = reader.string("member_id")
    if version >= 7:
        group_instance_id = reader.nullable_string("group_instance_id")
    if version >= 5:
        pass
    else:
        (retention_time_ms,) = _Q.unpack_from(reader.frame, reader.position)
        reader.position += 8
    topics: list[OffsetCommitRequestTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_offset_commit_request_topic(reader, version))
    if version >= 8:
        reader.skip_tagged_fields()
    return OffsetCommitRequest(
        group_id,
        generation_id_or_member_epoch,
        member_id,
        group_instance_id,
        retention_time_ms,
        topics,
    )


def _read_offset_commit_response_partition(
    reader: Reader, version: int
) -> OffsetCommitResponsePartition:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    if version >= 8:
        reader.skip_tagged_fields()
    return OffsetCommitResponsePartition(partition_index, error_code)


def _read_offset_commit_response_topic(reader: Reader, version: int) -> OffsetCommitResponseTopic:
    name: str = ""
    topic_id: UUID | None = None
    if version <= 9:
        name = reader.string("name")
    if version >= 10:
        topic_id = reader.topic_id("topic_id")
    partitions: list[OffsetCommitResponsePartition] = []
    for _ in range(reader.count("partitions", 6)):
        partitions.append(_read_offset_commit_response_partition(reader, version))
    if version >= 8:
        reader.skip_tagged_fields()
    return OffsetCommitResponseTopic(name, topic_id, partitions)


def _read_offset_commit_response(reader: Reader, version: int) -> OffsetCommitResponse:
    throttle_time_ms: int = 0
    if version >= 3:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics: list[OffsetCommitResponseTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_offset_commit_response_topic(reader, version))
    if version >= 8:
        reader.skip_tagged_fields()
    return OffsetCommitResponse(throttle_time_ms, topics)


def _write_offset_commit_response_partition(
    out: Writer, data: OffsetCommitResponsePartition, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    if version >= 8:
        out.append(0)


def _write_offset_commit_response_topic(
    out: Writer, data: OffsetCommitResponseTopic, version: int
) -> None:
    if version <= 9:
        out.string(data.name)
    if version >= 10:
        out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for offset_commit_response_partition in data.partitions:
        _write_offset_commit_response_partition(out, offset_commit_response_partition, version)
    if version >= 8:
        out.append(0)


def _write_offset_commit_response(out: Writer, data: OffsetCommitResponse, version: int) -> None:
    if version >= 3:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for offset_commit_response_topic in data.topics:
        _write_offset_commit_response_topic(out, offset_commit_response_topic, version)
    if version >= 8:
        out.append(0)


def _error_response(request: OffsetCommitRequest, code: int) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=offset_commit_request_topic.name,
                topic_id=offset_commit_request_topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(
                        partition_index=offset_commit_request_partition.partition_index,
                        error_code=code,
                    )
                    for offset_commit_request_partition in offset_commit_request_topic.partitions
                ],
            )
            for offset_commit_request_topic in request.topics
        ]
    )


def _topics(request: OffsetCommitRequest) -> Iterator[NamedTopic]:
    for offset_commit_request_topic in request.topics:
        yield NamedTopic(
            offset_commit_request_topic.name,
            offset_commit_request_topic.topic_id,
            [partition.partition_index for partition in offset_commit_request_topic.partitions],
        )


def _groups(request: OffsetCommitRequest) -> Iterable[str]:
    return [request.group_id]


OFFSET_COMMIT_MESSAGES = ApiMessages(
    key=8,
    name="OffsetCommit",
    versions=(2, 10),
    flexible_since=8,
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    read_request=_read_offset_commit_request,
    read_response=_read_offset_commit_response,
    write_response=_write_offset_commit_response,
    error_response=_error_response,
    fields={
        OffsetCommitRequestPartition: {"committed_leader_epoch": (6, 10)},
        OffsetCommitRequestTopic: {"name": (2, 9), "topic_id": (10, 10)},
        OffsetCommitRequest: {"group_instance_id": (7, 10), "retention_time_ms": (2, 4)},
        OffsetCommitResponseTopic: {"name": (2, 9), "topic_id": (10, 10)},
        OffsetCommitResponse: {"throttle_time_ms": (3, 10)},
    },
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
