"""The messages of ListPartitionReassignments.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class ListPartitionReassignmentsTopics(MessageStruct):
    """ListPartitionReassignmentsTopics of Kafka."""

    __slots__ = ("name", "partition_indexes")
    name: str
    partition_indexes: list[int]

    def __init__(self, name: str = "", partition_indexes: list[int] = NEW_LIST) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is NEW_LIST else partition_indexes


class ListPartitionReassignmentsRequest(MessageStruct):
    """ListPartitionReassignmentsRequest of Kafka."""

    __slots__ = ("timeout_ms", "topics")
    timeout_ms: int
    topics: list[ListPartitionReassignmentsTopics] | None

    def __init__(
        self, timeout_ms: int = 60000, topics: list[ListPartitionReassignmentsTopics] | None = None
    ) -> None:
        self.timeout_ms = timeout_ms
        self.topics = topics


class OngoingPartitionReassignment(MessageStruct):
    """OngoingPartitionReassignment of Kafka."""

    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    partition_index: int
    replicas: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]

    def __init__(
        self,
        partition_index: int = 0,
        replicas: list[int] = NEW_LIST,
        adding_replicas: list[int] = NEW_LIST,
        removing_replicas: list[int] = NEW_LIST,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = [] if replicas is NEW_LIST else replicas
        self.adding_replicas = [] if adding_replicas is NEW_LIST else adding_replicas
        self.removing_replicas = [] if removing_replicas is NEW_LIST else removing_replicas


class OngoingTopicReassignment(MessageStruct):
    """OngoingTopicReassignment of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[OngoingPartitionReassignment]

    def __init__(
        self, name: str = "", partitions: list[OngoingPartitionReassignment] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class ListPartitionReassignmentsResponse(MessageStruct):
    """ListPartitionReassignmentsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    topics: list[OngoingTopicReassignment]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is NEW_LIST else topics


def _read_list_partition_reassignments_topics(
    reader: Reader, version: int
) -> ListPartitionReassignmentsTopics:
    name = reader.string("name")
    partition_indexes = reader.numbers("partition_indexes", "i", 4)
    reader.skip_tagged_fields()
    return ListPartitionReassignmentsTopics(name, partition_indexes)


def _read_list_partition_reassignments_request(
    reader: Reader, version: int
) -> ListPartitionReassignmentsRequest:
    (timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics = (
        None
        if (count := reader.nullable_count("topics", 3)) < 0
        else [_read_list_partition_reassignments_topics(reader, version) for _ in range(count)]
    )
    reader.skip_tagged_fields()
    return ListPartitionReassignmentsRequest(timeout_ms, topics)


def _read_ongoing_partition_reassignment(
    reader: Reader, version: int
) -> OngoingPartitionReassignment:
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    replicas = reader.numbers("replicas", "i", 4)
    adding_replicas = reader.numbers("adding_replicas", "i", 4)
    removing_replicas = reader.numbers("removing_replicas", "i", 4)
    reader.skip_tagged_fields()
    return OngoingPartitionReassignment(
        partition_index, replicas, adding_replicas, removing_replicas
    )


def _read_ongoing_topic_reassignment(reader: Reader, version: int) -> OngoingTopicReassignment:
    name = reader.string("name")
    partitions: list[OngoingPartitionReassignment] = []
    for _ in range(reader.count("partitions", 8)):
        partitions.append(_read_ongoing_partition_reassignment(reader, version))
    reader.skip_tagged_fields()
    return OngoingTopicReassignment(name, partitions)


def _read_list_partition_reassignments_response(
    reader: Reader, version: int
) -> ListPartitionReassignmentsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    topics: list[OngoingTopicReassignment] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_ongoing_topic_reassignment(reader, version))
    reader.skip_tagged_fields()
    return ListPartitionReassignmentsResponse(throttle_time_ms, error_code, error_message, topics)


def _write_ongoing_partition_reassignment(
    out: Writer, data: OngoingPartitionReassignment, version: int
) -> None:
    out += _I.pack(data.partition_index)
    out.numbers(data.replicas, "i")
    out.numbers(data.adding_replicas, "i")
    out.numbers(data.removing_replicas, "i")
    out.append(0)


def _write_ongoing_topic_reassignment(
    out: Writer, data: OngoingTopicReassignment, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for ongoing_partition_reassignment in data.partitions:
        _write_ongoing_partition_reassignment(out, ongoing_partition_reassignment, version)
    out.append(0)


def _write_list_partition_reassignments_response(
    out: Writer, data: ListPartitionReassignmentsResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.topics))
    for ongoing_topic_reassignment in data.topics:
        _write_ongoing_topic_reassignment(out, ongoing_topic_reassignment, version)
    out.append(0)


def _error_response(
    request: ListPartitionReassignmentsRequest, code: int
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_code=code)


def _topics(request: ListPartitionReassignmentsRequest) -> Iterator[NamedTopic]:
    for list_partition_reassignments_topics in request.topics or ():
        yield NamedTopic(
            list_partition_reassignments_topics.name,
            None,
            list_partition_reassignments_topics.partition_indexes,
        )


LIST_PARTITION_REASSIGNMENTS_MESSAGES = ApiMessages(
    key=46,
    name="ListPartitionReassignments",
    versions=(0, 0),
    flexible_since=0,
    request=ListPartitionReassignmentsRequest,
    response=ListPartitionReassignmentsResponse,
    read_request=_read_list_partition_reassignments_request,
    read_response=_read_list_partition_reassignments_response,
    write_response=_write_list_partition_reassignments_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
