"""The messages of CreatePartitions.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IT = struct.Struct(">i?")


class CreatePartitionsAssignment(MessageStruct):
    """CreatePartitionsAssignment of Kafka."""

    __slots__ = ("broker_ids",)
    broker_ids: list[int]

    def __init__(self, broker_ids: list[int] = NEW_LIST) -> None:
        self.broker_ids = [] if broker_ids is NEW_LIST else broker_ids


class CreatePartitionsTopic(MessageStruct):
    """CreatePartitionsTopic of Kafka."""

    __slots__ = ("name", "count", "assignments")
    name: str
    count: int
    assignments: list[CreatePartitionsAssignment] | None

    def __init__(
        self,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = NEW_LIST,
    ) -> None:
        self.name = name
        self.count = count
        self.assignments = [] if assignments is NEW_LIST else assignments


class CreatePartitionsRequest(MessageStruct):
    """CreatePartitionsRequest of Kafka."""

    __slots__ = ("topics", "timeout_ms", "validate_only")
    topics: list[CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool

    def __init__(
        self,
        topics: list[CreatePartitionsTopic] = NEW_LIST,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW_LIST else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatePartitionsTopicResult(MessageStruct):
    """CreatePartitionsTopicResult of Kafka."""

    __slots__ = ("name", "error_code", "error_message")
    name: str
    error_code: int
    error_message: str | None

    def __init__(
        self, name: str = "", error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.name = name
        self.error_code = error_code
        self.error_message = error_message


class CreatePartitionsResponse(MessageStruct):
    """CreatePartitionsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "results")
    throttle_time_ms: int
    results: list[CreatePartitionsTopicResult]

    def __init__(
        self, throttle_time_ms: int = 0, results: list[CreatePartitionsTopicResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW_LIST else results


def _read_create_partitions_assignment(reader: Reader, version: int) -> CreatePartitionsAssignment:
    broker_ids = reader.numbers("broker_ids", "i", 4)
    if version >= 2:
        reader.skip_tagged_fields()
    return CreatePartitionsAssignment(broker_ids)


def _read_create_partitions_topic(reader: Reader, version: int) -> CreatePartitionsTopic:
    name = reader.string("name")
    (count_,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    assignments = (
        None
        if (count := reader.nullable_count("assignments", 2)) < 0
        else [_read_create_partitions_assignment(reader, version) for _ in range(count)]
    )
    if version >= 2:
        reader.skip_tagged_fields()
    return CreatePartitionsTopic(name, count_, assignments)


def _read_create_partitions_request(reader: Reader, version: int) -> CreatePartitionsRequest:
    topics: list[CreatePartitionsTopic] = []
    for _ in range(reader.count("topics", 7)):
        topics.append(_read_create_partitions_topic(reader, version))
    timeout_ms, validate_only = _IT.unpack_from(reader.frame, reader.position)
    reader.position += 5
    if version >= 2:
        reader.skip_tagged_fields()
    return CreatePartitionsRequest(topics, timeout_ms, validate_only)


def _read_create_partitions_topic_result(
    reader: Reader, version: int
) -> CreatePartitionsTopicResult:
    name = reader.string("name")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    if version >= 2:
        reader.skip_tagged_fields()
    return CreatePartitionsTopicResult(name, error_code, error_message)


def _read_create_partitions_response(reader: Reader, version: int) -> CreatePartitionsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    results: list[CreatePartitionsTopicResult] = []
    for _ in range(reader.count("results", 5)):
        results.append(_read_create_partitions_topic_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return CreatePartitionsResponse(throttle_time_ms, results)


def _write_create_partitions_topic_result(
    out: Writer, data: CreatePartitionsTopicResult, version: int
) -> None:
    out.string(data.name)
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    if version >= 2:
        out.append(0)


def _write_create_partitions_response(
    out: Writer, data: CreatePartitionsResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.results))
    for create_partitions_topic_result in data.results:
        _write_create_partitions_topic_result(out, create_partitions_topic_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: CreatePartitionsRequest, code: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=create_partitions_topic.name, error_code=code)
            for create_partitions_topic in request.topics
        ]
    )


def _topics(request: CreatePartitionsRequest) -> Iterator[NamedTopic]:
    for create_partitions_topic in request.topics:
        yield NamedTopic(create_partitions_topic.name, None)


CREATE_PARTITIONS_MESSAGES = ApiMessages(
    key=37,
    name="CreatePartitions",
    versions=(0, 3),
    flexible_since=2,
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    read_request=_read_create_partitions_request,
    read_response=_read_create_partitions_response,
    write_response=_write_create_partitions_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
)
