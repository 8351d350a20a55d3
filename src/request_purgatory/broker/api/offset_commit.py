"""OffsetCommit: commit offsets; those of unknown partitions are refused."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.api.unknown_partitions import (
    RequestedPartitions,
    split_partitions,
    topic_results,
)
from request_purgatory.broker.groups.requests import CommitRequest, OffsetToCommit
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = _Topic.OffsetCommitResponsePartition

#: The longest retention of a committed offset: practically for ever, and its expiration time still
#: fits into a record's 64 bits.
MAX_RETENTION_MS = 2**62

#: The first version whose clients know GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 9


def offset_commit(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetCommit request; offsets of unknown partitions are refused."""
    requested = split_partitions(broker, request.topics)

    def reply(errors: tuple[ErrorCode, ...]) -> None:
        topics = topic_results(requested, errors, _Topic, _Partition)
        context.reply(OffsetCommitResponse(throttle_time_ms=0, topics=topics))

    if requested.known or not requested.unknown:
        broker.groups.commit_offsets(decode(request, requested, context.version), reply)
    else:
        reply(())


def decode(request: Any, requested: RequestedPartitions, version: int) -> CommitRequest:
    """Return what the coordinator gets of a request: the offsets of partitions that exist."""
    return CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        retention_ms=min(request.retention_time_ms, MAX_RETENTION_MS),
        knows_group_id_not_found=version >= GROUP_ID_NOT_FOUND_SINCE,
        offsets=tuple(
            OffsetToCommit(
                topic,
                each.partition_index,
                each.committed_offset,
                each.committed_leader_epoch,
                each.committed_metadata or "",
            )
            for topic, partitions in requested.known
            for each in partitions
        ),
    )


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every partition."""
    return OffsetCommitResponse(
        topics=[
            _Topic(
                name=topic.name,
                partitions=[
                    _Partition(partition_index=partition.partition_index, error_code=int(code))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


API = ServedApi(
    key=8,
    name="OffsetCommit",
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    min_version=2,
    max_version=9,
    handle=offset_commit,
    error_response=error_response,
)
