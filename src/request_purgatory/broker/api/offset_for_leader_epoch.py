"""OffsetForLeaderEpoch: find where an epoch ends, by which clients detect a truncated log."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.leader_replica import leader_replica
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.replica import ReplicaError
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_EpochTopic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_EpochEnd = _EpochTopic.EpochEndOffset


def offset_for_leader_epoch(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetForLeaderEpoch request, by which clients detect a truncated log."""
    topics = []
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            result = _EpochEnd(
                partition=partition.partition, error_code=0, leader_epoch=-1, end_offset=-1
            )
            key = TopicPartition(topic.topic, partition.partition)
            try:
                log = leader_replica(broker, key, partition.current_leader_epoch).log
                found = log.end_offset_for_epoch(partition.leader_epoch)
                result.leader_epoch, result.end_offset = found
            except ReplicaError as error:
                result.error_code = int(error.code)
            results.append(result)
        topics.append(_EpochTopic(topic=topic.topic, partitions=results))
    context.reply(OffsetForLeaderEpochResponse(topics=topics))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            _EpochTopic(
                topic=topic.topic,
                partitions=[
                    _EpochEnd(partition=partition.partition, error_code=int(code))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = ServedApi(
    key=23,
    name="OffsetForLeaderEpoch",
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    min_version=2,
    max_version=4,
    handle=offset_for_leader_epoch,
    error_response=error_response,
)
