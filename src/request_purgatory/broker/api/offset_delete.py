"""OffsetDelete: delete committed offsets; those of unknown partitions are refused."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.api.unknown_partitions import (
    add_unknown_partitions,
    remove_unknown_partitions,
)
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = _Topic.OffsetDeleteResponsePartition


def offset_delete(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetDelete request; offsets of unknown partitions are refused."""
    unknown = remove_unknown_partitions(broker, request)

    def reply(deleted: Any) -> None:
        if deleted.error_code == 0:
            add_unknown_partitions(deleted.topics, unknown, _Topic, _Partition)
        context.reply(deleted)

    broker.groups.delete_offsets(request, reply)


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
