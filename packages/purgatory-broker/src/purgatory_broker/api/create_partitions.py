"""CreatePartitions: add partitions to topics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import CreatePartitionsRequest, CreatePartitionsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.partition_limits import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY,
    available_partitions,
)
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Grown = CreatePartitionsResponse.CreatePartitionsTopicResult


@dataclass(frozen=True, slots=True)
class _TopicGrowth:
    """The partitions that a topic is to have.

    Attributes:
        assignments: The nodes of each added partition's replicas; None assigns them by default.
    """

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to add partitions, or only to check whether they can be added."""

    topics: tuple[_TopicGrowth, ...]
    validate_only: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            _TopicGrowth(
                topic.name,
                topic.count,
                None
                if topic.assignments is None
                else tuple(tuple(partition.broker_ids) for partition in topic.assignments),
            )
            for topic in message.topics
        ),
        message.validate_only,
    )


def _create_partitions(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _Grown(
            name=name,
            error_code=int(ErrorCode.INVALID_REQUEST),
            error_message="Duplicate topic name.",
        )
        for name, count in counts.items()
        if count > 1
    ]
    for topic in request.topics:
        if counts[topic.name] > 1:
            continue
        code, message = _grow(broker, topic, validate_only=request.validate_only)
        results.append(
            _Grown(name=topic.name, error_code=int(code), error_message=truncate_message(message))
        )
    context.reply(CreatePartitionsResponse(results=results))


def _grow(
    broker: BrokerApi, requested: _TopicGrowth, *, validate_only: bool
) -> tuple[ErrorCode, str | None]:
    topic = broker.metadata.topics.get(requested.name)
    added = 0 if topic is None else requested.count - len(topic.partitions)
    if added > MAX_PARTITIONS_PER_REQUEST:
        # Kafka's message.
        return ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    if added > 0 and added > available_partitions(broker):
        return ErrorCode.POLICY_VIOLATION, TOO_MANY
    assignments = None
    if requested.assignments is not None:
        assignments = [list(nodes) for nodes in requested.assignments]
    try:
        broker.controller.topic_changes.add_partitions(
            requested.name, requested.count, assignments, validate_only=validate_only
        )
    except ControllerError as error:
        return error.code, str(error)
    return ErrorCode.NONE, None


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return CreatePartitionsResponse(
        results=[
            _Grown(name=topic.name, error_code=int(code), error_message=None)
            for topic in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(topics=(topic.name for topic in request.topics))


API = ServedApi(
    key=37,
    name="CreatePartitions",
    request=CreatePartitionsRequest,
    response=CreatePartitionsResponse,
    min_version=0,
    max_version=3,
    decode=_decode,
    handle=_create_partitions,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC}),
)
