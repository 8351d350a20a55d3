"""DeleteTopics: delete topics by name or by id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Deleted = DeleteTopicsResponse.DeletableTopicResult

#: The first version with topic ids (KIP-516).
TOPIC_ID_SINCE = 6


@dataclass(frozen=True, slots=True)
class _DeletedTopic:
    """A topic to delete, named by its name or its id; the other one is None."""

    name: str | None
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class _Request:
    topics: tuple[_DeletedTopic, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    if context.version >= TOPIC_ID_SINCE:
        return _Request(
            tuple(_DeletedTopic(topic.name, topic.topic_id) for topic in message.topics)
        )
    return _Request(tuple(_DeletedTopic(name, None) for name in message.topic_names))


def _delete_topics(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    results = [_delete(broker, topic.name, topic.topic_id) for topic in request.topics]
    context.reply(DeleteTopicsResponse(responses=results))


def _delete(broker: BrokerApi, name: str | None, topic_id: UUID | None) -> Any:
    def result(code: ErrorCode, message: str | None) -> Any:
        return _Deleted(
            name=name,
            topic_id=topic_id,
            error_code=int(code),
            error_message=truncate_message(message),
        )

    controller = broker.controller
    if name is not None and topic_id is not None:
        return result(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if topic_id is not None:
        name = controller.names.get(topic_id)
        if name is None:
            return result(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if name is None:
        return result(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    topic = controller.topics.get(name)
    try:
        controller.topic_changes.delete(name)
    except ControllerError as error:
        return result(error.code, str(error))
    topic_id = topic.topic_id if topic is not None else None
    return result(ErrorCode.NONE, None)


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DeleteTopicsResponse(
        responses=[
            _Deleted(name=topic.name, topic_id=topic.topic_id, error_code=int(code))
            for topic in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        topics=(
            topic.name or broker.metadata.topic_name(topic.topic_id) for topic in request.topics
        )
    )


API = ServedApi(
    key=20,
    name="DeleteTopics",
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    min_version=1,
    max_version=6,
    decode=_decode,
    handle=_delete_topics,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC}),
)
