"""The messages of DeleteTopics.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_H = struct.Struct(">h")
_I = struct.Struct(">i")


class DeleteTopicState(MessageStruct):
    """DeleteTopicState of Kafka."""

    __slots__ = ("name", "topic_id")
    name: str | None
    topic_id: UUID | None

    def __init__(self, name: str | None = None, topic_id: UUID | None = None) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(MessageStruct):
    """DeleteTopicsRequest of Kafka."""

    __slots__ = ("topics", "topic_names", "timeout_ms")
    topics: list[DeleteTopicState]
    topic_names: list[str]
    timeout_ms: int

    def __init__(
        self,
        topics: list[DeleteTopicState] = NEW_LIST,
        topic_names: list[str] = NEW_LIST,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is NEW_LIST else topics
        self.topic_names = [] if topic_names is NEW_LIST else topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(MessageStruct):
    """DeletableTopicResult of Kafka."""

    __slots__ = ("name", "topic_id", "error_code", "error_message")
    name: str | None
    topic_id: UUID | None
    error_code: int
    error_message: str | None

    def __init__(
        self,
        name: str | None = "",
        topic_id: UUID | None = None,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(MessageStruct):
    """DeleteTopicsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "responses")
    throttle_time_ms: int
    responses: list[DeletableTopicResult]

    def __init__(
        self, throttle_time_ms: int = 0, responses: list[DeletableTopicResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is NEW_LIST else responses


def _read_delete_topic_state(reader: Reader, version: int) -> DeleteTopicState:
    name = reader.nullable_string("name")
    topic_id = reader.topic_id("topic_id")
    reader.skip_tagged_fields()
    return DeleteTopicState(name, topic_id)


def _read_delete_topics_request(reader: Reader, version: int) -> DeleteTopicsRequest:
    topics: list[DeleteTopicState] = []
    topic_names: list[str] = []
    if version >= 6:
        for _ in range(reader.count("topics", 18)):
            topics.append(_read_delete_topic_state(reader, version))
    if version <= 5:
        topic_names = reader.strings("topic_names")
    (timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    if version >= 4:
        reader.skip_tagged_fields()
    return DeleteTopicsRequest(topics, topic_names, timeout_ms)


def _read_deletable_topic_result(reader: Reader, version: int) -> DeletableTopicResult:
    topic_id: UUID | None = None
    error_message: str | None = None
    name = (reader.nullable_string("name")) if version >= 6 else reader.string("name")
    if version >= 6:
        topic_id = reader.topic_id("topic_id")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 5:
        error_message = reader.nullable_string("error_message")
    if version >= 4:
        reader.skip_tagged_fields()
    return DeletableTopicResult(name, topic_id, error_code, error_message)


def _read_delete_topics_response(reader: Reader, version: int) -> DeleteTopicsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    responses: list[DeletableTopicResult] = []
    for _ in range(reader.count("responses", 4)):
        responses.append(_read_deletable_topic_result(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return DeleteTopicsResponse(throttle_time_ms, responses)


def _write_deletable_topic_result(out: Writer, data: DeletableTopicResult, version: int) -> None:
    if version >= 6:
        out.nullable_string(data.name)
    else:
        out.string(not_null(data.name, "name"))
    if version >= 6:
        out.topic_id(data.topic_id)
    out += _H.pack(data.error_code)
    if version >= 5:
        out.nullable_string(data.error_message)
    if version >= 4:
        out.append(0)


def _write_delete_topics_response(out: Writer, data: DeleteTopicsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.responses))
    for deletable_topic_result in data.responses:
        _write_deletable_topic_result(out, deletable_topic_result, version)
    if version >= 4:
        out.append(0)


def _error_response(request: DeleteTopicsRequest, code: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            *(
                DeletableTopicResult(
                    name=delete_topic_state.name,
                    topic_id=delete_topic_state.topic_id,
                    error_code=code,
                )
                for delete_topic_state in request.topics
            ),
            *(DeletableTopicResult(name=value, error_code=code) for value in request.topic_names),
        ]
    )


def _topics(request: DeleteTopicsRequest) -> Iterator[NamedTopic]:
    for delete_topic_state in request.topics:
        yield NamedTopic(delete_topic_state.name, delete_topic_state.topic_id)
    for name in request.topic_names:
        yield NamedTopic(name, None)


DELETE_TOPICS_MESSAGES = ApiMessages(
    key=20,
    name="DeleteTopics",
    versions=(1, 6),
    flexible_since=4,
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    read_request=_read_delete_topics_request,
    read_response=_read_delete_topics_response,
    write_response=_write_delete_topics_response,
    error_response=_error_response,
    fields={
        DeleteTopicsRequest: {"topics": (6, 6), "topic_names": (1, 5)},
        DeletableTopicResult: {"topic_id": (6, 6), "error_message": (5, 6)},
    },
    topics=_topics,
)
