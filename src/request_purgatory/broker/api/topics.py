"""CreateTopics, DeleteTopics and CreatePartitions."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from request_purgatory.broker.api.partition_limits import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY,
    TOO_MANY_PER_REQUEST,
    asked_for,
    is_excessive,
    room,
)
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    ConfigSource,
    topic_value,
)
from request_purgatory.broker.metadata.topics import Topic
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.error_response import error_response
from request_purgatory.broker.wire.limits import told

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

_Created = apis.CREATE_TOPICS.response.CreatableTopicResult
_CreatedConfig = _Created.CreatableTopicConfigs
_Deleted = apis.DELETE_TOPICS.response.DeletableTopicResult
_Grown = apis.CREATE_PARTITIONS.response.CreatePartitionsTopicResult

#: From this version on DeleteTopics may name a topic by its id.
_DELETES_BY_ID = 6


def create_topics(node: Node, context: RequestContext, request: Any) -> None:
    """New topics, each by itself: what one is refused for does not touch the others."""
    if _is_away(node, context, request):
        return
    names = Counter(each.name for each in request.topics)
    asked = {each.name: each for each in request.topics}
    if is_excessive(node, request.topics):
        results = [
            _refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY_PER_REQUEST) for name in names
        ]
        context.reply(apis.CREATE_TOPICS.response(topics=results))
        return
    results = []
    left = room(node)
    for name, count in names.items():
        if count > 1:
            results.append(_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif asked_for(node, asked[name]) > left:
            results.append(_refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY))
        else:
            created = _create(node, asked[name], validate_only=bool(request.validate_only))
            left -= max(created.num_partitions, 0)
            results.append(created)
    context.reply(apis.CREATE_TOPICS.response(topics=results))


def _is_away(node: Node, context: RequestContext, request: Any) -> bool:
    """Answer for a node that can't reach the controller; True if it can't."""
    if node.reaches_controller:
        return False
    context.reply(error_response(context.header.api, request, ErrorCode.REQUEST_TIMED_OUT))
    return True


def _create(node: Node, asked: Any, *, validate_only: bool) -> Any:
    assignment: dict[int, list[int]] = {}
    for each in asked.assignments:
        if each.partition_index in assignment:
            message = (
                f"Found multiple manual partition assignments for partition {each.partition_index}"
            )
            return _refused(asked.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assignment[each.partition_index] = list(each.broker_ids)
    try:
        topic = node.cluster.controller.create_topic(
            asked.name,
            partitions=asked.num_partitions,
            replication_factor=asked.replication_factor,
            assignment=assignment,
            configs={each.name: each.value for each in asked.configs},
            validate_only=validate_only,
        )
    except ControllerError as error:
        return _refused(asked.name, error.code, str(error))
    return _Created(
        name=topic.name,
        topic_id=topic.topic_id,
        error_code=0,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(node, topic),
    )


def _configs(node: Node, topic: Topic) -> list[Any]:
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
        error_message=told(message),
        num_partitions=-1,
        replication_factor=-1,
        configs=[],
    )


def delete_topics(node: Node, context: RequestContext, request: Any) -> None:
    """Delete topics, by name or by id."""
    if _is_away(node, context, request):
        return
    if context.version >= _DELETES_BY_ID:
        asked = [(each.name, each.topic_id) for each in request.topics]
    else:
        asked = [(name, None) for name in request.topic_names]
    results = [_delete(node, name, topic_id) for name, topic_id in asked]
    context.reply(apis.DELETE_TOPICS.response(responses=results))


def _delete(node: Node, name: str | None, topic_id: Any) -> Any:
    controller = node.cluster.controller
    by_id = topic_id is not None and topic_id.int != 0
    if name is not None and by_id:
        message = "You may not specify both topic name and topic id."
        return _Deleted(
            name=name,
            topic_id=topic_id,
            error_code=int(ErrorCode.INVALID_REQUEST),
            error_message=message,
        )
    if name is None and not by_id:
        message = "Neither topic name nor id were specified."
        return _Deleted(name=None, error_code=int(ErrorCode.INVALID_REQUEST), error_message=message)
    if name is None:
        name = controller.names.get(topic_id)
        if name is None:
            message = "This server does not host this topic ID."
            return _Deleted(
                name=None,
                topic_id=topic_id,
                error_code=int(ErrorCode.UNKNOWN_TOPIC_ID),
                error_message=message,
            )
    topic = controller.topics.get(name)
    try:
        controller.delete_topic(name)
    except ControllerError as error:
        return _Deleted(
            name=name, topic_id=topic_id, error_code=int(error.code), error_message=told(str(error))
        )
    return _Deleted(
        name=name,
        topic_id=topic.topic_id if topic is not None else None,
        error_code=0,
        error_message=None,
    )


def create_partitions(node: Node, context: RequestContext, request: Any) -> None:
    """More partitions of topics."""
    if _is_away(node, context, request):
        return
    names = Counter(each.name for each in request.topics)
    results = [
        _Grown(
            name=name,
            error_code=int(ErrorCode.INVALID_REQUEST),
            error_message="Duplicate topic name.",
        )
        for name, count in names.items()
        if count > 1
    ]
    for each in request.topics:
        if names[each.name] > 1:
            continue
        code, message = _grow(node, each, validate_only=bool(request.validate_only))
        results.append(_Grown(name=each.name, error_code=int(code), error_message=told(message)))
    context.reply(apis.CREATE_PARTITIONS.response(results=results))


def _grow(node: Node, asked: Any, *, validate_only: bool) -> tuple[ErrorCode, str | None]:
    topic = node.topics.get(asked.name)
    more = 0 if topic is None else asked.count - len(topic.partitions)
    if more > MAX_PARTITIONS_PER_REQUEST:
        # In Kafka's words.
        return ErrorCode.POLICY_VIOLATION, "Unable to perform excessively large batch operation."
    if more > 0 and more > room(node):
        return ErrorCode.POLICY_VIOLATION, TOO_MANY
    assignments = (
        None if asked.assignments is None else [list(one.broker_ids) for one in asked.assignments]
    )
    try:
        node.cluster.controller.create_partitions(
            asked.name, asked.count, assignments, validate_only=validate_only
        )
    except ControllerError as error:
        return error.code, str(error)
    return ErrorCode.NONE, None
