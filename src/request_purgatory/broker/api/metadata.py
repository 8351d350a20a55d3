"""The handlers of ApiVersions, Metadata and DescribeCluster."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.partition_limits import (
    MAX_TOPICS_PER_METADATA,
    available_partitions,
)
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    Partition,
    Topic,
    topic_name_error,
)
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode

_Version = apis.API_VERSIONS.response.ApiVersion
_Broker = apis.METADATA.response.MetadataResponseBroker
_Topic = apis.METADATA.response.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_ClusterBroker = apis.DESCRIBE_CLUSTER.response.DescribeClusterBroker

#: The first version of ApiVersions with the client software's name (KIP-511).
CLIENT_SOFTWARE_SINCE = 3
#: The first versions of Metadata where an empty list of topics means none instead of all, with
#: `allow_auto_topic_creation`, with topic ids (KIP-516), and where a topic's name may be null.
EMPTY_TOPICS_IS_NONE_SINCE = 1
AUTO_TOPIC_CREATION_FLAG_SINCE = 4
TOPIC_ID_SINCE = 10
NULL_TOPIC_NAME_SINCE = 12

#: The first version of DescribeCluster with an endpoint type, and the types (KIP-919).
ENDPOINT_TYPE_SINCE = 1
_BROKER_ENDPOINTS, _CONTROLLER_ENDPOINTS = 1, 2
#: Error codes that only DescribeCluster uses.
_MISMATCHED_ENDPOINT_TYPE, _UNSUPPORTED_ENDPOINT_TYPE = 114, 115


def api_versions(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an ApiVersions request.

    `request` is None for an unsupported version; the response then has only the supported versions
    of ApiVersions.
    """
    response = apis.API_VERSIONS.response
    if request is not None and context.version >= CLIENT_SOFTWARE_SINCE:
        names = (request.client_software_name, request.client_software_version)
        if not all(_is_software_name(name) for name in names):
            context.reply(response(error_code=int(ErrorCode.INVALID_REQUEST), api_keys=[]))
            return
    code = ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION
    advertised = apis.APIS.values() if request is not None else [apis.API_VERSIONS]
    keys = []
    for api in sorted(advertised, key=lambda api: api.key):
        min_version, max_version = apis.advertised_versions(api)
        keys.append(_Version(api_key=api.key, min_version=min_version, max_version=max_version))
    context.reply(response(error_code=int(code), api_keys=keys))


def _is_software_name(name: str) -> bool:
    """Return whether a client's software name or version is valid in Kafka."""
    return (
        bool(name)
        and name[0].isalnum()
        and name[-1].isalnum()
        and all(each.isalnum() or each in "-." for each in name)
    )


def metadata(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a Metadata request; missing topics are created where this is allowed."""
    version = context.version
    requested = request.topics
    if requested is None or (version < EMPTY_TOPICS_IS_NONE_SINCE and not requested):
        topics = [_describe_topic(node, topic) for topic in node.metadata.topics.values()]
    else:
        may_create = version < AUTO_TOPIC_CREATION_FLAG_SINCE or request.allow_auto_topic_creation
        unique = {(topic.name, topic.topic_id): topic for topic in requested}
        max_topics = len(node.metadata.topics) + MAX_TOPICS_PER_METADATA
        found = [
            _find_topic(
                node,
                context,
                topic,
                may_create=may_create and len(node.metadata.topics) < max_topics,
            )
            for topic in unique.values()
        ]
        # In Kafka's order: existing topics first.
        topics = sorted(found, key=lambda topic: topic.error_code != 0)
    brokers = [
        _Broker(node_id=each["node_id"], host=each["host"], port=each["port"], rack=None)
        for each in node.endpoints(node.metadata.alive())
    ]
    context.reply(
        apis.METADATA.response(
            brokers=brokers,
            cluster_id=node.controller.cluster_id,
            controller_id=node.controller.controller_id,
            topics=topics,
        )
    )


def _find_topic(
    node: BrokerApi, context: RequestContext, requested: Any, *, may_create: bool
) -> Any:
    """Return the response's topic for one that the request names, by name or by id."""
    topic_id = requested.topic_id
    if context.version >= TOPIC_ID_SINCE and topic_id is not None and topic_id.int != 0:
        name = node.metadata.names.get(topic_id)
        if name is None:
            return _Topic(
                error_code=int(ErrorCode.UNKNOWN_TOPIC_ID),
                name=None if context.version >= NULL_TOPIC_NAME_SINCE else "",
                topic_id=topic_id,
                partitions=[],
            )
    else:
        name = requested.name
    topic = node.metadata.topics.get(name)
    if topic is not None:
        return _describe_topic(node, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if may_create and (node.settings.auto_create_topics_enable or name == OFFSETS_TOPIC):
        code = _create_topic(node, name)
    elif topic_name_error(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _Topic(error_code=int(code), name=name, is_internal=name == OFFSETS_TOPIC, partitions=[])


def _create_topic(node: BrokerApi, name: str) -> ErrorCode:
    """Create a topic.

    Returns:
        The error of this response: UNKNOWN_TOPIC_OR_PARTITION even on success. As in Kafka, the
        client finds the topic when it repeats the request.
    """
    if not node.reaches_controller:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if name == OFFSETS_TOPIC:
            node.create_offsets_topic()
        elif available_partitions(node) < node.settings.num_partitions:
            return ErrorCode.POLICY_VIOLATION
        else:
            node.controller.create_topic(name)
    except ControllerError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _describe_topic(node: BrokerApi, topic: Topic) -> Any:
    alive = node.metadata.alive()
    return _Topic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_describe_partition(each, alive) for each in topic.partitions],
    )


def _describe_partition(partition: Partition, alive: AbstractSet[int]) -> Any:
    return _Partition(
        error_code=int(
            ErrorCode.LEADER_NOT_AVAILABLE if partition.leader == NO_LEADER else ErrorCode.NONE
        ),
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=[each for each in partition.replicas if each not in alive],
    )


def describe_cluster(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DescribeCluster request."""
    response = apis.DESCRIBE_CLUSTER.response
    if context.version >= ENDPOINT_TYPE_SINCE and request.endpoint_type != _BROKER_ENDPOINTS:
        # This listener is a broker's, not a controller's.
        is_known = request.endpoint_type == _CONTROLLER_ENDPOINTS
        name = ErrorCode.INVALID_REQUEST.name if is_known else ErrorCode.UNSUPPORTED_VERSION.name
        context.reply(
            response(
                error_code=_MISMATCHED_ENDPOINT_TYPE if is_known else _UNSUPPORTED_ENDPOINT_TYPE,
                error_message=name,
                cluster_id="",
                brokers=[],
            )
        )
        return
    context.reply(
        response(
            error_code=0,
            error_message=None,
            cluster_id=node.controller.cluster_id,
            controller_id=node.controller.controller_id,
            brokers=[
                _ClusterBroker(
                    broker_id=each["node_id"], host=each["host"], port=each["port"], rack=None
                )
                for each in node.endpoints(node.metadata.alive())
            ],
        )
    )
