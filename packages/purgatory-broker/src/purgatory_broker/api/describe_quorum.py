"""DescribeQuorum: describe the controllers, which Kafka keeps as a quorum."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeQuorumRequest, DescribeQuorumResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, request_subjects
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Topic = DescribeQuorumResponse.TopicData
_Partition = _Topic.PartitionData
_Node = DescribeQuorumResponse.Node

#: The partition of Kafka's metadata.
_METADATA = TopicPartition("__cluster_metadata", 0)
_LISTENER = "PLAINTEXT"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class _Request:
    topics: tuple[RequestedTopic, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            RequestedTopic(
                topic.topic_name, tuple(partition.partition_index for partition in topic.partitions)
            )
            for topic in message.topics
        )
    )


def _describe_quorum(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    """Handle a DescribeQuorum request; the one controller is shown as a quorum of all nodes."""
    if not broker.reaches_controller:
        context.reply(_error_response(request, ErrorCode.REQUEST_TIMED_OUT))
        return
    if request.topics != ((_METADATA.topic, (_METADATA.partition,)),):
        context.reply(_refusal(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        return
    controller = broker.controller
    end, now_ms = controller.change_count, broker.wall_ms()
    voters = [
        _Partition.ReplicaState(
            replica_id=node,
            replica_directory_id=uuid.UUID(int=0),
            log_end_offset=end if is_alive else _UNKNOWN,
            last_fetch_timestamp=now_ms if is_alive else _UNKNOWN,
            last_caught_up_timestamp=now_ms if is_alive else _UNKNOWN,
        )
        for node in range(broker.settings.nodes)
        for is_alive in (node in controller.alive,)
    ]
    context.reply(
        DescribeQuorumResponse(
            error_code=0,
            topics=[
                _Topic(
                    topic_name=_METADATA.topic,
                    partitions=[
                        _Partition(
                            partition_index=_METADATA.partition,
                            error_code=0,
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
                _Node(
                    node_id=node["node_id"],
                    listeners=[
                        _Node.Listener(name=_LISTENER, host=node["host"], port=node["port"])
                    ],
                )
                for node in broker.endpoints(controller.alive, context.client.listener)
            ],
        )
    )


def _refusal(request: _Request, code: ErrorCode) -> Any:
    return DescribeQuorumResponse(
        error_code=0,
        topics=[
            _Topic(
                topic_name=name,
                partitions=[
                    _Partition(partition_index=partition, error_code=int(code))
                    for partition in partitions
                ],
            )
            for name, partitions in request.topics
        ],
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DescribeQuorumResponse(error_code=int(code), topics=[], nodes=[])


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(partitions=request.topics)


API = ServedApi(
    key=55,
    name="DescribeQuorum",
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    min_version=0,
    max_version=2,
    decode=_decode,
    handle=_describe_quorum,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
