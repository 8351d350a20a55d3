"""The messages of DescribeTopicPartitions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_T = struct.Struct(">?")
_H = struct.Struct(">h")
_HIII = struct.Struct(">hiii")
_I = struct.Struct(">i")


class TopicRequest(MessageStruct):
    """TopicRequest of Kafka."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str = "") -> None:
        self.name = name


class Cursor(MessageStruct):
    """Cursor of Kafka."""

    __slots__ = ("topic_name", "partition_index")
    topic_name: str
    partition_index: int

    def __init__(self, topic_name: str = "", partition_index: int = 0) -> None:
        self.topic_name = topic_name
        self.partition_index = partition_index


class DescribeTopicPartitionsRequest(MessageStruct):
    """DescribeTopicPartitionsRequest of Kafka."""

    __slots__ = ("topics", "response_partition_limit", "cursor")
    topics: list[TopicRequest]
    response_partition_limit: int
    cursor: Cursor | None

    def __init__(
        self,
        topics: list[TopicRequest] = NEW_LIST,
        response_partition_limit: int = 2000,
        cursor: Cursor | None = None,
    ) -> None:
        self.topics = [] if topics is NEW_LIST else topics
        self.response_partition_limit = response_partition_limit
        self.cursor = cursor


class DescribeTopicPartitionsResponsePartition(MessageStruct):
    """DescribeTopicPartitionsResponsePartition of Kafka."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    eligible_leader_replicas: list[int] | None
    last_known_elr: list[int] | None
    offline_replicas: list[int]

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW_LIST,
        isr_nodes: list[int] = NEW_LIST,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW_LIST else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW_LIST else isr_nodes
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr
        self.offline_replicas = [] if offline_replicas is NEW_LIST else offline_replicas


class DescribeTopicPartitionsResponseTopic(MessageStruct):
    """DescribeTopicPartitionsResponseTopic of Kafka."""

    __slots__ = (
        "error_code",
        "name",
        "topic_id",
        "is_internal",
        "partitions",
        "topic_authorized_operations",
    )
    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID | None = None,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = NEW_LIST,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW_LIST else partitions
        self.topic_authorized_operations = topic_authorized_operations


class DescribeTopicPartitionsResponse(MessageStruct):
    """DescribeTopicPartitionsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics", "next_cursor")
    throttle_time_ms: int
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None

    def __init__(
        self,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = NEW_LIST,
        next_cursor: Cursor | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics
        self.next_cursor = next_cursor


def _read_topic_request(reader: Reader, version: int) -> TopicRequest:
    name = reader.string("name")
    reader.skip_tagged_fields()
    return TopicRequest(name)


def _read_cursor(reader: Reader, version: int) -> Cursor:
    topic_name = reader.string("topic_name")
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return Cursor(topic_name, partition_index)


def _read_describe_topic_partitions_request(
    reader: Reader, version: int
) -> DescribeTopicPartitionsRequest:
    topics: list[TopicRequest] = []
    for _ in range(reader.count("topics", 2)):
        topics.append(_read_topic_request(reader, version))
    (response_partition_limit,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    cursor = _read_cursor(reader, version) if reader.is_present() else None
    reader.skip_tagged_fields()
    return DescribeTopicPartitionsRequest(topics, response_partition_limit, cursor)


def _read_describe_topic_partitions_response_partition(
    reader: Reader, version: int
) -> DescribeTopicPartitionsResponsePartition:
    error_code, partition_index, leader_id, leader_epoch = _HIII.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 14
    replica_nodes = reader.numbers("replica_nodes", "i", 4)
    isr_nodes = reader.numbers("isr_nodes", "i", 4)
    eligible_leader_replicas = reader.nullable_numbers("eligible_leader_replicas", "i", 4)
    last_known_elr = reader.nullable_numbers("last_known_elr", "i", 4)
    offline_replicas = reader.numbers("offline_replicas", "i", 4)
    reader.skip_tagged_fields()
    return DescribeTopicPartitionsResponsePartition(
        error_code,
        partition_index,
        leader_id,
        leader_epoch,
        replica_nodes,
        isr_nodes,
        eligible_leader_replicas,
        last_known_elr,
        offline_replicas,
    )


def _read_describe_topic_partitions_response_topic(
    reader: Reader, version: int
) -> DescribeTopicPartitionsResponseTopic:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    name = reader.nullable_string("name")
    topic_id = reader.topic_id("topic_id")
    (is_internal,) = _T.unpack_from(reader.frame, reader.position)
    reader.position += 1
    partitions: list[DescribeTopicPartitionsResponsePartition] = []
    for _ in range(reader.count("partitions", 20)):
        partitions.append(_read_describe_topic_partitions_response_partition(reader, version))
    (topic_authorized_operations,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return DescribeTopicPartitionsResponseTopic(
        error_code, name, topic_id, is_internal, partitions, topic_authorized_operations
    )


def _read_describe_topic_partitions_response(
    reader: Reader, version: int
) -> DescribeTopicPartitionsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    for _ in range(reader.count("topics", 26)):
        topics.append(_read_describe_topic_partitions_response_topic(reader, version))
    next_cursor = _read_cursor(reader, version) if reader.is_present() else None
    reader.skip_tagged_fields()
    return DescribeTopicPartitionsResponse(throttle_time_ms, topics, next_cursor)


def _write_describe_topic_partitions_response_partition(
    out: Writer, data: DescribeTopicPartitionsResponsePartition, version: int
) -> None:
    out += _HIII.pack(data.error_code, data.partition_index, data.leader_id, data.leader_epoch)
    out.numbers(data.replica_nodes, "i")
    out.numbers(data.isr_nodes, "i")
    if data.eligible_leader_replicas is None:
        out.length(-1)
    else:
        out.numbers(data.eligible_leader_replicas, "i")
    if data.last_known_elr is None:
        out.length(-1)
    else:
        out.numbers(data.last_known_elr, "i")
    out.numbers(data.offline_replicas, "i")
    out.append(0)


def _write_describe_topic_partitions_response_topic(
    out: Writer, data: DescribeTopicPartitionsResponseTopic, version: int
) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.name)
    out.topic_id(data.topic_id)
    out += _T.pack(data.is_internal)
    out.length(len(data.partitions))
    for describe_topic_partitions_response_partition in data.partitions:
        _write_describe_topic_partitions_response_partition(
            out, describe_topic_partitions_response_partition, version
        )
    out += _I.pack(data.topic_authorized_operations)
    out.append(0)


def _write_cursor(out: Writer, data: Cursor, version: int) -> None:
    out.string(data.topic_name)
    out += _I.pack(data.partition_index)
    out.append(0)


def _write_describe_topic_partitions_response(
    out: Writer, data: DescribeTopicPartitionsResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for describe_topic_partitions_response_topic in data.topics:
        _write_describe_topic_partitions_response_topic(
            out, describe_topic_partitions_response_topic, version
        )
    if data.next_cursor is None:
        out += b"\xff"
    else:
        out += b"\x01"
        _write_cursor(out, not_null(data.next_cursor, "next_cursor"), version)
    out.append(0)


def _error_response(
    request: DescribeTopicPartitionsRequest, code: int
) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=code, name=topic_request.name)
            for topic_request in request.topics
        ]
    )


def _topics(request: DescribeTopicPartitionsRequest) -> Iterator[NamedTopic]:
    for topic_request in request.topics:
        yield NamedTopic(topic_request.name, None)


DESCRIBE_TOPIC_PARTITIONS_MESSAGES = ApiMessages(
    key=75,
    name="DescribeTopicPartitions",
    versions=(0, 0),
    flexible_since=0,
    request=DescribeTopicPartitionsRequest,
    response=DescribeTopicPartitionsResponse,
    read_request=_read_describe_topic_partitions_request,
    read_response=_read_describe_topic_partitions_response,
    write_response=_write_describe_topic_partitions_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
)
