"""OffsetDelete: delete committed offsets; those of unknown partitions are refused."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.api.unknown_partitions import (
    split_partitions,
    topic_results,
)
from request_purgatory.broker.groups.results import DeleteOffsetsResult
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = _Topic.OffsetDeleteResponsePartition


def offset_delete(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetDelete request; offsets of unknown partitions are refused."""
    requested = split_partitions(broker, request.topics)

    def reply(deleted: DeleteOffsetsResult) -> None:
        if deleted.error is not ErrorCode.NONE:
            context.reply(error_response(request, deleted.error))
            return
        topics = topic_results(requested, deleted.partitions, _Topic, _Partition)
        context.reply(OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=topics))

    known = [
        (topic, each.partition_index)
        for topic, partitions in requested.known
        for each in partitions
    ]
    broker.groups.delete_offsets(request.group_id, known, reply)


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error."""
    return OffsetDeleteResponse(error_code=int(code), topics=[])


API = ServedApi(
    key=47,
    name="OffsetDelete",
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    min_version=0,
    max_version=0,
    handle=offset_delete,
    error_response=error_response,
)
