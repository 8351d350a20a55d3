"""DeleteTopics: delete topics by name or by id."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteTopicsRequest, DeleteTopicsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import truncate_message

_Deleted = DeleteTopicsResponse.DeletableTopicResult

#: The first version with topic ids (KIP-516).
TOPIC_ID_SINCE = 6


def delete_topics(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DeleteTopics request: delete topics by name or by id."""
    if not broker.reaches_controller:
        context.reply(error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    if context.version >= TOPIC_ID_SINCE:
        requested = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        requested = [(name, None) for name in request.topic_names]
    results = [_delete(broker, name, topic_id) for name, topic_id in requested]
    context.reply(DeleteTopicsResponse(responses=results))


def _delete(broker: BrokerApi, name: str | None, topic_id: Any) -> Any:
    """Delete a topic.

    Returns:
        The topic's result for the response.
    """

    def result(code: ErrorCode, message: str | None) -> Any:
        return _Deleted(
            name=name,
            topic_id=topic_id,
            error_code=int(code),
            error_message=truncate_message(message),
        )

    controller = broker.controller
    by_id = topic_id is not None and topic_id.int != 0
    if name is not None and by_id:
        return result(
            ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id."
        )
    if name is None and not by_id:
        return result(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if name is None:
        found = controller.names.get(topic_id)
        if found is None:
            return result(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        name = found
    topic = controller.topics.get(name)
    try:
        controller.delete_topic(name)
    except ControllerError as error:
        return result(error.code, str(error))
    topic_id = topic.topic_id if topic is not None else None
    return result(ErrorCode.NONE, None)


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every topic."""
    found = [
        _Deleted(name=topic.name, topic_id=topic.topic_id, error_code=int(code))
        for topic in request.topics or []
    ]
    return DeleteTopicsResponse(
        responses=found
        + [_Deleted(name=name, error_code=int(code)) for name in request.topic_names or []]
    )


API = ServedApi(
    key=20,
    name="DeleteTopics",
    request=DeleteTopicsRequest,
    response=DeleteTopicsResponse,
    min_version=1,
    max_version=6,
    handle=delete_topics,
    error_response=error_response,
)
