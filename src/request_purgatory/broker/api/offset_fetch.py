"""OffsetFetch: read committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.served_api import ServedApi
from request_purgatory.broker.groups.records import OffsetValue
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire.error_code import ErrorCode

_Topic = OffsetFetchResponse.OffsetFetchResponseTopic
_Partition = _Topic.OffsetFetchResponsePartition
_Group = OffsetFetchResponse.OffsetFetchResponseGroup
_GroupTopic = _Group.OffsetFetchResponseTopics
_GroupPartition = _GroupTopic.OffsetFetchResponsePartitions

#: The first versions with a top-level error code in the response, and for several groups at a time.
ERROR_CODE_SINCE = 2
BATCHED_SINCE = 8
#: In a request of up to this number of groups, a group that is named twice has two results, as in
#: Kafka.
MAX_GROUPS_WITH_REPEATS = 10


def offset_fetch(broker: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetFetch request.

    `require_stable` has no effect because there are no transactions.
    """
    if context.version < BATCHED_SINCE:
        context.reply(_fetch_one(broker, context, request))
        return
    groups = request.groups
    if len(groups) > MAX_GROUPS_WITH_REPEATS:
        # Each group once: a small request that repeats a group would have a huge response.
        once: dict[str, Any] = {}
        for group in groups:
            once.setdefault(group.group_id, group)
        groups = once.values()
    context.reply(
        OffsetFetchResponse(
            throttle_time_ms=0, groups=[_fetch_group(broker, group) for group in groups]
        )
    )


def _fetch_group(broker: BrokerApi, group: Any) -> Any:
    """Return the result of one group of a request for several."""
    fetched = broker.groups.fetch_offsets(group.group_id, _requested(group.topics))
    return _Group(
        group_id=group.group_id,
        topics=[
            _GroupTopic(
                name=name,
                partitions=[_partition(_GroupPartition, *each) for each in partitions],
            )
            for name, partitions in fetched.topics
        ],
        error_code=int(fetched.error),
    )


def _fetch_one(broker: BrokerApi, context: RequestContext, request: Any) -> Any:
    """Return the response to a request for one group."""
    fetched = broker.groups.fetch_offsets(request.group_id, _requested(request.topics))
    if fetched.error is not ErrorCode.NONE:
        return _error_of_one(request, fetched.error, context.version)
    return OffsetFetchResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[
            _Topic(name=name, partitions=[_partition(_Partition, *each) for each in partitions])
            for name, partitions in fetched.topics
        ],
    )


def _requested(topics: Iterable[Any] | None) -> list[tuple[str, list[int]]] | None:
    if topics is None:
        return None
    return [(topic.name, list(topic.partition_indexes)) for topic in topics]


def _partition(partition_class: Any, index: int, value: OffsetValue | None) -> Any:
    return partition_class(
        partition_index=index,
        committed_offset=-1 if value is None else value.offset,
        committed_leader_epoch=-1 if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=0,
    )


def _error_of_one(request: Any, code: ErrorCode, version: int) -> Any:
    """Return the response with an error of the group, in old versions of every partition."""
    topics = []
    if version < ERROR_CODE_SINCE:
        topics = [
            _Topic(
                name=name,
                partitions=[
                    _Partition(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=int(code),
                    )
                    for index in indexes
                ],
            )
            for name, indexes in _requested(request.topics) or ()
        ]
    return OffsetFetchResponse(throttle_time_ms=0, error_code=int(code), topics=topics, groups=[])


def error_response(request: Any, code: ErrorCode) -> Any:
    """Return the response with an error for every group."""
    response = _error_of_one(request, code, request.version)
    response.groups = [
        _Group(group_id=group.group_id, topics=[], error_code=int(code))
        for group in request.groups or []
    ]
    return response


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
