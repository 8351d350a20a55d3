"""DescribeCluster and DescribeQuorum: the brokers, and which of them is the controller."""

from __future__ import annotations

import uuid

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.describe_cluster import (
    DESCRIBE_CLUSTER_MESSAGES,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from purgatory_broker._wire.protocol.describe_quorum import (
    DESCRIBE_QUORUM_MESSAGES,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from purgatory_broker.api.access import NOT_ASKED, authorized_operations
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext

#: The types of endpoints (KIP-919).
_BROKER_ENDPOINTS, _CONTROLLER_ENDPOINTS = 1, 2


def _describe_cluster(
    broker: BrokerApi, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    if request.endpoint_type != _BROKER_ENDPOINTS:
        # This listener is a broker's, not a controller's.
        code, cause = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_VERSION
        if request.endpoint_type == _CONTROLLER_ENDPOINTS:
            code, cause = ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.INVALID_REQUEST
        return DescribeClusterResponse(error_code=code, error_message=cause.name)
    operations = NOT_ASKED
    if request.include_cluster_authorized_operations:
        operations = authorized_operations(broker, context, AclResource.CLUSTER)
    return DescribeClusterResponse(
        cluster_id=broker.controller.cluster_id,
        controller_id=broker.controller.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node.node_id, host=node.host, port=node.port)
            for node in broker.endpoints(broker.metadata.alive(), context.client.listener)
        ],
        cluster_authorized_operations=operations,
    )


DESCRIBE_CLUSTER = ServedApi(
    messages=DESCRIBE_CLUSTER_MESSAGES, versions=(0, 2), answer=_describe_cluster
)


#: The partition of Kafka's metadata.
_METADATA = TopicPartition("__cluster_metadata", 0)
_LISTENER = "PLAINTEXT"
_UNKNOWN = -1


def _describe_quorum(
    broker: BrokerApi, context: RequestContext, request: DescribeQuorumRequest
) -> DescribeQuorumResponse:
    """Handle a DescribeQuorum request; the one controller is shown as a quorum of all nodes."""
    named = [
        (topic.topic_name, [partition.partition_index for partition in topic.partitions])
        for topic in request.topics
    ]
    if named != [(_METADATA.topic, [_METADATA.partition])]:
        return DescribeQuorumResponse(
            topics=[
                ResponseTopicData(
                    topic_name=name,
                    partitions=[
                        ResponsePartitionData(
                            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        )
                        for index in indexes
                    ],
                )
                for name, indexes in named
            ]
        )
    controller = broker.controller
    end, now_ms = controller.change_count, broker.wall_ms()
    voters = [
        ReplicaState(
            replica_id=node,
            replica_directory_id=uuid.UUID(int=0),
            log_end_offset=end if is_alive else _UNKNOWN,
            last_fetch_timestamp=now_ms if is_alive else _UNKNOWN,
            last_caught_up_timestamp=now_ms if is_alive else _UNKNOWN,
        )
        for node in range(broker.settings.nodes)
        for is_alive in (node in controller.alive,)
    ]
    metadata = ResponsePartitionData(
        partition_index=_METADATA.partition,
        leader_id=controller.controller_id,
        leader_epoch=controller.controller_epoch,
        high_watermark=end,
        current_voters=voters,
    )
    return DescribeQuorumResponse(
        topics=[ResponseTopicData(topic_name=_METADATA.topic, partitions=[metadata])],
        nodes=[
            Node(
                node_id=node.node_id,
                listeners=[Listener(name=_LISTENER, host=node.host, port=node.port)],
            )
            for node in broker.endpoints(controller.alive, context.client.listener)
        ],
    )


DESCRIBE_QUORUM = ServedApi(
    messages=DESCRIBE_QUORUM_MESSAGES,
    versions=(0, 2),
    requires={AclResource.CLUSTER: AclOperation.DESCRIBE},
    needs_controller=True,
    answer=_describe_quorum,
)
