"""OffsetCommit, OffsetFetch and OffsetDelete: the committed offsets of groups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.offset_commit import (
    OFFSET_COMMIT_MESSAGES,
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from purgatory_broker._wire.protocol.offset_delete import (
    OFFSET_DELETE_MESSAGES,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
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
from purgatory_broker._wire.protocol.txn_offset_commit import TxnOffsetCommitRequestTopic
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import (
    CommitRequest,
    FetchedOffsets,
    OffsetToCommit,
    RemovalResult,
)
from purgatory_broker.groups.group_records import OffsetValue
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext


class RequestedTopic(NamedTuple):
    """A topic as a request names it, and its partitions by whether they exist.

    If the client may not read the topic, it is as one that does not exist, with another error.
    """

    name: str
    exists: bool
    known: list[int]
    unknown: list[int]
    #: That of the unknown ones.
    error: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def requested_topic(
    broker: BrokerApi, context: RequestContext, name: str, indexes: Iterable[int]
) -> RequestedTopic:
    if not is_allowed(broker, context, AclOperation.READ, AclResource.TOPIC, name):
        return RequestedTopic(name, False, [], list(indexes), DENIED[AclResource.TOPIC])
    exists = broker.metadata.partition_exists
    topic = RequestedTopic(name, exists(TopicPartition(name, 0)), [], [])
    for index in indexes:
        (topic.known if exists(TopicPartition(name, index)) else topic.unknown).append(index)
    return topic


def requested_offsets(
    broker: BrokerApi,
    context: RequestContext,
    requested: Iterable[OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic],
) -> tuple[list[RequestedTopic], list[OffsetToCommit]]:
    """Return the topics of a request, and the offsets of the partitions that exist."""
    topics, offsets = [], []
    for topic in requested:
        indexes = [partition.partition_index for partition in topic.partitions]
        topics.append(requested_topic(broker, context, topic.name, indexes))
        known = set(topics[-1].known)
        offsets += [
            OffsetToCommit(
                topic.name,
                partition.partition_index,
                partition.committed_offset,
                partition.committed_leader_epoch,
                partition.committed_metadata or "",
            )
            for partition in topic.partitions
            if partition.partition_index in known
        ]
    return topics, offsets


def results_by_topic(
    topics: Sequence[RequestedTopic], errors: Iterable[ErrorCode]
) -> list[tuple[str, list[tuple[int, ErrorCode]]]]:
    """Return the error of each partition by topic; `errors` are those of the known ones.

    As in Kafka, unknown partitions are first. If there are any, each topic has one entry.
    """
    remaining = iter(errors)
    results = [
        (topic.name, [(index, next(remaining)) for index in topic.known])
        for topic in topics
        if topic.known
    ]
    refused = [
        (topic.name, [(index, topic.error) for index in topic.unknown])
        for topic in topics
        if topic.unknown or not topic.exists
    ]
    if not refused:
        return results
    merged: dict[str, list[tuple[int, ErrorCode]]] = {}
    for name, partitions in (*refused, *results):
        merged.setdefault(name, []).extend(partitions)
    return list(merged.items())


#: The longest retention of a committed offset: practically for ever, and its expiration time still
#: fits into a record's 64 bits.
MAX_RETENTION_MS = 2**62

#: The first version whose clients know GROUP_ID_NOT_FOUND, and member epochs.
GROUP_ID_NOT_FOUND_SINCE = 9


def _offset_commit(
    broker: BrokerApi, context: RequestContext, request: OffsetCommitRequest
) -> None:
    topics, offsets = requested_offsets(broker, context, request.topics)

    def reply(errors: tuple[ErrorCode, ...]) -> None:
        context.reply(
            OffsetCommitResponse(
                topics=[
                    OffsetCommitResponseTopic(
                        name=name,
                        partitions=[
                            OffsetCommitResponsePartition(partition_index=index, error_code=error)
                            for index, error in partitions
                        ],
                    )
                    for name, partitions in results_by_topic(topics, errors)
                ]
            )
        )

    if not offsets:
        reply(())
        return
    commit = CommitRequest(
        group_id=request.group_id,
        generation_id=request.generation_id_or_member_epoch,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        retention_ms=min(request.retention_time_ms, MAX_RETENTION_MS),
        knows_group_id_not_found=context.version >= GROUP_ID_NOT_FOUND_SINCE,
        offsets=tuple(offsets),
    )
    broker.groups.offsets.commit(commit, reply)


OFFSET_COMMIT = ServedApi(
    messages=OFFSET_COMMIT_MESSAGES,
    versions=(2, 9),
    requires={AclResource.GROUP: AclOperation.READ},
    handle=_offset_commit,
)


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


def _offset_delete(
    broker: BrokerApi, context: RequestContext, request: OffsetDeleteRequest
) -> None:
    topics = [
        requested_topic(
            broker, context, topic.name, [each.partition_index for each in topic.partitions]
        )
        for topic in request.topics
    ]
    known = [TopicPartition(topic.name, index) for topic in topics for index in topic.known]

    def reply(deleted: RemovalResult) -> None:
        if deleted.error is not ErrorCode.NONE:
            context.reply(OffsetDeleteResponse(error_code=deleted.error))
            return
        context.reply(
            OffsetDeleteResponse(
                topics=[
                    OffsetDeleteResponseTopic(
                        name=name,
                        partitions=[
                            OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                            for index, error in partitions
                        ],
                    )
                    for name, partitions in results_by_topic(topics, deleted.parts)
                ]
            )
        )

    broker.groups.offsets.delete(request.group_id, known, reply)


OFFSET_DELETE = ServedApi(
    messages=OFFSET_DELETE_MESSAGES,
    versions=(0, 0),
    requires={AclResource.GROUP: AclOperation.DELETE},
    handle=_offset_delete,
)
