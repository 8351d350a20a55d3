"""DescribeCluster and DescribeQuorum: the brokers, and which of them is the controller."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.describe_cluster import (
    DESCRIBE_CLUSTER_MESSAGES,
    DescribeClusterBroker,
    DescribeClusterResponse,
)
from purgatory_broker._wire.protocol.describe_quorum import (
    DESCRIBE_QUORUM_MESSAGES,
    DescribeQuorumResponse,
    Listener,
    Node,
    ReplicaState,
    ResponsePartitionData,
    ResponseTopicData,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.metadata import NOT_ASKED, ON_THE_CLUSTER
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, Subjects
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext

#: The first version with an endpoint type, and the types (KIP-919).
ENDPOINT_TYPE_SINCE = 1
_BROKER_ENDPOINTS, _CONTROLLER_ENDPOINTS = 1, 2


@dataclass(frozen=True, slots=True)
class _DescribeCluster:
    endpoint_type: int
    include_authorized_operations: bool


def _decode_describe_cluster(message: Any, context: RequestContext) -> _DescribeCluster:
    has_type = context.version >= ENDPOINT_TYPE_SINCE
    return _DescribeCluster(
        message.endpoint_type if has_type else _BROKER_ENDPOINTS,
        message.include_cluster_authorized_operations,
    )


def _describe_cluster(broker: BrokerApi, context: RequestContext, request: _DescribeCluster) -> Any:
    if request.endpoint_type != _BROKER_ENDPOINTS:
        # This listener is a broker's, not a controller's.
        code, cause = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, ErrorCode.UNSUPPORTED_VERSION
        if request.endpoint_type == _CONTROLLER_ENDPOINTS:
            code, cause = ErrorCode.MISMATCHED_ENDPOINT_TYPE, ErrorCode.INVALID_REQUEST
        return DescribeClusterResponse(error_code=int(code), error_message=cause.name, brokers=[])
    return DescribeClusterResponse(
        cluster_id=broker.controller.cluster_id,
        controller_id=broker.controller.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=node["node_id"], host=node["host"], port=node["port"])
            for node in broker.endpoints(broker.metadata.alive(), context.client.listener)
        ],
        cluster_authorized_operations=(
            ON_THE_CLUSTER if request.include_authorized_operations else NOT_ASKED
        ),
    )


DESCRIBE_CLUSTER = ServedApi(
    messages=DESCRIBE_CLUSTER_MESSAGES,
    versions=(0, 2),
    decode=_decode_describe_cluster,
    answer=_describe_cluster,
)


#: The partition of Kafka's metadata.
_METADATA = TopicPartition("__cluster_metadata", 0)
_LISTENER = "PLAINTEXT"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class _DescribeQuorum:
    topics: tuple[RequestedTopic, ...]


def _decode_describe_quorum(message: Any, context: RequestContext) -> _DescribeQuorum:
    return _DescribeQuorum(
        tuple(
            RequestedTopic(
                topic.topic_name, tuple(partition.partition_index for partition in topic.partitions)
            )
            for topic in message.topics
        )
    )


def _describe_quorum(broker: BrokerApi, context: RequestContext, request: _DescribeQuorum) -> Any:
    """Handle a DescribeQuorum request; the one controller is shown as a quorum of all nodes."""
    if request.topics != ((_METADATA.topic, (_METADATA.partition,)),):
        return _refusal(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
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
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=_METADATA.topic,
                partitions=[
                    ResponsePartitionData(
                        partition_index=_METADATA.partition,
                        leader_id=controller.controller_id,
                        leader_epoch=controller.controller_epoch,
                        high_watermark=end,
                        current_voters=voters,
                        observers=[],
                    )
                ],
            )
        ],
        nodes=[
            Node(
                node_id=node["node_id"],
                listeners=[Listener(name=_LISTENER, host=node["host"], port=node["port"])],
            )
            for node in broker.endpoints(controller.alive, context.client.listener)
        ],
    )


def _refusal(request: _DescribeQuorum, code: ErrorCode) -> Any:
    return DescribeQuorumResponse(
        topics=[
            ResponseTopicData(
                topic_name=name,
                partitions=[
                    ResponsePartitionData(partition_index=partition, error_code=int(code))
                    for partition in partitions
                ],
            )
            for name, partitions in request.topics
        ]
    )


DESCRIBE_QUORUM = ServedApi(
    messages=DESCRIBE_QUORUM_MESSAGES,
    versions=(0, 2),
    needs_controller=True,
    decode=_decode_describe_quorum,
    answer=_describe_quorum,
    subjects=Subjects(partitions=lambda _broker, request: request.topics),
)
