"""CreateTopics, CreatePartitions and DeleteTopics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.create_partitions import (
    CREATE_PARTITIONS_MESSAGES,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from purgatory_broker._wire.protocol.create_topics import (
    CREATE_TOPICS_MESSAGES,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from purgatory_broker._wire.protocol.delete_topics import (
    DELETE_TOPICS_MESSAGES,
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
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


def _create_topics(
    broker: BrokerApi, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    # An error of one topic does not affect the others.
    counts = Counter(topic.name for topic in request.topics)
    requested = {topic.name: topic for topic in request.topics}
    creatable: Container[str] = requested
    if not is_allowed(broker, context, AclOperation.CREATE, AclResource.CLUSTER):
        creatable = allowed_topics(broker, context, AclOperation.CREATE, requested)
    shown = allowed_topics(broker, context, AclOperation.DESCRIBE_CONFIGS, requested)
    num_partitions = sum(
        _num_partitions(broker, topic) for topic in request.topics if topic.name in creatable
    )
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
        elif name not in creatable:
            results.append(_not_created(name, DENIED[AclResource.TOPIC], "Authorization failed."))
        elif _num_partitions(broker, requested[name]) > available:
            results.append(_not_created(name, ErrorCode.POLICY_VIOLATION, TOO_MANY))
        else:
            created = _create(broker, requested[name], validate_only=request.validate_only)
            available -= max(created.num_partitions, 0)
            if name not in shown:
                created.configs = []
                created.topic_config_error_code = DENIED[AclResource.TOPIC]
                created.num_partitions = created.replication_factor = -1
            results.append(created)
    return CreateTopicsResponse(topics=results)


def _num_partitions(broker: BrokerApi, topic: CreatableTopic) -> int:
    if topic.assignments:
        return len(topic.assignments)
    if topic.num_partitions == -1:
        return broker.settings.num_partitions
    return max(topic.num_partitions, 0)


def _create(
    broker: BrokerApi, requested: CreatableTopic, *, validate_only: bool
) -> CreatableTopicResult:
    assignment: dict[int, list[int]] = {}
    for assigned in requested.assignments:
        index = assigned.partition_index
        if index in assignment:
            message = f"Found multiple manual partition assignments for partition {index}"
            return _not_created(requested.name, ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        assignment[index] = list(assigned.broker_ids)
    try:
        topic = broker.controller.topic_changes.create(
            requested.name,
            partitions=requested.num_partitions,
            replication_factor=requested.replication_factor,
            assignment=assignment,
            configs={config.name: config.value for config in requested.configs},
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


def _configs(broker: BrokerApi, topic: Topic) -> list[CreatableTopicConfigs]:
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


def _not_created(name: str, code: ErrorCode, message: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=truncate_message(message))


CREATE_TOPICS = ServedApi(
    messages=CREATE_TOPICS_MESSAGES,
    versions=(2, 7),
    needs_controller=True,
    answer=_create_topics,
)


def _create_partitions(
    broker: BrokerApi, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    counts = Counter(topic.name for topic in request.topics)
    results = [
        _grown(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    allowed = allowed_topics(broker, context, AclOperation.ALTER, counts)
    results += [
        _grown(topic.name, *_grow(broker, topic, validate_only=request.validate_only))
        if topic.name in allowed
        else _grown(topic.name, DENIED[AclResource.TOPIC], None)
        for topic in request.topics
        if counts[topic.name] == 1
    ]
    return CreatePartitionsResponse(results=results)


def _grown(name: str, code: ErrorCode, message: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(
        name=name, error_code=code, error_message=truncate_message(message)
    )


def _grow(
    broker: BrokerApi, requested: CreatePartitionsTopic, *, validate_only: bool
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
        assignments = [list(added.broker_ids) for added in requested.assignments]
    try:
        broker.controller.topic_changes.add_partitions(
            requested.name, requested.count, assignments, validate_only=validate_only
        )
    except ControllerError as error:
        return error.code, str(error)
    return ErrorCode.NONE, None


CREATE_PARTITIONS = ServedApi(
    messages=CREATE_PARTITIONS_MESSAGES,
    versions=(0, 3),
    needs_controller=True,
    answer=_create_partitions,
)


def _delete_topics(
    broker: BrokerApi, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    results = [_delete(broker, context, topic.name, topic.topic_id) for topic in request.topics]
    # Versions without topic ids have a list of names instead.
    results += [_delete(broker, context, name, None) for name in request.topic_names]
    return DeleteTopicsResponse(responses=results)


def _delete(
    broker: BrokerApi, context: RequestContext, name: str | None, topic_id: UUID | None
) -> DeletableTopicResult:
    def result(code: ErrorCode, message: str | None) -> DeletableTopicResult:
        return DeletableTopicResult(
            name=name,
            topic_id=topic_id,
            error_code=code,
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
    may_describe, may_delete = _may_delete(broker, context, name)
    if not (may_delete if topic is not None else may_describe):
        if topic_id is not None and not may_describe:
            name = None
        return result(DENIED[AclResource.TOPIC], None)
    try:
        controller.topic_changes.delete(name)
    except ControllerError as error:
        return result(error.code, str(error))
    topic_id = topic.topic_id if topic is not None else None
    return result(ErrorCode.NONE, None)


def _may_delete(broker: BrokerApi, context: RequestContext, name: str) -> tuple[bool, bool]:
    """Return whether the client may learn whether a topic exists, and whether it may delete it."""
    if is_allowed(broker, context, AclOperation.DELETE, AclResource.CLUSTER):
        return True, True
    return (
        is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.TOPIC, name),
        is_allowed(broker, context, AclOperation.DELETE, AclResource.TOPIC, name),
    )


DELETE_TOPICS = ServedApi(
    messages=DELETE_TOPICS_MESSAGES,
    versions=(1, 6),
    needs_controller=True,
    answer=_delete_topics,
)
