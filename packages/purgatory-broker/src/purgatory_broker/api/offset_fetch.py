"""OffsetFetch: the committed offsets of groups that a client may see."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.offset_fetch import (
    OFFSET_FETCH_MESSAGES,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import FetchedOffsets
from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.request_context import RequestContext

#: The first versions with a top-level error code in the response, and for several groups at a time.
ERROR_CODE_SINCE = 2
BATCHED_SINCE = 8
#: In a request of up to this number of groups, a group that is named twice has two results, as in
#: Kafka.
MAX_GROUPS_WITH_REPEATS = 10


def _offset_fetch(
    broker: BrokerApi, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    if context.version < BATCHED_SINCE:
        return _fetch_one(broker, context, request)
    groups: Iterable[OffsetFetchRequestGroup] = request.groups
    if len(request.groups) > MAX_GROUPS_WITH_REPEATS:
        # Each group once: a small request that repeats a group would have a huge response.
        once: dict[str, OffsetFetchRequestGroup] = {}
        for group in groups:
            once.setdefault(group.group_id, group)
        groups = once.values()
    return OffsetFetchResponse(
        groups=[
            _fetch_group(broker, context, group, require_stable=request.require_stable)
            for group in groups
        ]
    )


def _fetch_offsets(
    broker: BrokerApi,
    context: RequestContext,
    group_id: str,
    topics: Sequence[tuple[str, list[int]]] | None,
    *,
    require_stable: bool,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> FetchedOffsets:
    """Return the offsets that the client may see.

    Other topics are refused if the request names them, and hidden if it does not.
    """
    if not is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.GROUP, group_id):
        return FetchedOffsets(DENIED[AclResource.GROUP])
    asked = topics
    if broker.authorizer is not None and topics is not None:
        names = allowed_topics(broker, context, AclOperation.DESCRIBE, [name for name, _ in topics])
        asked = [(name, indexes) for name, indexes in topics if name in names]
    fetched = broker.groups.offsets.fetch(
        group_id,
        asked,
        require_stable=require_stable,
        member_id=member_id,
        member_epoch=member_epoch,
    )
    if broker.authorizer is None or fetched.error is not ErrorCode.NONE:
        return fetched
    if topics is None:
        names = allowed_topics(
            broker, context, AclOperation.DESCRIBE, [name for name, _ in fetched.topics]
        )
        return FetchedOffsets(topics=tuple(topic for topic in fetched.topics if topic[0] in names))
    code = DENIED[AclResource.TOPIC]
    refused = tuple(
        (name, tuple((index, code) for index in indexes))
        for name, indexes in topics
        if name not in names
    )
    return FetchedOffsets(topics=fetched.topics + refused)


def _fetch_group(
    broker: BrokerApi,
    context: RequestContext,
    group: OffsetFetchRequestGroup,
    *,
    require_stable: bool,
) -> OffsetFetchResponseGroup:
    topics = None
    if group.topics is not None:
        topics = [(topic.name, topic.partition_indexes) for topic in group.topics]
    fetched = _fetch_offsets(
        broker,
        context,
        group.group_id,
        topics,
        require_stable=require_stable,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
    )
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=name,
                partitions=[_group_partition(index, value) for index, value in partitions],
            )
            for name, partitions in fetched.topics
        ],
        error_code=fetched.error,
    )


def _fetch_one(
    broker: BrokerApi, context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse:
    topics = None
    if request.topics is not None:
        topics = [(topic.name, topic.partition_indexes) for topic in request.topics]
    fetched = _fetch_offsets(
        broker, context, request.group_id, topics, require_stable=request.require_stable
    )
    if fetched.error is not ErrorCode.NONE:
        return _refuse_offset_fetch(request, fetched.error, context.version)
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=name,
                partitions=[_partition(index, value) for index, value in partitions],
            )
            for name, partitions in fetched.topics
        ]
    )


#: What stands for no committed offset.
_NOTHING = OffsetValue(-1)


#: A committed offset, or none, or an error.
_Fetched: TypeAlias = OffsetValue | ErrorCode | None


def _partition(index: int, fetched: _Fetched) -> OffsetFetchResponsePartition:
    error, value = _error_and_value(fetched)
    return OffsetFetchResponsePartition(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=error,
    )


def _group_partition(index: int, fetched: _Fetched) -> OffsetFetchResponsePartitions:
    error, value = _error_and_value(fetched)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=error,
    )


def _error_and_value(fetched: _Fetched) -> tuple[ErrorCode, OffsetValue]:
    if isinstance(fetched, ErrorCode):
        return fetched, _NOTHING
    return ErrorCode.NONE, fetched or _NOTHING


def _refuse_offset_fetch(
    request: OffsetFetchRequest, code: ErrorCode, version: int
) -> OffsetFetchResponse:
    """Return the response with an error for every group, in old versions for every partition."""
    response = OFFSET_FETCH_MESSAGES.error_response(request, code)
    if version >= ERROR_CODE_SINCE:
        response.topics = []
    return response


OFFSET_FETCH = ServedApi(
    messages=OFFSET_FETCH_MESSAGES,
    versions=(1, 9),
    answer=_offset_fetch,
    refuse=_refuse_offset_fetch,
)
