"""OffsetCommit: commit offsets; those of unknown partitions are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.api.unknown_partitions import split_partitions, topic_results
from purgatory_broker.groups.group_requests import CommitRequest, OffsetToCommit
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Topic = OffsetCommitResponse.OffsetCommitResponseTopic
_Partition = _Topic.OffsetCommitResponsePartition

#: The longest retention of a committed offset: practically for ever, and its expiration time still
#: fits into a record's 64 bits.
MAX_RETENTION_MS = 2**62

#: The first version whose clients know GROUP_ID_NOT_FOUND.
GROUP_ID_NOT_FOUND_SINCE = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A request to commit offsets, also of partitions that do not exist.

    Attributes:
        group_id: As in `CommitRequest`, and so are the following ones.
        topics: The topics' names, and the offsets to commit.
    """

    group_id: str
    generation_id: int
    member_id: str
    instance_id: str | None
    retention_ms: int
    topics: tuple[tuple[str, tuple[OffsetToCommit, ...]], ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
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


def _offset_commit(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    requested = split_partitions(broker, request.topics)

    def reply(errors: tuple[ErrorCode, ...]) -> None:
        topics = topic_results(requested, errors, _Topic, _Partition)
        context.reply(OffsetCommitResponse(throttle_time_ms=0, topics=topics))

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


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return OffsetCommitResponse(
        topics=[
            _Topic(
                name=name,
                partitions=[
                    _Partition(partition_index=offset.partition, error_code=int(code))
                    for offset in offsets
                ],
            )
            for name, offsets in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(
            (name, (offset.partition for offset in partitions))
            for name, partitions in request.topics
        ),
        groups=[request.group_id],
    )


API = ServedApi(
    key=8,
    name="OffsetCommit",
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    min_version=2,
    max_version=9,
    decode=_decode,
    handle=_offset_commit,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION, Subject.GROUP}),
)
