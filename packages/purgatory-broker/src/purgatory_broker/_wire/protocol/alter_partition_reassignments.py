"""The messages of AlterPartitionReassignments.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IT = struct.Struct(">i?")
_ITH = struct.Struct(">i?h")
_IH = struct.Struct(">ih")


class ReassignablePartition(MessageStruct):
    """ReassignablePartition of Kafka."""

    __slots__ = ("partition_index", "replicas")
    partition_index: int
    replicas: list[int] | None

    def __init__(self, partition_index: int = 0, replicas: list[int] | None = None) -> None:
        self.partition_index = partition_index
        self.replicas = replicas


class ReassignableTopic(MessageStruct):
    """ReassignableTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[ReassignablePartition]

    def __init__(self, name: str = "", partitions: list[ReassignablePartition] = NEW_LIST) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class AlterPartitionReassignmentsRequest(MessageStruct):
    """AlterPartitionReassignmentsRequest of Kafka."""

    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")
    timeout_ms: int
    allow_replication_factor_change: bool
    topics: list[ReassignableTopic]

    def __init__(
        self,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = NEW_LIST,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is NEW_LIST else topics


class ReassignablePartitionResponse(MessageStruct):
    """ReassignablePartitionResponse of Kafka."""

    __slots__ = ("partition_index", "error_code", "error_message")
    partition_index: int
    error_code: int
    error_message: str | None

    def __init__(
        self, partition_index: int = 0, error_code: int = 0, error_message: str | None = ""
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message


class ReassignableTopicResponse(MessageStruct):
    """ReassignableTopicResponse of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[ReassignablePartitionResponse]

    def __init__(
        self, name: str = "", partitions: list[ReassignablePartitionResponse] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class AlterPartitionReassignmentsResponse(MessageStruct):
    """AlterPartitionReassignmentsResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "allow_replication_factor_change",
        "error_code",
        "error_message",
        "responses",
    )
    throttle_time_ms: int
    allow_replication_factor_change: bool
    error_code: int
    error_message: str | None
    responses: list[ReassignableTopicResponse]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW_LIST else responses


def _read_reassignable_partition(reader: Reader, version: int) -> ReassignablePartition:
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    replicas = reader.nullable_numbers("replicas", "i", 4)
    reader.skip_tagged_fields()
    return ReassignablePartition(partition_index, replicas)


def _read_reassignable_topic(reader: Reader, version: int) -> ReassignableTopic:
    name = reader.string("name")
    partitions: list[ReassignablePartition] = []
    for _ in range(reader.count("partitions", 6)):
        partitions.append(_read_reassignable_partition(reader, version))
    reader.skip_tagged_fields()
    return ReassignableTopic(name, partitions)


def _read_alter_partition_reassignments_request(
    reader: Reader, version: int
) -> AlterPartitionReassignmentsRequest:
    allow_replication_factor_change: bool = True
    if version >= 1:
        timeout_ms, allow_replication_factor_change = _IT.unpack_from(reader.frame, reader.position)
        reader.position += 5
    else:
        (timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics: list[ReassignableTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_reassignable_topic(reader, version))
    reader.skip_tagged_fields()
    return AlterPartitionReassignmentsRequest(timeout_ms, allow_replication_factor_change, topics)


def _read_reassignable_partition_response(
    reader: Reader, version: int
) -> ReassignablePartitionResponse:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return ReassignablePartitionResponse(partition_index, error_code, error_message)


def _read_reassignable_topic_response(reader: Reader, version: int) -> ReassignableTopicResponse:
    name = reader.string("name")
    partitions: list[ReassignablePartitionResponse] = []
    for _ in range(reader.count("partitions", 8)):
        partitions.append(_read_reassignable_partition_response(reader, version))
    reader.skip_tagged_fields()
    return ReassignableTopicResponse(name, partitions)


def _read_alter_partition_reassignments_response(
    reader: Reader, version: int
) -> AlterPartitionReassignmentsResponse:
    allow_replication_factor_change: bool = True
    if version >= 1:
        throttle_time_ms, allow_replication_factor_change, error_code = _ITH.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 7
    else:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    error_message = reader.nullable_string("error_message")
    responses: list[ReassignableTopicResponse] = []
    for _ in range(reader.count("responses", 3)):
        responses.append(_read_reassignable_topic_response(reader, version))
    reader.skip_tagged_fields()
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms, allow_replication_factor_change, error_code, error_message, responses
    )


def _write_reassignable_partition_response(
    out: Writer, data: ReassignablePartitionResponse, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_reassignable_topic_response(
    out: Writer, data: ReassignableTopicResponse, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for reassignable_partition_response in data.partitions:
        _write_reassignable_partition_response(out, reassignable_partition_response, version)
    out.append(0)


def _write_alter_partition_reassignments_response(
    out: Writer, data: AlterPartitionReassignmentsResponse, version: int
) -> None:
    if version >= 1:
        out += _ITH.pack(
            data.throttle_time_ms, data.allow_replication_factor_change, data.error_code
        )
    else:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.responses))
    for reassignable_topic_response in data.responses:
        _write_reassignable_topic_response(out, reassignable_topic_response, version)
    out.append(0)


def _error_response(
    request: AlterPartitionReassignmentsRequest, code: int
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        responses=[
            ReassignableTopicResponse(
                name=reassignable_topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=reassignable_partition.partition_index,
                        error_code=code,
                        error_message=None,
                    )
                    for reassignable_partition in reassignable_topic.partitions
                ],
            )
            for reassignable_topic in request.topics
        ],
    )


def _topics(request: AlterPartitionReassignmentsRequest) -> Iterator[NamedTopic]:
    for reassignable_topic in request.topics:
        yield NamedTopic(
            reassignable_topic.name,
            None,
            [partition.partition_index for partition in reassignable_topic.partitions],
        )


ALTER_PARTITION_REASSIGNMENTS_MESSAGES = ApiMessages(
    key=45,
    name="AlterPartitionReassignments",
    versions=(0, 1),
    flexible_since=0,
    request=AlterPartitionReassignmentsRequest,
    response=AlterPartitionReassignmentsResponse,
    read_request=_read_alter_partition_reassignments_request,
    read_response=_read_alter_partition_reassignments_response,
    write_response=_write_alter_partition_reassignments_response,
    error_response=_error_response,
    fields={
        AlterPartitionReassignmentsRequest: {"allow_replication_factor_change": (1, 1)},
        AlterPartitionReassignmentsResponse: {"allow_replication_factor_change": (1, 1)},
    },
    topics=_topics,
    names_partitions=True,
)
