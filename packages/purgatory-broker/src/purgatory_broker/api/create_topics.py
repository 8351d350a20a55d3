"""CreateTopics: create topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.partition_limits import (
    MAX_PARTITIONS_PER_REQUEST,
    TOO_MANY,
    TOO_MANY_PER_REQUEST,
    available_partitions,
)
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.controller_error import ControllerError
from purgatory_broker.metadata.topic_configs import TOPIC_CONFIGS, ConfigSource, topic_value
from purgatory_broker.metadata.topics import Topic
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message

_Created = CreateTopicsResponse.CreatableTopicResult
_CreatedConfig = _Created.CreatableTopicConfigs


@dataclass(frozen=True, slots=True)
class _NewTopic:
    """A topic to create.

    Attributes:
        num_partitions: The number of its partitions; -1 for the default.
        replication_factor: The number of their replicas; -1 for the default.
        assignments: Instead, the number of each partition and the nodes of its replicas.
    """

    name: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, tuple[int, ...]], ...]
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to create topics, or only to check whether they can be created."""

    topics: tuple[_NewTopic, ...]
    validate_only: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            _NewTopic(
                topic.name,
                topic.num_partitions,
                topic.replication_factor,
                tuple((one.partition_index, tuple(one.broker_ids)) for one in topic.assignments),
                {config.name: config.value for config in topic.configs},
            )
            for topic in message.topics
        ),
        message.validate_only,
    )


def _create_topics(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    """Handle a CreateTopics request; an error of one topic does not affect the others."""
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    counts = Counter(topic.name for topic in request.topics)
    requested = {topic.name: topic for topic in request.topics}
    if _is_excessive(broker, request.topics):
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
        elif _num_partitions(broker, requested[name]) > available:
            results.append(_refused(name, ErrorCode.POLICY_VIOLATION, TOO_MANY))
        else:
            created = _create(broker, requested[name], validate_only=request.validate_only)
            available -= max(created.num_partitions, 0)
            results.append(created)
    context.reply(CreateTopicsResponse(topics=results))


def _num_partitions(broker: BrokerApi, topic: _NewTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == -1:
        return broker.settings.num_partitions
    return max(topic.num_partitions, 0)


def _is_excessive(broker: BrokerApi, topics: Iterable[_NewTopic]) -> bool:
    return sum(_num_partitions(broker, topic) for topic in topics) > MAX_PARTITIONS_PER_REQUEST


def _create(broker: BrokerApi, requested: _NewTopic, *, validate_only: bool) -> Any:
    assignment: dict[int, list[int]] = {}
    for index, nodes in requested.assignments:
        if index in assignment:
            message = f"Found multiple manual partition assignments for partition {index}"
            return _refused(requested.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assignment[index] = list(nodes)
    try:
        topic = broker.controller.topic_changes.create(
            requested.name,
            partitions=requested.num_partitions,
            replication_factor=requested.replication_factor,
            assignment=assignment,
            configs=requested.configs,
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


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return CreateTopicsResponse(
        topics=[
            _Created(name=topic.name, error_code=int(code), error_message=None, configs=[])
            for topic in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(topics=(topic.name for topic in request.topics))


API = ServedApi(
    key=19,
    name="CreateTopics",
    request=CreateTopicsRequest,
    response=CreateTopicsResponse,
    min_version=2,
    max_version=7,
    decode=_decode,
    handle=_create_topics,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC}),
)
