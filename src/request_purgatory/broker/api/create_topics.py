"""CreateTopics: create topics."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.partition_limits import (
    TOO_MANY,
    TOO_MANY_PER_REQUEST,
    available_partitions,
    is_excessive,
    requested_partitions,
)
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topic_configs import (
    TOPIC_CONFIGS,
    ConfigSource,
    topic_value,
)
from request_purgatory.broker.metadata.topics import Topic
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.limits import truncate_message

_Created = CreateTopicsResponse.CreatableTopicResult
_CreatedConfig = _Created.CreatableTopicConfigs


def create_topics(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a CreateTopics request; an error of one topic does not affect the others."""
    if not broker.reaches_controller:
        context.reply(error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    counts = Counter(topic.name for topic in request.topics)
    requested = {topic.name: topic for topic in request.topics}
    if is_excessive(broker, request.topics):
        results = [
            _refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY_PER_REQUEST) for name in counts
        ]
        context.reply(CreateTopicsResponse(topics=results))
        return
    results = []
    available = available_partitions(broker)
    for name, count in counts.items():
        if count > 1:
            results.append(_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif requested_partitions(broker, requested[name]) > available:
            results.append(_refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY))
        else:
            created = _create(broker, requested[name], validate_only=bool(request.validate_only))
            available -= max(created.num_partitions, 0)
            results.append(created)
    context.reply(CreateTopicsResponse(topics=results))


def _create(broker: BrokerApi, requested: Any, *, validate_only: bool) -> Any:
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
        topic = broker.controller.create_topic(
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
        configs=_configs(broker, topic),
    )


def _configs(broker: BrokerApi, topic: Topic) -> list[Any]:
    return [
        _CreatedConfig(
            name=name,
            value=topic_value(name, topic.configs, broker.settings),
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


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every topic."""
    return CreateTopicsResponse(
        topics=[
            _Created(name=topic.name, error_code=int(code), error_message=None, configs=[])
            for topic in request.topics
        ]
    )


API = ServedApi(
    key=19,
    name="CreateTopics",
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    min_version=2,
    max_version=7,
    handle=create_topics,
    error_response=error_response,
)
