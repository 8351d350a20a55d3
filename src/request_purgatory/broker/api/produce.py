"""Produce and InitProducerId."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_produce import ProducedPartition
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode
from request_purgatory.broker.wire.error_response import error_response

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

_Response = apis.PRODUCE.response
_Topic = _Response.TopicProduceResponse
_Partition = _Topic.PartitionProduceResponse
_RecordFault = _Partition.BatchIndexAndErrorMessage
_Leader = _Partition.LeaderIdAndEpoch
_Endpoint = _Response.NodeEndpoint

#: From this version on a refusal says who the leader is.
_TELLS_LEADER = 10
#: From this version on topics go by their ids.
_USES_IDS = 13


def produce(node: Node, context: RequestContext, request: Any) -> None:
    """Append, and answer when `acks` says so."""
    if request.acks not in (-1, 0, 1):
        context.reply(error_response(apis.PRODUCE, request, ErrorCode.INVALID_REQUIRED_ACKS))
        return
    # A partition that is there twice is as in Kafka: what is said last is done.
    refused: dict[TopicPartition, ProducedPartition] = {}
    wanted: dict[TopicPartition, Any] = {}
    size = 0
    by_id = context.version >= _USES_IDS
    ids: dict[str, Any] = {}
    for topic in request.topic_data:
        # A topic that nobody knows has no name, and its id in its place.
        name = node.names.get(topic.topic_id, str(topic.topic_id)) if by_id else topic.name
        ids[name] = topic.topic_id
        for each in topic.partition_data:
            key = TopicPartition(name, each.index)
            fault = _fault(node, key, by_id=by_id)
            if fault is not None:
                refused[key] = ProducedPartition(key, fault)
                continue
            records = each.records
            size += 0 if records is None else len(records)
            wanted[key] = records
    context.throttle_ms = node.producer_quota.throttle_ms(
        context.client.client_id, size, node.now_ms()
    )

    def reply(produced: list[ProducedPartition]) -> None:
        _reply(node, context, request, ids, [*produced, *refused.values()])

    context.operation = node.replicas.append(
        request.acks, request.timeout_ms, list(wanted.items()), reply
    )


def _fault(node: Node, key: TopicPartition, *, by_id: bool) -> ErrorCode | None:
    topic = node.topics.get(key.topic)
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if topic is None or not 0 <= key.partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None


def _reply(
    node: Node,
    context: RequestContext,
    request: Any,
    ids: dict[str, Any],
    produced: list[ProducedPartition],
) -> None:
    if request.acks == 0:
        if any(each.error is not ErrorCode.NONE for each in produced):
            # As in Kafka: the only way to tell a client that expects no answer that it should look
            # for the leader again.
            context.end_connection("a Produce request with acks=0 failed")
        context.reply(None)
        return
    topics: dict[str, list[Any]] = {}
    leaders = set()
    for each in produced:
        partition = _Partition(
            index=each.key.partition,
            error_code=int(each.error),
            base_offset=each.base_offset if each.error is ErrorCode.NONE else -1,
            log_append_time_ms=each.log_append_time_ms if each.error is ErrorCode.NONE else -1,
            log_start_offset=each.log_start_offset,
            record_errors=[
                _RecordFault(batch_index=index, batch_index_error_message=message)
                for index, message in each.faults
            ],
            error_message=each.message,
        )
        if each.error is ErrorCode.NOT_LEADER_OR_FOLLOWER and context.version >= _TELLS_LEADER:
            leader, epoch = node.leader_of(each.key)
            partition.current_leader = _Leader(leader_id=leader, leader_epoch=epoch)
            leaders.add(leader)
        topics.setdefault(each.key.topic, []).append(partition)
    context.reply(
        _Response(
            responses=[
                _Topic(name=name, topic_id=ids[name], partition_responses=partitions)
                for name, partitions in topics.items()
            ],
            throttle_time_ms=context.throttle_ms,
            node_endpoints=[_Endpoint(**endpoint) for endpoint in node.endpoints(leaders)],
        )
    )


def init_producer_id(node: Node, context: RequestContext, request: Any) -> None:
    """An id for an idempotent producer, or the next epoch of the one it has."""
    response = apis.INIT_PRODUCER_ID.response
    if request.transactional_id is not None:
        # There are no transactions here, and so nobody who coordinates them.
        code = (
            ErrorCode.INVALID_REQUEST
            if request.transactional_id == ""
            else ErrorCode.COORDINATOR_NOT_AVAILABLE
        )
        context.reply(error_response(apis.INIT_PRODUCER_ID, request, code))
        return
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        context.reply(error_response(apis.INIT_PRODUCER_ID, request, ErrorCode.INVALID_REQUEST))
        return
    # Without a transactional id Kafka gives out a new id whatever the client had before.
    context.reply(
        response(
            error_code=0, producer_id=node.cluster.controller.new_producer_id(), producer_epoch=0
        )
    )
