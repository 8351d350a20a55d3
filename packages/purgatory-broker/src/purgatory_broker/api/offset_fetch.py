"""OffsetFetch: read committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, request_subjects
from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

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


@dataclass(frozen=True, slots=True)
class _RequestedGroup:
    """A group, and the partitions whose offsets are asked for; None is all."""

    group_id: str
    topics: tuple[RequestedTopic, ...] | None


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for the offsets of groups.

    Attributes:
        is_batched: The response has a list of groups; otherwise there is one group.
        has_error_code: The response has an error code beside those of the partitions.
    """

    groups: tuple[_RequestedGroup, ...]
    is_batched: bool
    has_error_code: bool


def _decode(message: Any, context: RequestContext) -> _Request:
    """Return what the handler needs of a request.

    `require_stable` has no effect because there are no transactions.
    """
    is_batched = context.version >= BATCHED_SINCE
    groups = message.groups if is_batched else (message,)
    return _Request(
        tuple(_RequestedGroup(group.group_id, _requested_topics(group.topics)) for group in groups),
        is_batched,
        context.version >= ERROR_CODE_SINCE,
    )


def _requested_topics(topics: Iterable[Any] | None) -> tuple[RequestedTopic, ...] | None:
    if topics is None:
        return None
    return tuple(RequestedTopic(topic.name, tuple(topic.partition_indexes)) for topic in topics)


def _offset_fetch(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    if not request.is_batched:
        context.reply(_fetch_one(broker, request))
        return
    groups: Iterable[_RequestedGroup] = request.groups
    if len(request.groups) > MAX_GROUPS_WITH_REPEATS:
        # Each group once: a small request that repeats a group would have a huge response.
        once: dict[str, _RequestedGroup] = {}
        for group in groups:
            once.setdefault(group.group_id, group)
        groups = once.values()
    context.reply(
        OffsetFetchResponse(
            throttle_time_ms=0, groups=[_fetch_group(broker, group) for group in groups]
        )
    )


def _fetch_group(broker: BrokerApi, group: _RequestedGroup) -> Any:
    fetched = broker.groups.fetch_offsets(group.group_id, group.topics)
    return _Group(
        group_id=group.group_id,
        topics=[
            _GroupTopic(
                name=name,
                partitions=[_partition(_GroupPartition, *partition) for partition in partitions],
            )
            for name, partitions in fetched.topics
        ],
        error_code=int(fetched.error),
    )


def _fetch_one(broker: BrokerApi, request: _Request) -> Any:
    (group,) = request.groups
    fetched = broker.groups.fetch_offsets(group.group_id, group.topics)
    if fetched.error is not ErrorCode.NONE:
        return _error_response(request, fetched.error)
    return OffsetFetchResponse(
        throttle_time_ms=0,
        error_code=0,
        topics=[
            _Topic(
                name=name,
                partitions=[_partition(_Partition, *partition) for partition in partitions],
            )
            for name, partitions in fetched.topics
        ],
    )


def _partition(partition_class: Any, index: int, value: OffsetValue | None) -> Any:
    return partition_class(
        partition_index=index,
        committed_offset=-1 if value is None else value.offset,
        committed_leader_epoch=-1 if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=0,
    )


def _error_response(request: _Request, code: ErrorCode) -> Any:
    """Return the response with an error for every group, in old versions for every partition."""
    groups = []
    if request.is_batched:
        groups = [
            _Group(group_id=group.group_id, topics=[], error_code=int(code))
            for group in request.groups
        ]
    topics = []
    if not request.has_error_code:
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
            for group in request.groups
            for name, indexes in group.topics or ()
        ]
    return OffsetFetchResponse(
        throttle_time_ms=0, error_code=int(code), topics=topics, groups=groups
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(topic for group in request.groups for topic in group.topics or ()),
        groups=(group.group_id for group in request.groups),
    )


API = ServedApi(
    key=9,
    name="OffsetFetch",
    request=OffsetFetchRequest,
    response=OffsetFetchResponse,
    min_version=1,
    max_version=9,
    decode=_decode,
    handle=_offset_fetch,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION, Subject.GROUP}),
)
