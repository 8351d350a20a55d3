"""The messages of DeleteTopics.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from uuid import UUID

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_H = struct.Struct(">h")
_I = struct.Struct(">i")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteTopicState(MessageStruct):
    """DeleteTopicState of Kafka."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteTopicsRequest(MessageStruct):
    """DeleteTopicsRequest of Kafka."""

    topics: list[DeleteTopicState] = field(default_factory=list)
    topic_names: list[str] = field(default_factory=list)
    timeout_ms: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeletableTopicResult(MessageStruct):
    """DeletableTopicResult of Kafka."""

    name: str | None = ""
    topic_id: UUID | None = None
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteTopicsResponse(MessageStruct):
    """DeleteTopicsResponse of Kafka."""

    throttle_time_ms: int = 0
    responses: list[DeletableTopicResult] = field(default_factory=list)


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
