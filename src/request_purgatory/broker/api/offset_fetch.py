"""OffsetFetch: read committed offsets."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = _Topic.OffsetFetchResponsePartition
_Group = OffsetFetchResponse.OffsetFetchResponseGroup

#: The first versions with a top-level error code in the response, and for several groups at a time.
ERROR_CODE_SINCE = 2
BATCHED_SINCE = 8
#: In a request of up to this number of groups, a group that is named twice has two results, as in
#: Kafka.
MAX_GROUPS_WITH_REPEATS = 10


def offset_fetch(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetFetch request."""
    is_batched = context.version >= BATCHED_SINCE
    if is_batched and len(request.groups) > MAX_GROUPS_WITH_REPEATS:
        # Each group once: a small request that repeats a group would have a huge response.
        groups: dict[str, Any] = {}
        for group in request.groups:
            groups.setdefault(group.group_id, group)
        request.groups = list(groups.values())
    context.reply(broker.groups.fetch_offsets(request))


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error, in old versions for every partition."""
    topics = []
    if request.version < ERROR_CODE_SINCE:
        topics = [
            _Topic(
                name=topic.name,
                partitions=[
                    _Partition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=int(code),
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or []
        ]
    groups = [
        _Group(group_id=group.group_id, topics=[], error_code=int(code))
        for group in request.groups or []
    ]
    return OffsetFetchResponse(topics=topics, error_code=int(code), groups=groups)


API = ServedApi(
    key=9,
    name="OffsetFetch",
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    min_version=1,
    max_version=9,
    handle=offset_fetch,
    error_response=error_response,
)
