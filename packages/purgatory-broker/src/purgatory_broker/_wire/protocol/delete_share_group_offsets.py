"""The messages of DeleteShareGroupOffsets.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_IH = struct.Struct(">ih")


class DeleteShareGroupOffsetsRequestTopic(MessageStruct):
    """DeleteShareGroupOffsetsRequestTopic of Kafka."""

    __slots__ = ("topic_name",)
    topic_name: str

    def __init__(self, topic_name: str = "") -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(MessageStruct):
    """DeleteShareGroupOffsetsRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[DeleteShareGroupOffsetsRequestTopic]

    def __init__(
        self, group_id: str = "", topics: list[DeleteShareGroupOffsetsRequestTopic] = NEW_LIST
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics


class DeleteShareGroupOffsetsResponseTopic(MessageStruct):
    """DeleteShareGroupOffsetsResponseTopic of Kafka."""

    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")
    topic_name: str
    topic_id: UUID | None
    error_code: int
    error_message: str | None

    def __init__(
        self,
        topic_name: str = "",
        topic_id: UUID | None = None,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(MessageStruct):
    """DeleteShareGroupOffsetsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    responses: list[DeleteShareGroupOffsetsResponseTopic]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is NEW_LIST else responses


def _read_delete_share_group_offsets_request_topic(
    reader: Reader, version: int
) -> DeleteShareGroupOffsetsRequestTopic:
    topic_name = reader.string("topic_name")
    reader.skip_tagged_fields()
    return DeleteShareGroupOffsetsRequestTopic(topic_name)


def _read_delete_share_group_offsets_request(
    reader: Reader, version: int
) -> DeleteShareGroupOffsetsRequest:
    group_id = reader.string("group_id")
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []
    for _ in range(reader.count("topics", 2)):
        topics.append(_read_delete_share_group_offsets_request_topic(reader, version))
    reader.skip_tagged_fields()
    return DeleteShareGroupOffsetsRequest(group_id, topics)


def _read_delete_share_group_offsets_response_topic(
    reader: Reader, version: int
) -> DeleteShareGroupOffsetsResponseTopic:
    topic_name = reader.string("topic_name")
    topic_id = reader.topic_id("topic_id")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return DeleteShareGroupOffsetsResponseTopic(topic_name, topic_id, error_code, error_message)


def _read_delete_share_group_offsets_response(
    reader: Reader, version: int
) -> DeleteShareGroupOffsetsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
    for _ in range(reader.count("responses", 21)):
        responses.append(_read_delete_share_group_offsets_response_topic(reader, version))
    reader.skip_tagged_fields()
    return DeleteShareGroupOffsetsResponse(throttle_time_ms, error_code, error_message, responses)


def _write_delete_share_group_offsets_response_topic(
    out: Writer, data: DeleteShareGroupOffsetsResponseTopic, version: int
) -> None:
    out.string(data.topic_name)
    out.topic_id(data.topic_id)
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_delete_share_group_offsets_response(
    out: Writer, data: DeleteShareGroupOffsetsResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.responses))
    for delete_share_group_offsets_response_topic in data.responses:
        _write_delete_share_group_offsets_response_topic(
            out, delete_share_group_offsets_response_topic, version
        )
    out.append(0)


def _error_response(
    request: DeleteShareGroupOffsetsRequest, code: int
) -> DeleteShareGroupOffsetsResponse:
    return DeleteShareGroupOffsetsResponse(
        error_code=code,
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=delete_share_group_offsets_request_topic.topic_name, error_code=code
            )
            for delete_share_group_offsets_request_topic in request.topics
        ],
    )


def _topics(request: DeleteShareGroupOffsetsRequest) -> Iterator[NamedTopic]:
    for delete_share_group_offsets_request_topic in request.topics:
        yield NamedTopic(delete_share_group_offsets_request_topic.topic_name, None)


def _groups(request: DeleteShareGroupOffsetsRequest) -> Iterable[str]:
    return [request.group_id]


DELETE_SHARE_GROUP_OFFSETS_MESSAGES = ApiMessages(
    key=92,
    name="DeleteShareGroupOffsets",
    versions=(0, 0),
    flexible_since=0,
    request=DeleteShareGroupOffsetsRequest,
    response=DeleteShareGroupOffsetsResponse,
    read_request=_read_delete_share_group_offsets_request,
    read_response=_read_delete_share_group_offsets_response,
    write_response=_write_delete_share_group_offsets_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    groups=_groups,
)
