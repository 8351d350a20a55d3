"""OffsetCommit: commit offsets; those of unknown partitions are refused."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.api.unknown_partitions import (
    add_unknown_partitions,
    remove_unknown_partitions,
)
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = _Topic.OffsetCommitResponsePartition

#: The longest retention of a committed offset: practically for ever, and its expiration time still
#: fits into a record's 64 bits.
MAX_RETENTION_MS = 2**62


def offset_commit(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetCommit request; offsets of unknown partitions are refused."""
    unknown = remove_unknown_partitions(broker, request)
    request.retention_time_ms = min(request.retention_time_ms, MAX_RETENTION_MS)

    def reply(committed: Any) -> None:
        add_unknown_partitions(committed.topics, unknown, _Topic, _Partition)
        context.reply(committed)

    if request.topics or not unknown:
        broker.groups.commit_offsets(request, reply)
    else:
        reply(OffsetCommitResponse(topics=[], throttle_time_ms=0))


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
