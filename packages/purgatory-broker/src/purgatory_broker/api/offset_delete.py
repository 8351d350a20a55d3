"""OffsetDelete: delete committed offsets; those of unknown partitions are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import OffsetDeleteRequest, OffsetDeleteResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.api.unknown_partitions import split_partitions, topic_results
from purgatory_broker.groups.group_results import DeleteOffsetsResult
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_Topic = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition = _Topic.OffsetDeleteResponsePartition


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to delete a group's offsets of partitions, by topic."""

    group_id: str
    topics: tuple[tuple[str, tuple[TopicPartition, ...]], ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
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


def _offset_delete(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    requested = split_partitions(broker, request.topics)

    def reply(deleted: DeleteOffsetsResult) -> None:
        if deleted.error is not ErrorCode.NONE:
            context.reply(_error_response(request, deleted.error))
            return
        topics = topic_results(requested, deleted.partitions, _Topic, _Partition)
        context.reply(OffsetDeleteResponse(error_code=0, throttle_time_ms=0, topics=topics))

    known = [partition for _, partitions in requested.known for partition in partitions]
    broker.groups.delete_offsets(request.group_id, known, reply)


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return OffsetDeleteResponse(error_code=int(code), topics=[])


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(
            (name, (partition.partition for partition in partitions))
            for name, partitions in request.topics
        ),
        groups=[request.group_id],
    )


API = ServedApi(
    key=47,
    name="OffsetDelete",
    request=OffsetDeleteRequest,
    response=OffsetDeleteResponse,
    min_version=0,
    max_version=0,
    decode=_decode,
    handle=_offset_delete,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION, Subject.GROUP}),
)
