"""OffsetCommit, OffsetFetch and OffsetDelete: the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.offset_commit import (
    OFFSET_COMMIT_MESSAGES,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from purgatory_broker._wire.protocol.offset_delete import (
    OFFSET_DELETE_MESSAGES,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from purgatory_broker._wire.protocol.offset_fetch import (
    OFFSET_FETCH_MESSAGES,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, Subjects, refused_topics
from purgatory_broker.groups.group_messages import (
    CommitRequest,
    FetchedOffsets,
    OffsetToCommit,
    RemovalResult,
)
from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext

#: The requests' elements for partitions.
E = TypeVar("E", bound=OffsetToCommit | TopicPartition)


class _RequestedPartitions(NamedTuple, Generic[E]):
    #: The topics with a partition that exists, and the request's elements for these partitions.
    known: list[tuple[str, list[E]]]
    #: The numbers of the other partitions, by topic.
    unknown: dict[str, list[int]]


def _split_partitions(
    broker: BrokerApi, topics: Iterable[tuple[str, Iterable[E]]]
) -> _RequestedPartitions[E]:
    requested = _RequestedPartitions[E]([], {})
    for name, partitions in topics:
        known = []
        for element in partitions:
            if broker.metadata.partition_exists(TopicPartition(name, element.partition)):
                known.append(element)
            else:
                requested.unknown.setdefault(name, []).append(element.partition)
        if known:
            requested.known.append((name, known))
    return requested


def _topic_results(
    requested: _RequestedPartitions[E],
    errors: Iterable[ErrorCode],
    topic_class: Any,
    partition_class: Any,
) -> list[Any]:
    """Return a response's topics: as requested, the partitions that do not exist last."""
    remaining = iter(errors)
    topics = [
        topic_class(
            name=name,
            partitions=[
                partition_class(partition_index=element.partition, error_code=int(next(remaining)))
                for element in partitions
            ],
        )
        for name, partitions in requested.known
    ]
    by_name = {topic.name: topic for topic in topics}
    code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for name, indexes in requested.unknown.items():
        refused = [partition_class(partition_index=index, error_code=code) for index in indexes]
        topic = by_name.get(name)
        if topic is None:
            topics.append(topic_class(name=name, partitions=refused))
        else:
            topic.partitions = [*topic.partitions, *refused]
    return topics


#: The longest retention of a committed offset: practically for ever, and its expiration time still
#: fits into a record's 64 bits.
MAX_RETENTION_MS = 2**62

#: The first version whose clients know GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class _OffsetCommit:
    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: tuple[tuple[str, tuple[OffsetToCommit, ...]], ...]


def _decode_offset_commit(message: Any, context: RequestContext) -> _OffsetCommit:
    return _OffsetCommit(
        group_id=message.group_id,
        generation_id=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        retention_ms=min(message.retention_time_ms, MAX_RETENTION_MS),
        topics=tuple(
            (
                topic.name,
                tuple(
                    OffsetToCommit(
                        topic.name,
                        partition.partition_index,
                        partition.committed_offset,
                        partition.committed_leader_epoch,
                        partition.committed_metadata or "",
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def _named_partitions(request: _OffsetCommit | _OffsetDelete) -> list[tuple[str, list[int]]]:
    return [
        (name, [element.partition for element in elements]) for name, elements in request.topics
    ]


def _offset_commit(broker: BrokerApi, context: RequestContext, request: _OffsetCommit) -> None:
    requested = _split_partitions(broker, request.topics)

    def reply(errors: tuple[ErrorCode, ...]) -> None:
        topics = _topic_results(
            requested, errors, OffsetCommitResponseTopic, OffsetCommitResponsePartition
        )
        context.reply(OffsetCommitResponse(topics=topics))

    if requested.unknown and not requested.known:
        reply(())
        return
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        instance_id=request.instance_id,
        retention_ms=request.retention_ms,
        knows_group_id_not_found=context.version >= GROUP_ID_NOT_FOUND_SINCE,
        offsets=tuple(offset for _, partitions in requested.known for offset in partitions),
    )
    broker.groups.commit_offsets(commit, reply)


def _refuse_offset_commit(request: _OffsetCommit, code: ErrorCode) -> Any:
    topics = _named_partitions(request)
    return OffsetCommitResponse(
        topics=refused_topics(
            topics, OffsetCommitResponseTopic, OffsetCommitResponsePartition, code
        )
    )


OFFSET_COMMIT = ServedApi(
    messages=OFFSET_COMMIT_MESSAGES,
    versions=(2, 9),
    decode=_decode_offset_commit,
    handle=_offset_commit,
    refuse=_refuse_offset_commit,
    subjects=Subjects(
        partitions=lambda _broker, request: _named_partitions(request),
        groups=lambda _broker, request: [request.group_id],
    ),
)


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
class _OffsetFetch:
    groups: tuple[_RequestedGroup, ...]
    #: The response has a list of groups; otherwise there is one group.
    is_batched: bool
    #: The response has an error code beside those of the partitions.
    has_error_code: bool


def _decode_offset_fetch(message: Any, context: RequestContext) -> _OffsetFetch:
    """Without transactions, `require_stable` has no effect."""
    is_batched = context.version >= BATCHED_SINCE
    groups = message.groups if is_batched else (message,)
    return _OffsetFetch(
        tuple(_RequestedGroup(group.group_id, _requested_topics(group.topics)) for group in groups),
        is_batched,
        context.version >= ERROR_CODE_SINCE,
    )


def _requested_topics(topics: Iterable[Any] | None) -> tuple[RequestedTopic, ...] | None:
    if topics is None:
        return None
    return tuple(RequestedTopic(topic.name, tuple(topic.partition_indexes)) for topic in topics)


def _offset_fetch(broker: BrokerApi, context: RequestContext, request: _OffsetFetch) -> Any:
    if not request.is_batched:
        return _fetch_one(broker, request)
    groups: Iterable[_RequestedGroup] = request.groups
    if len(request.groups) > MAX_GROUPS_WITH_REPEATS:
        # Each group once: a small request that repeats a group would have a huge response.
        once: dict[str, _RequestedGroup] = {}
        for group in groups:
            once.setdefault(group.group_id, group)
        groups = once.values()
    return OffsetFetchResponse(groups=[_fetch_group(broker, group) for group in groups])


def _fetch_group(broker: BrokerApi, group: _RequestedGroup) -> Any:
    fetched = broker.groups.fetch_offsets(group.group_id, group.topics)
    topics = _fetched_topics(fetched, OffsetFetchResponseTopics, OffsetFetchResponsePartitions)
    return OffsetFetchResponseGroup(
        group_id=group.group_id, topics=topics, error_code=int(fetched.error)
    )


def _fetch_one(broker: BrokerApi, request: _OffsetFetch) -> Any:
    (group,) = request.groups
    fetched = broker.groups.fetch_offsets(group.group_id, group.topics)
    if fetched.error is not ErrorCode.NONE:
        return _refuse_offset_fetch(request, fetched.error)
    return OffsetFetchResponse(
        topics=_fetched_topics(fetched, OffsetFetchResponseTopic, OffsetFetchResponsePartition)
    )


def _fetched_topics(offsets: FetchedOffsets, topic_class: Any, partition_class: Any) -> list[Any]:
    return [
        topic_class(
            name=name,
            partitions=[
                _fetched_partition(partition_class, *partition) for partition in partitions
            ],
        )
        for name, partitions in offsets.topics
    ]


def _fetched_partition(partition_class: Any, index: int, value: OffsetValue | None) -> Any:
    return partition_class(
        partition_index=index,
        committed_offset=-1 if value is None else value.offset,
        committed_leader_epoch=-1 if value is None else value.leader_epoch,
        metadata="" if value is None else value.metadata,
        error_code=0,
    )


def _refuse_offset_fetch(request: _OffsetFetch, code: ErrorCode) -> Any:
    """Return the response with an error for every group, in old versions for every partition."""
    groups = []
    if request.is_batched:
        groups = [
            OffsetFetchResponseGroup(group_id=group.group_id, topics=[], error_code=int(code))
            for group in request.groups
        ]
    topics = []
    if not request.has_error_code:
        named = [topic for group in request.groups for topic in group.topics or ()]
        topics = refused_topics(
            named, OffsetFetchResponseTopic, OffsetFetchResponsePartition, code, committed_offset=-1
        )
    return OffsetFetchResponse(error_code=int(code), topics=topics, groups=groups)


OFFSET_FETCH = ServedApi(
    messages=OFFSET_FETCH_MESSAGES,
    versions=(1, 9),
    decode=_decode_offset_fetch,
    answer=_offset_fetch,
    refuse=_refuse_offset_fetch,
    subjects=Subjects(
        partitions=lambda _broker, request: (
            topic for group in request.groups for topic in group.topics or ()
        ),
        groups=lambda _broker, request: (group.group_id for group in request.groups),
    ),
)


@dataclass(frozen=True, slots=True)
class _OffsetDelete:
    group_id: str
    topics: tuple[tuple[str, tuple[TopicPartition, ...]], ...]


def _decode_offset_delete(message: Any, context: RequestContext) -> _OffsetDelete:
    return _OffsetDelete(
        message.group_id,
        tuple(
            (
                topic.name,
                tuple(
                    TopicPartition(topic.name, partition.partition_index)
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def _offset_delete(broker: BrokerApi, context: RequestContext, request: _OffsetDelete) -> None:
    requested = _split_partitions(broker, request.topics)

    def reply(deleted: RemovalResult) -> None:
        if deleted.error is not ErrorCode.NONE:
            context.reply(OffsetDeleteResponse(error_code=int(deleted.error), topics=[]))
            return
        topics = _topic_results(
            requested, deleted.parts, OffsetDeleteResponseTopic, OffsetDeleteResponsePartition
        )
        context.reply(OffsetDeleteResponse(topics=topics))

    known = [partition for _, partitions in requested.known for partition in partitions]
    broker.groups.delete_offsets(request.group_id, known, reply)


OFFSET_DELETE = ServedApi(
    messages=OFFSET_DELETE_MESSAGES,
    versions=(0, 0),
    decode=_decode_offset_delete,
    handle=_offset_delete,
    subjects=Subjects(
        partitions=lambda _broker, request: _named_partitions(request),
        groups=lambda _broker, request: [request.group_id],
    ),
)
