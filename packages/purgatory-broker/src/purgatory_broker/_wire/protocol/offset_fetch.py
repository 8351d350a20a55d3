"""The messages of OffsetFetch.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IQ = struct.Struct(">iq")
_IQI = struct.Struct(">iqi")


class OffsetFetchRequestTopic(MessageStruct):
    """OffsetFetchRequestTopic of Kafka."""

    __slots__ = ("name", "partition_indexes")
    name: str
    partition_indexes: list[int]

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW_LIST) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW_LIST else partition_indexes


class OffsetFetchRequestTopics(MessageStruct):
    """OffsetFetchRequestTopics of Kafka."""

    __slots__ = ("name", "topic_id", "partition_indexes")
    name: str
    topic_id: UUID | None
    partition_indexes: list[int]

    def __init__(
        self, name: str = "", topic_id: UUID | None = None, partition_indexes: list[int] = NEW_LIST
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_indexes = [] if partition_indexes is NEW_LIST else partition_indexes


class OffsetFetchRequestGroup(MessageStruct):
    """OffsetFetchRequestGroup of Kafka."""

    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    group_id: str
    member_id: str | None
    member_epoch: int
    topics: list[OffsetFetchRequestTopics] | None

    def __init__(
        self,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = NEW_LIST,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.topics = [] if topics is NEW_LIST else topics


class OffsetFetchRequest(MessageStruct):
    """OffsetFetchRequest of Kafka."""

    __slots__ = ("group_id", "topics", "groups", "require_stable")
    group_id: str
    topics: list[OffsetFetchRequestTopic] | None
    groups: list[OffsetFetchRequestGroup]
    require_stable: bool

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = NEW_LIST,
        groups: list[OffsetFetchRequestGroup] = NEW_LIST,
        require_stable: bool = False,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics
        self.groups = [] if groups is NEW_LIST else groups
        self.require_stable = require_stable


class OffsetFetchResponsePartition(MessageStruct):
    """OffsetFetchResponsePartition of Kafka."""

    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopic(MessageStruct):
    """OffsetFetchResponseTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[OffsetFetchResponsePartition]

    def __init__(
        self, name: str = "", partitions: list[OffsetFetchResponsePartition] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetFetchResponsePartitions(MessageStruct):
    """OffsetFetchResponsePartitions of Kafka."""

    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "metadata",
        "error_code",
    )
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    metadata: str | None
    error_code: int

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.metadata = metadata
        self.error_code = error_code


class OffsetFetchResponseTopics(MessageStruct):
    """OffsetFetchResponseTopics of Kafka."""

    __slots__ = ("name", "topic_id", "partitions")
    name: str
    topic_id: UUID | None
    partitions: list[OffsetFetchResponsePartitions]

    def __init__(
        self,
        name: str = "",
        topic_id: UUID | None = None,
        partitions: list[OffsetFetchResponsePartitions] = NEW_LIST,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetFetchResponseGroup(MessageStruct):
    """OffsetFetchResponseGroup of Kafka."""

    __slots__ = ("group_id", "topics", "error_code")
    group_id: str
    topics: list[OffsetFetchResponseTopics]
    error_code: int

    def __init__(
        self,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = NEW_LIST,
        error_code: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics
        self.error_code = error_code


class OffsetFetchResponse(MessageStruct):
    """OffsetFetchResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    throttle_time_ms: int
    topics: list[OffsetFetchResponseTopic]
    error_code: int
    groups: list[OffsetFetchResponseGroup]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = NEW_LIST,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics
        self.error_code = error_code
        self.groups = [] if groups is NEW_LIST else groups


def _read_offset_fetch_request_topic(reader: Reader, version: int) -> OffsetFetchRequestTopic:
    name = reader.string("name")
    partition_indexes = reader.numbers("partition_indexes", "i", 4)
    if version >= 6:
        reader.skip_tagged_fields()
    return OffsetFetchRequestTopic(name, partition_indexes)


def _read_offset_fetch_request_topics(reader: Reader, version: int) -> OffsetFetchRequestTopics:
    name: str = ""
    topic_id: UUID | None = None
    if version <= 9:
        name = reader.string("name")
    if version >= 10:
        topic_id = reader.topic_id("topic_id")
    partition_indexes = reader.numbers("partition_indexes", "i", 4)
    reader.skip_tagged_fields()
    return OffsetFetchRequestTopics(name, topic_id, partition_indexes)


def _read_offset_fetch_request_group(reader: Reader, version: int) -> OffsetFetchRequestGroup:
    member_id: str | None = None
    member_epoch: int = -1
    group_id = reader.string("group_id")
    if version >= 9:
        member_id = reader.nullable_string("member_id")
        (member_epoch,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics = (
        None
        if (count := reader.nullable_count("topics", 3)) < 0
        else [_read_offset_fetch_request_topics(reader, version) for _ in range(count)]
    )
    reader.skip_tagged_fields()
    return OffsetFetchRequestGroup(group_id, member_id, member_epoch, topics)


def _read_offset_fetch_request(reader: Reader, version: int) -> OffsetFetchRequest:
    group_id: str = ""
    topics: list[OffsetFetchRequestTopic] | None = []
    groups: list[OffsetFetchRequestGroup] = []
    require_stable: bool = False
    if version <= 7:
        group_id = reader.string("group_id")
        topics = (
            (
                None
                if (count := reader.nullable_count("topics", 3)) < 0
                else [_read_offset_fetch_request_topic(reader, version) for _ in range(count)]
            )
            if version >= 2
            else [
                _read_offset_fetch_request_topic(reader, version)
                for _ in range(reader.count("topics", 3))
            ]
        )
    if version >= 8:
        for _ in range(reader.count("groups", 3)):
            groups.append(_read_offset_fetch_request_group(reader, version))
    if version >= 7:
        (require_stable,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    if version >= 6:
        reader.skip_tagged_fields()
    return OffsetFetchRequest(group_id, topics, groups, require_stable)


def _read_offset_fetch_response_partition(
    reader: Reader, version: int
) -> OffsetFetchResponsePartition:
    committed_leader_epoch: int = -1
    if version >= 5:
        partition_index, committed_offset, committed_leader_epoch = _IQI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    else:
        partition_index, committed_offset = _IQ.unpack_from(reader.frame, reader.position)
        reader.position += 12
    metadata = reader.nullable_string("metadata")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 6:
        reader.skip_tagged_fields()
    return OffsetFetchResponsePartition(
        partition_index, committed_offset, committed_leader_epoch, metadata, error_code
    )


def _read_offset_fetch_response_topic(reader: Reader, version: int) -> OffsetFetchResponseTopic:
    name = reader.string("name")
    partitions: list[OffsetFetchResponsePartition] = []
    for _ in range(reader.count("partitions", 16)):
        partitions.append(_read_offset_fetch_response_partition(reader, version))
    if version >= 6:
        reader.skip_tagged_fields()
    return OffsetFetchResponseTopic(name, partitions)


def _read_offset_fetch_response_partitions(
    reader: Reader, version: int
) -> OffsetFetchResponsePartitions:
    partition_index, committed_offset, committed_leader_epoch = _IQI.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 16
    metadata = reader.nullable_string("metadata")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    reader.skip_tagged_fields()
    return OffsetFetchResponsePartitions(
        partition_index, committed_offset, committed_leader_epoch, metadata, error_code
    )


def _read_offset_fetch_response_topics(reader: Reader, version: int) -> OffsetFetchResponseTopics:
    name: str = ""
    topic_id: UUID | None = None
    if version <= 9:
        name = reader.string("name")
    if version >= 10:
        topic_id = reader.topic_id("topic_id")
    partitions: list[OffsetFetchResponsePartitions] = []
    for _ in range(reader.count("partitions", 20)):
        partitions.append(_read_offset_fetch_response_partitions(reader, version))
    reader.skip_tagged_fields()
    return OffsetFetchResponseTopics(name, topic_id, partitions)


def _read_offset_fetch_response_group(reader: Reader, version: int) -> OffsetFetchResponseGroup:
    group_id = reader.string("group_id")
    topics: list[OffsetFetchResponseTopics] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_offset_fetch_response_topics(reader, version))
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    reader.skip_tagged_fields()
    return OffsetFetchResponseGroup(group_id, topics, error_code)


def _read_offset_fetch_response(reader: Reader, version: int) -> OffsetFetchResponse:
    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = []
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = []
    if version >= 3:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version <= 7:
        for _ in range(reader.count("topics", 3)):
            topics.append(_read_offset_fetch_response_topic(reader, version))
    if version >= 8:
        pass
    elif version >= 2:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    if version >= 8:
        for _ in range(reader.count("groups", 5)):
            groups.append(_read_offset_fetch_response_group(reader, version))
    if version >= 6:
        reader.skip_tagged_fields()
    return OffsetFetchResponse(throttle_time_ms, topics, error_code, groups)


def _write_offset_fetch_response_partition(
    out: Writer, data: OffsetFetchResponsePartition, version: int
) -> None:
    if version >= 5:
        out += _IQI.pack(data.partition_index, data.committed_offset, data.committed_leader_epoch)
    else:
        out += _IQ.pack(data.partition_index, data.committed_offset)
    out.nullable_string(data.metadata)
    out += _H.pack(data.error_code)
    if version >= 6:
        out.append(0)


def _write_offset_fetch_response_topic(
    out: Writer, data: OffsetFetchResponseTopic, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for offset_fetch_response_partition in data.partitions:
        _write_offset_fetch_response_partition(out, offset_fetch_response_partition, version)
    if version >= 6:
        out.append(0)


def _write_offset_fetch_response_partitions(
    out: Writer, data: OffsetFetchResponsePartitions, version: int
) -> None:
    out += _IQI.pack(data.partition_index, data.committed_offset, data.committed_leader_epoch)
    out.nullable_string(data.metadata)
    out += _H.pack(data.error_code)
    out.append(0)


def _write_offset_fetch_response_topics(
    out: Writer, data: OffsetFetchResponseTopics, version: int
) -> None:
    if version <= 9:
        out.string(data.name)
    if version >= 10:
        out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for offset_fetch_response_partitions in data.partitions:
        _write_offset_fetch_response_partitions(out, offset_fetch_response_partitions, version)
    out.append(0)


def _write_offset_fetch_response_group(
    out: Writer, data: OffsetFetchResponseGroup, version: int
) -> None:
    out.string(data.group_id)
    out.length(len(data.topics))
    for offset_fetch_response_topics in data.topics:
        _write_offset_fetch_response_topics(out, offset_fetch_response_topics, version)
    out += _H.pack(data.error_code)
    out.append(0)


def _write_offset_fetch_response(out: Writer, data: OffsetFetchResponse, version: int) -> None:
    if version >= 3:
        out += _I.pack(data.throttle_time_ms)
    if version <= 7:
        out.length(len(data.topics))
        for offset_fetch_response_topic in data.topics:
            _write_offset_fetch_response_topic(out, offset_fetch_response_topic, version)
    if version >= 8:
        pass
    elif version >= 2:
        out += _H.pack(data.error_code)
    if version >= 8:
        out.length(len(data.groups))
        for offset_fetch_response_group in data.groups:
            _write_offset_fetch_response_group(out, offset_fetch_response_group, version)
    if version >= 6:
        out.append(0)


def _error_response(request: OffsetFetchRequest, code: int) -> OffsetFetchResponse:
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=offset_fetch_request_topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=value, committed_offset=-1, error_code=code
                    )
                    for value in offset_fetch_request_topic.partition_indexes
                ],
            )
            for offset_fetch_request_topic in (request.topics or ())
        ],
        error_code=code,
        groups=[
            OffsetFetchResponseGroup(
                group_id=offset_fetch_request_group.group_id, topics=[], error_code=code
            )
            for offset_fetch_request_group in request.groups
        ],
    )


def _topics(request: OffsetFetchRequest) -> Iterator[NamedTopic]:
    for offset_fetch_request_topic in request.topics or ():
        yield NamedTopic(
            offset_fetch_request_topic.name, None, offset_fetch_request_topic.partition_indexes
        )
    for offset_fetch_request_group in request.groups:
        for offset_fetch_request_topics in offset_fetch_request_group.topics or ():
            yield NamedTopic(
                offset_fetch_request_topics.name,
                offset_fetch_request_topics.topic_id,
                offset_fetch_request_topics.partition_indexes,
            )


def _groups(request: OffsetFetchRequest) -> Iterable[str]:
    return [
        *([request.group_id] if request.group_id else []),
        *[offset_fetch_request_group.group_id for offset_fetch_request_group in request.groups],
    ]


OFFSET_FETCH_MESSAGES = ApiMessages(
    key=9,
    name="OffsetFetch",
    versions=(1, 10),
    flexible_since=6,
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    read_request=_read_offset_fetch_request,
    read_response=_read_offset_fetch_response,
    write_response=_write_offset_fetch_response,
    error_response=_error_response,
    fields={
        OffsetFetchRequestTopics: {"name": (8, 9), "topic_id": (10, 10)},
        OffsetFetchRequestGroup: {"member_id": (9, 10), "member_epoch": (9, 10)},
        OffsetFetchRequest: {
            "group_id": (1, 7),
            "topics": (1, 7),
            "groups": (8, 10),
            "require_stable": (7, 10),
        },
        OffsetFetchResponsePartition: {"committed_leader_epoch": (5, 7)},
        OffsetFetchResponseTopics: {"name": (8, 9), "topic_id": (10, 10)},
        OffsetFetchResponse: {
            "throttle_time_ms": (3, 10),
            "topics": (1, 7),
            "error_code": (2, 7),
            "groups": (8, 10),
        },
    },
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
