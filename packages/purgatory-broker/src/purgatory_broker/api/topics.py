"""CreateTopics, CreatePartitions and DeleteTopics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.create_partitions import (
    CREATE_PARTITIONS_MESSAGES,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from purgatory_broker._wire.protocol.create_topics import (
    CREATE_TOPICS_MESSAGES,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from purgatory_broker._wire.protocol.delete_topics import (
    DELETE_TOPICS_MESSAGES,
    DeletableTopicResult,
    DeleteTopicsResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, Subjects
from purgatory_broker.metadata.topic_configs import TOPIC_CONFIGS, ConfigSource, topic_value
from purgatory_broker.metadata.topics import ControllerError, Topic
from purgatory_broker.request_context import RequestContext
from purgatory_broker.setting_values import MAX_NEW_PARTITIONS

#: All partitions of a CreateTopics request, and those that CreatePartitions adds to a topic.
MAX_PARTITIONS_PER_REQUEST = MAX_NEW_PARTITIONS
#: The most partitions of a cluster; they take up 60 MB on each broker. Kafka has no such limit.
#: Topics that code and commands create are limited by `MAX_NEW_PARTITIONS` each.
MAX_PARTITIONS = 20_000
#: The most topics that one Metadata request creates. The client repeats the request until all its
#: topics exist.
MAX_TOPICS_PER_METADATA = 1_000

TOO_MANY_PER_REQUEST = "Excessively large number of partitions per request."
TOO_MANY = f"The cluster would have more than {MAX_PARTITIONS} partitions."


def available_partitions(broker: BrokerApi) -> int:
    """Return the number of partitions that clients may still create; below 0 if exceeded."""
    return MAX_PARTITIONS - sum(len(topic.partitions) for topic in broker.metadata.topics.values())


@dataclass(frozen=True, slots=True)
class _NewTopic:
    name: str
    #: The number of its partitions; -1 for the default.
    num_partitions: int
    #: The number of their replicas; -1 for the default.
    replication_factor: int
    #: Instead, the number of each partition and the nodes of its replicas.
    assignments: tuple[tuple[int, tuple[int, ...]], ...]
    configs: dict[str, str | None]


@dataclass(frozen=True, slots=True)
class _CreateTopics:
    topics: tuple[_NewTopic, ...]
    validate_only: bool


def _decode_create_topics(message: Any, context: RequestContext) -> _CreateTopics:
    return _CreateTopics(
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


def _create_topics(broker: BrokerApi, context: RequestContext, request: _CreateTopics) -> Any:
    # An error of one topic does not affect the others.
    counts = Counter(topic.name for topic in request.topics)
    requested = {topic.name: topic for topic in request.topics}
    num_partitions = sum(_num_partitions(broker, topic) for topic in request.topics)
    if num_partitions > MAX_PARTITIONS_PER_REQUEST:
        results = [
            _not_created(name, ErrorCode.POLICY_VIOLATION, TOO_MANY_PER_REQUEST) for name in counts
        ]
        return CreateTopicsResponse(topics=results)
    results = []
    available = available_partitions(broker)
    for name, count in counts.items():
        if count > 1:
            results.append(_not_created(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
        elif _num_partitions(broker, requested[name]) > available:
            results.append(_not_created(name, ErrorCode.POLICY_VIOLATION, TOO_MANY))
        else:
            created = _create(broker, requested[name], validate_only=request.validate_only)
            available -= max(created.num_partitions, 0)
            results.append(created)
    return CreateTopicsResponse(topics=results)


def _num_partitions(broker: BrokerApi, topic: _NewTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == -1:
        return broker.settings.num_partitions
    return max(topic.num_partitions, 0)


def _create(broker: BrokerApi, requested: _NewTopic, *, validate_only: bool) -> Any:
    assignment: dict[int, list[int]] = {}
    for index, nodes in requested.assignments:
        if index in assignment:
            message = f"Found multiple manual partition assignments for partition {index}"
            return _not_created(requested.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
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
        return _not_created(requested.name, error.code, str(error))
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(broker, topic),
    )


def _configs(broker: BrokerApi, topic: Topic) -> list[Any]:
    return [
        CreatableTopicConfigs(
            name=name,
            value=topic_value(name, topic.configs, broker.settings),
            config_source=int(
                ConfigSource.DYNAMIC_TOPIC_CONFIG
                if name in topic.configs
                else ConfigSource.DEFAULT_CONFIG
            ),
        )
        for name in TOPIC_CONFIGS
    ]


def _not_created(name: str, code: ErrorCode, message: str | None) -> Any:
    return CreatableTopicResult(
        name=name, error_code=int(code), error_message=truncate_message(message), configs=[]
    )


def _refuse_create_topics(request: _CreateTopics, code: ErrorCode) -> Any:
    return CreateTopicsResponse(
        topics=[_not_created(topic.name, code, None) for topic in request.topics]
    )


CREATE_TOPICS = ServedApi(
    messages=CREATE_TOPICS_MESSAGES,
    versions=(2, 7),
    needs_controller=True,
    decode=_decode_create_topics,
    answer=_create_topics,
    refuse=_refuse_create_topics,
    subjects=Subjects(topics=lambda _broker, request: (topic.name for topic in request.topics)),
)


@dataclass(frozen=True, slots=True)
class _TopicGrowth:
    name: str
    count: int
    #: The nodes of each added partition's replicas; None assigns them by default.
    assignments: tuple[tuple[int, ...], ...] | None


@dataclass(frozen=True, slots=True)
class _CreatePartitions:
    topics: tuple[_TopicGrowth, ...]
    validate_only: bool


def _decode_create_partitions(message: Any, context: RequestContext) -> _CreatePartitions:
    return _CreatePartitions(
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


def _create_partitions(
    broker: BrokerApi, context: RequestContext, request: _CreatePartitions
) -> Any:
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _grown(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    results += [
        _grown(topic.name, *_grow(broker, topic, validate_only=request.validate_only))
        for topic in request.topics
        if counts[topic.name] == 1
    ]
    return CreatePartitionsResponse(results=results)


def _grown(name: str, code: ErrorCode, message: str | None) -> Any:
    return CreatePartitionsTopicResult(
        name=name, error_code=int(code), error_message=truncate_message(message)
    )


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


def _refuse_create_partitions(request: _CreatePartitions, code: ErrorCode) -> Any:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=int(code))
            for topic in request.topics
        ]
    )


CREATE_PARTITIONS = ServedApi(
    messages=CREATE_PARTITIONS_MESSAGES,
    versions=(0, 3),
    needs_controller=True,
    decode=_decode_create_partitions,
    answer=_create_partitions,
    refuse=_refuse_create_partitions,
    subjects=Subjects(topics=lambda _broker, request: (topic.name for topic in request.topics)),
)


#: The first version with topic ids (KIP-516).
TOPIC_ID_SINCE = 6


@dataclass(frozen=True, slots=True)
class _TopicToDelete:
    """A topic to delete, named by its name or its id; the other one is None."""

    name: str | None
    topic_id: UUID | None


@dataclass(frozen=True, slots=True)
class _DeleteTopics:
    topics: tuple[_TopicToDelete, ...]


def _decode_delete_topics(message: Any, context: RequestContext) -> _DeleteTopics:
    if context.version >= TOPIC_ID_SINCE:
        return _DeleteTopics(
            tuple(_TopicToDelete(topic.name, topic.topic_id) for topic in message.topics)
        )
    return _DeleteTopics(tuple(_TopicToDelete(name, None) for name in message.topic_names))


def _delete_topics(broker: BrokerApi, context: RequestContext, request: _DeleteTopics) -> Any:
    results = [_delete(broker, topic.name, topic.topic_id) for topic in request.topics]
    return DeleteTopicsResponse(responses=results)


def _delete(broker: BrokerApi, name: str | None, topic_id: UUID | None) -> Any:
    def result(code: ErrorCode, message: str | None) -> Any:
        return DeletableTopicResult(
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


def _refuse_delete_topics(request: _DeleteTopics, code: ErrorCode) -> Any:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=int(code))
            for topic in request.topics
        ]
    )


DELETE_TOPICS = ServedApi(
    messages=DELETE_TOPICS_MESSAGES,
    versions=(1, 6),
    needs_controller=True,
    decode=_decode_delete_topics,
    answer=_delete_topics,
    refuse=_refuse_delete_topics,
    subjects=Subjects(
        topics=lambda broker, request: (
            topic.name or broker.metadata.topic_name(topic.topic_id) for topic in request.topics
        )
    ),
)
