"""The handlers of CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from collections import Counter
from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.partition_limits import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY,
    TOO_MANY_PER_REQUEST,
    available_partitions,
    is_excessive,
    requested_partitions,
)
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    ConfigSource,
    topic_value,
)
from request_purgatory.broker.metadata.topics import Topic
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.error_response import error_response
from request_purgatory.broker.wire.limits import truncate_message

_Created = apis.CREATE_TOPICS.response.CreatableTopicResult
_CreatedConfig = _Created.CreatableTopicConfigs
_Deleted = apis.DELETE_TOPICS.response.DeletableTopicResult
_Grown = apis.CREATE_PARTITIONS.response.CreatePartitionsTopicResult

#: The first version of DeleteTopics with topic ids (KIP-516).
DELETE_TOPICS_ID_SINCE = 6


def create_topics(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a CreateTopics request; an error of one topic does not affect the others."""
    if _reply_if_disconnected(node, context, request):
        return
    counts = Counter(topic.name for topic in request.topics)
    requested = {topic.name: topic for topic in request.topics}
    if is_excessive(node, request.topics):
        results = [
            _refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY_PER_REQUEST) for name in counts
        ]
        context.reply(apis.CREATE_TOPICS.response(topics=results))
        return
    results = []
    available = available_partitions(node)
    for name, count in counts.items():
        if count > 1:
            results.append(_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif requested_partitions(node, requested[name]) > available:
            results.append(_refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY))
        else:
            created = _create(node, requested[name], validate_only=bool(request.validate_only))
            available -= max(created.num_partitions, 0)
            results.append(created)
    context.reply(apis.CREATE_TOPICS.response(topics=results))


def _reply_if_disconnected(node: BrokerApi, context: RequestContext, request: Any) -> bool:
    """Return whether the node can't reach the controller, and has replied with an error."""
    if node.reaches_controller:
        return False
    context.reply(error_response(context.header.api, request, ErrorCode.REQUEST_TIMED_OUT))
    return True


def _create(node: BrokerApi, requested: Any, *, validate_only: bool) -> Any:
    """Create a topic.

    Returns:
        The topic's result for the response.
    """
    assignment: dict[int, list[int]] = {}
    for partition in requested.assignments:
        index = partition.partition_index
        if index in assignment:
            message = f"Found multiple manual partition assignments for partition {index}"
            return _refused(requested.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assignment[index] = list(partition.broker_ids)
    try:
        topic = node.controller.create_topic(
            requested.name,
            partitions=requested.num_partitions,
            replication_factor=requested.replication_factor,
            assignment=assignment,
            configs={config.name: config.value for config in requested.configs},
            validate_only=validate_only,
        )
    except ControllerError as error:
        return _refused(requested.name, error.code, str(error))
    return _Created(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=0,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(node, topic),
    )


def _configs(node: BrokerApi, topic: Topic) -> list[Any]:
    return [
        _CreatedConfig(
            name=name,
            value=topic_value(name, topic.configs, node.settings),
            read_only=False,
            config_source=int(
                ConfigSource.DYNAMIC_TOPIC_CONFIG
                if name in topic.configs
                else ConfigSource.DEFAULT_CONFIG
            ),
            is_sensitive=False,
        )
        for name in TOPIC_CONFIGS
    ]


def _refused(name: str, code: ErrorCode, message: str | None) -> Any:
    return _Created(
        name=name,
        error_code=int(code),
        error_message=truncate_message(message),
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def delete_topics(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DeleteTopics request: delete topics by name or by id."""
    if _reply_if_disconnected(node, context, request):
        return
    if context.version >= DELETE_TOPICS_ID_SINCE:
        requested = [(topic.name, topic.topic_id) for topic in request.topics]
    else:
        requested = [(name, None) for name in request.topic_names]
    results = [_delete(node, name, topic_id) for name, topic_id in requested]
    context.reply(apis.DELETE_TOPICS.response(responses=results))


def _delete(node: BrokerApi, name: str | None, topic_id: Any) -> Any:
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

    controller = node.controller
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


def create_partitions(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a CreatePartitions request: add partitions to topics."""
    if _reply_if_disconnected(node, context, request):
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
        code, message = _grow(node, topic, validate_only=bool(request.validate_only))
        results.append(
            _Grown(name=topic.name, error_code=int(code), error_message=truncate_message(message))
        )
    context.reply(apis.CREATE_PARTITIONS.response(results=results))


def _grow(node: BrokerApi, requested: Any, *, validate_only: bool) -> tuple[ErrorCode, str | None]:
    """Add partitions to a topic.

    Returns:
        The error code and the message.
    """
    topic = node.metadata.topics.get(requested.name)
    added = 0 if topic is None else requested.count - len(topic.partitions)
    if added > MAX_PARTITIONS_PER_REQUEST:
        # Kafka's message.
        return ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    if added > 0 and added > available_partitions(node):
        return ErrorCode.POLICY_VIOLATION, TOO_MANY
    assignments = None
    if requested.assignments is not None:
        assignments = [list(partition.broker_ids) for partition in requested.assignments]
    try:
        node.controller.create_partitions(
            requested.name, requested.count, assignments, validate_only=validate_only
        )
    except ControllerError as error:
        return error.code, str(error)
    return ErrorCode.NONE, None
