"""OffsetCommit and OffsetDelete: groups commit offsets, and lose them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from purgatory_broker._wire.protocol.txn_offset_commit import TxnOffsetCommitRequestTopic
from purgatory_broker.api.access import DENIED, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.groups.group_messages import (
    CommitRequest,
    OffsetToCommit,
    RemovalResult,
)
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
