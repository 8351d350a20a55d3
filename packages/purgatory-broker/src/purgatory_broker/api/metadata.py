"""Metadata: describe topics and brokers, and create missing topics where this is allowed."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from uuid import UUID

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.metadata import (
    METADATA_MESSAGES,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from purgatory_broker.api.access import (
    DENIED,
    NOT_ASKED,
    allowed_topics,
    authorized_operations,
    is_allowed,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.api.topics import MAX_TOPICS_PER_METADATA, available_partitions
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import (
    INTERNAL_TOPICS,
    NO_LEADER,
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    ControllerError,
    Partition,
    Topic,
    topic_name_error,
)
from purgatory_broker.request_context import RequestContext

#: The first versions where an empty list of topics means none instead of all, with
#: `allow_auto_topic_creation`, and where topics may be named by their ids (KIP-516).
EMPTY_TOPICS_IS_NONE_SINCE = 1
AUTO_TOPIC_CREATION_FLAG_SINCE = 4
TOPIC_ID_SINCE = 12
#: Of the response as a whole (KIP-1102).
ERROR_CODE_SINCE = 13


def _metadata(
    broker: BrokerApi, context: RequestContext, request: MetadataRequest
) -> MetadataResponse:
    version = context.version
    wanted = request.topics
    if version < TOPIC_ID_SINCE and any(
        topic.name is None or topic.topic_id is not None for topic in wanted or ()
    ):
        # Two versions before have the fields already.
        return METADATA_MESSAGES.error_response(request, ErrorCode.INVALID_REQUEST)
    if not wanted and version < EMPTY_TOPICS_IS_NONE_SINCE:
        wanted = None
    if wanted is None:
        allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, broker.metadata.topics)
        topics = [
            _describe_topic(broker, topic)
            for topic in broker.metadata.topics.values()
            if topic.name in allowed
        ]
    else:
        may_create = version < AUTO_TOPIC_CREATION_FLAG_SINCE or request.allow_auto_topic_creation
        max_topics = len(broker.metadata.topics) + MAX_TOPICS_PER_METADATA
        described = [
            _find_topic(
                broker,
                context,
                name,
                topic_id,
                may_create=may_create and len(broker.metadata.topics) < max_topics,
            )
            for name, topic_id in dict.fromkeys((topic.name, topic.topic_id) for topic in wanted)
        ]
        # In Kafka's order: existing topics first.
        topics = sorted(described, key=lambda topic: topic.error_code != 0)
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code != DENIED[AclResource.TOPIC]:
                topic.topic_authorized_operations = authorized_operations(
                    broker, context, AclResource.TOPIC, topic.name or ""
                )
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = authorized_operations(broker, context, AclResource.CLUSTER)
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node.node_id, host=node.host, port=node.port)
            for node in broker.endpoints(broker.metadata.alive(), context.client.listener)
        ],
        cluster_id=broker.controller.cluster_id,
        controller_id=broker.controller.controller_id,
        topics=topics,
        cluster_authorized_operations=operations,
    )


def _find_topic(
    broker: BrokerApi,
    context: RequestContext,
    name: str | None,
    topic_id: UUID | None,
    *,
    may_create: bool,
) -> MetadataResponseTopic:
    if topic_id is not None:
        name = broker.metadata.topic_name(topic_id)
        if name is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id
            )

    def is_allowed_topic(operation: AclOperation) -> bool:
        return is_allowed(broker, context, operation, AclResource.TOPIC, name or "")

    if not is_allowed_topic(AclOperation.DESCRIBE):
        # The id is no secret, but neither tells the other.
        return MetadataResponseTopic(
            error_code=DENIED[AclResource.TOPIC],
            name=name if topic_id is None else None,
            topic_id=topic_id,
        )
    topic = broker.metadata.topics.get(name or "")
    if topic is not None:
        return _describe_topic(broker, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if may_create and (broker.settings.auto_create_topics_enable or name in INTERNAL_TOPICS):
        if not (
            is_allowed(broker, context, AclOperation.CREATE, AclResource.CLUSTER)
            or is_allowed_topic(AclOperation.CREATE)
        ):
            code = DENIED[AclResource.TOPIC]
        else:
            code = _create_topic(broker, name or "")
        if code is ErrorCode.NONE and broker.settings.auto_create_topics_at_once:
            return _describe_topic(broker, broker.metadata.topics[name or ""])
        if code is ErrorCode.NONE:
            # As in Kafka, the client finds the topic when it repeats the request.
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif topic_name_error(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return MetadataResponseTopic(error_code=code, name=name, is_internal=name in INTERNAL_TOPICS)


def _create_topic(broker: BrokerApi, name: str) -> ErrorCode:
    if not broker.reaches_controller:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if name == OFFSETS_TOPIC:
            broker.controller.topic_changes.create_offsets_topic()
        elif name == TRANSACTIONS_TOPIC:
            broker.controller.topic_changes.create_transactions_topic()
        elif name == SHARE_STATE_TOPIC:
            broker.controller.topic_changes.create_share_state_topic()
        elif available_partitions(broker) < broker.settings.num_partitions:
            return ErrorCode.POLICY_VIOLATION
        else:
            broker.controller.topic_changes.create(name)
    except ControllerError as error:
        return error.code
    return ErrorCode.NONE


def _describe_topic(broker: BrokerApi, topic: Topic) -> MetadataResponseTopic:
    alive = broker.metadata.alive()
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_describe_partition(partition, alive) for partition in topic.partitions],
    )


def _describe_partition(partition: Partition, alive: AbstractSet[int]) -> MetadataResponsePartition:
    has_leader = partition.leader != NO_LEADER
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[replica for replica in partition.replicas if replica not in alive],
    )


METADATA = ServedApi(
    messages=METADATA_MESSAGES,
    versions=(0, 13),
    answer=_metadata,
    # Without a topic, the error response of earlier versions has no place for the error.
    tells_errors=lambda request, version: bool(request.topics) or version >= ERROR_CODE_SINCE,
)
