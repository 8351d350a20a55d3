"""ApiVersions, Metadata and DescribeCluster: what a client asks first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from request_purgatory.broker.api.partition_limits import MAX_TOPICS_PER_METADATA, room
from request_purgatory.broker.metadata.controller import ControllerError
from request_purgatory.broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    Partition,
    Topic,
    name_fault,
)
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

_Version = apis.API_VERSIONS.response.ApiVersion
_Broker = apis.METADATA.response.MetadataResponseBroker
_Topic = apis.METADATA.response.MetadataResponseTopic
_Partition = _Topic.MetadataResponsePartition
_ClusterBroker = apis.DESCRIBE_CLUSTER.response.DescribeClusterBroker

#: From this version on an empty list of topics means none; before it, all.
_EMPTY_IS_NONE = 1
_HAS_NO_CREATION_FLAG = 4
_HAS_IDS = 10
_NULL_NAMES = 12
_BROKERS = 1


def api_versions(node: Node, context: RequestContext, request: Any) -> None:
    """The APIs and their versions; to a version that is not known, in the words of the first."""
    code = ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION
    if request is not None and context.version >= 3:
        names = (request.client_software_name, request.client_software_version)
        if not all(_is_software_name(name) for name in names):
            context.reply(
                apis.API_VERSIONS.response(error_code=int(ErrorCode.INVALID_REQUEST), api_keys=[])
            )
            return
    served = apis.APIS.values() if code is ErrorCode.NONE else [apis.API_VERSIONS]
    keys = []
    for api in sorted(served, key=lambda api: api.key):
        least, greatest = apis.named_versions(api)
        keys.append(_Version(api_key=api.key, min_version=least, max_version=greatest))
    context.reply(apis.API_VERSIONS.response(error_code=int(code), api_keys=keys))


def _is_software_name(name: str) -> bool:
    return (
        bool(name)
        and name[0].isalnum()
        and name[-1].isalnum()
        and all(each.isalnum() or each in "-." for each in name)
    )


def metadata(node: Node, context: RequestContext, request: Any) -> None:
    """The nodes, and the topics that are asked for.

    Those that are not there are made, where that is allowed.
    """
    version = context.version
    asked = request.topics
    if asked is None or (version < _EMPTY_IS_NONE and not asked):
        topics = [_described(node, topic) for topic in node.topics.values()]
    else:
        may_create = version < _HAS_NO_CREATION_FLAG or request.allow_auto_topic_creation
        once = {(each.name, each.topic_id): each for each in asked}
        most = len(node.topics) + MAX_TOPICS_PER_METADATA
        looked_up = [
            _looked_up(node, context, each, may_create=may_create and len(node.topics) < most)
            for each in once.values()
        ]
        # As Kafka has them: those that are there first.
        topics = sorted(looked_up, key=lambda topic: topic.error_code != 0)
    brokers = [
        _Broker(node_id=each["node_id"], host=each["host"], port=each["port"], rack=None)
        for each in node.endpoints(node.visible_nodes())
    ]
    context.reply(
        apis.METADATA.response(
            brokers=brokers,
            cluster_id=node.cluster.controller.cluster_id,
            controller_id=node.cluster.controller.controller_id,
            topics=topics,
        )
    )


def _looked_up(node: Node, context: RequestContext, asked: Any, *, may_create: bool) -> Any:
    by_id = context.version >= _HAS_IDS and asked.topic_id is not None and asked.topic_id.int != 0
    if by_id:
        name = node.names.get(asked.topic_id)
        if name is None:
            null = None if context.version >= _NULL_NAMES else ""
            return _Topic(
                error_code=int(ErrorCode.UNKNOWN_TOPIC_ID),
                name=null,
                topic_id=asked.topic_id,
                partitions=[],
            )
    else:
        name = asked.name
    topic = node.topics.get(name)
    if topic is not None:
        return _described(node, topic)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if may_create and (node.settings.auto_create_topics_enable or name == OFFSETS_TOPIC):
        code = _create(node, name)
    elif name_fault(name) is not None:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
    return _Topic(error_code=int(code), name=name, is_internal=name == OFFSETS_TOPIC, partitions=[])


def _create(node: Node, name: str) -> ErrorCode:
    """Have a topic made.

    The client is told that there is none, as in Kafka, and finds it when it asks again.
    """
    if not node.reaches_controller:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        if name == OFFSETS_TOPIC:
            node.cluster.create_offsets_topic()
        elif room(node) < node.settings.num_partitions:
            return ErrorCode.POLICY_VIOLATION
        else:
            node.cluster.controller.create_topic(name)
    except ControllerError as error:
        return error.code
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described(node: Node, topic: Topic) -> Any:
    alive = node.visible_nodes()
    return _Topic(
        error_code=0,
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_described_partition(each, alive) for each in topic.partitions],
    )


def _described_partition(partition: Partition, alive: set[int]) -> Any:
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


def describe_cluster(node: Node, context: RequestContext, request: Any) -> None:
    """The nodes and the controller."""
    response = apis.DESCRIBE_CLUSTER.response
    if context.version >= 1 and request.endpoint_type != _BROKERS:
        known = request.endpoint_type == 2
        code = ErrorCode.UNSUPPORTED_VERSION if not known else ErrorCode.INVALID_REQUEST
        # Kafka's code for "mismatched endpoint type" and "unsupported endpoint type" are 114 and
        # 115.
        context.reply(
            response(
                error_code=114 if known else 115, error_message=code.name, cluster_id="", brokers=[]
            )
        )
        return
    context.reply(
        response(
            error_code=0,
            error_message=None,
            cluster_id=node.cluster.controller.cluster_id,
            controller_id=node.cluster.controller.controller_id,
            brokers=[
                _ClusterBroker(
                    broker_id=each["node_id"], host=each["host"], port=each["port"], rack=None
                )
                for each in node.endpoints(node.visible_nodes())
            ],
        )
    )
