"""DeleteRecords: delete the records before an offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DeleteRecordsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.record_deletions import DeletedPartition
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_DeletedTopic = DeleteRecordsResponse.DeleteRecordsTopicResult
_Deleted = _DeletedTopic.DeleteRecordsPartitionResult


@dataclass(frozen=True, slots=True)
class _TopicOffsets:
    """Offsets of a topic: the records of a partition before its offset are to be deleted."""

    name: str
    #: The number of each partition, and its offset.
    partitions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to delete records; the response waits for up to `timeout_ms` milliseconds."""

    topics: tuple[_TopicOffsets, ...]
    timeout_ms: int


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        tuple(
            _TopicOffsets(
                topic.name,
                tuple(
                    (partition.partition_index, partition.offset) for partition in topic.partitions
                ),
            )
            for topic in message.topics
        ),
        message.timeout_ms,
    )


def _delete_records(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    # As in Kafka, the last entry of a partition that is named twice counts.
    refused: dict[TopicPartition, DeletedPartition] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for index, offset in topic.partitions:
            key = TopicPartition(topic.name, index)
            error = _delete_error(broker, key)
            if error is None:
                offsets[key] = offset
            else:
                refused[key] = DeletedPartition(key, error)

    def reply(deleted: list[DeletedPartition]) -> None:
        topics: dict[str, list[Any]] = {}
        for partition in [*refused.values(), *deleted]:
            low = partition.low_watermark if partition.error is ErrorCode.NONE else -1
            result = _Deleted(
                partition_index=partition.key.partition,
                low_watermark=low,
                error_code=int(partition.error),
            )
            topics.setdefault(partition.key.topic, []).append(result)
        context.reply(
            DeleteRecordsResponse(
                topics=[
                    _DeletedTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ]
            )
        )

    broker.deletions.delete_records(request.timeout_ms, list(offsets.items()), reply)


def _delete_error(broker: BrokerApi, key: TopicPartition) -> ErrorCode | None:
    topic = broker.metadata.topics.get(key.topic)
    if topic is None or not broker.metadata.partition_exists(key):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if "delete" not in topic_value("cleanup.policy", topic.configs, broker.settings):
        return ErrorCode.POLICY_VIOLATION
    return None


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return DeleteRecordsResponse(
        topics=[
            _DeletedTopic(
                name=topic.name,
                partitions=[
                    _Deleted(partition_index=index, low_watermark=-1, error_code=int(code))
                    for index, _ in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(
            (topic.name, (index for index, _ in topic.partitions)) for topic in request.topics
        )
    )


API = ServedApi(
    key=21,
    name="DeleteRecords",
    request=DeleteRecordsRequest,
    response=DeleteRecordsResponse,
    min_version=0,
    max_version=2,
    recorded_timeout_ms=lambda request: request.timeout_ms,
    decode=_decode,
    handle=_delete_records,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
