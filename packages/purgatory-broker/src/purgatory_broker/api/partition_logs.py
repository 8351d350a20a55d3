"""DeleteRecords, DescribeProducers and DescribeLogDirs: the logs of partitions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.delete_records import (
    DELETE_RECORDS_MESSAGES,
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from purgatory_broker._wire.protocol.describe_log_dirs import (
    DESCRIBE_LOG_DIRS_MESSAGES,
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from purgatory_broker._wire.protocol.describe_producers import (
    DESCRIBE_PRODUCERS_MESSAGES,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import RequestedTopic, ServedApi, Subjects, refused_topics
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import TopicPartition, topic_name_error
from purgatory_broker.replication.record_deletions import DeletedPartition
from purgatory_broker.request_context import RequestContext


@dataclass(frozen=True, slots=True)
class _TopicOffsets:
    """Offsets of a topic: the records of a partition before its offset are to be deleted."""

    name: str
    #: The number of each partition, and its offset.
    partitions: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class _DeleteRecords:
    topics: tuple[_TopicOffsets, ...]
    timeout_ms: int


def _decode_delete_records(message: Any, context: RequestContext) -> _DeleteRecords:
    return _DeleteRecords(
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


def _delete_records(broker: BrokerApi, context: RequestContext, request: _DeleteRecords) -> None:
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
            result = DeleteRecordsPartitionResult(
                partition_index=partition.key.partition,
                low_watermark=low,
                error_code=int(partition.error),
            )
            topics.setdefault(partition.key.topic, []).append(result)
        context.reply(
            DeleteRecordsResponse(
                topics=[
                    DeleteRecordsTopicResult(name=name, partitions=partitions)
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


def _named_partitions(request: _DeleteRecords) -> list[tuple[str, list[int]]]:
    return [(topic.name, [index for index, _ in topic.partitions]) for topic in request.topics]


def _refuse_delete_records(request: _DeleteRecords, code: ErrorCode) -> Any:
    topics = refused_topics(
        _named_partitions(request),
        DeleteRecordsTopicResult,
        DeleteRecordsPartitionResult,
        code,
        low_watermark=-1,
    )
    return DeleteRecordsResponse(topics=topics)


DELETE_RECORDS = ServedApi(
    messages=DELETE_RECORDS_MESSAGES,
    versions=(0, 2),
    recorded_timeout_ms=lambda request: request.timeout_ms,
    decode=_decode_delete_records,
    handle=_delete_records,
    refuse=_refuse_delete_records,
    subjects=Subjects(partitions=lambda _broker, request: _named_partitions(request)),
)


#: The longest error message: every partition of a topic repeats the topic's name.
_MAX_MESSAGE_CHARACTERS = 400


@dataclass(frozen=True, slots=True)
class _DescribeProducers:
    topics: tuple[RequestedTopic, ...]


def _decode_describe_producers(message: Any, context: RequestContext) -> _DescribeProducers:
    return _DescribeProducers(
        tuple(
            RequestedTopic(topic.name, tuple(topic.partition_indexes)) for topic in message.topics
        )
    )


def _describe_producers(
    broker: BrokerApi, context: RequestContext, request: _DescribeProducers
) -> Any:
    # Each partition once: a small request that repeats one would have a huge response.
    wanted: dict[str, dict[int, None]] = {}
    for name, indexes in request.topics:
        wanted.setdefault(name, {}).update(dict.fromkeys(indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=_describe_topic(broker, name, indexes))
            for name, indexes in wanted.items()
        ]
    )


def _describe_topic(broker: BrokerApi, name: str, indexes: Iterable[int]) -> list[Any]:
    error = topic_name_error(name)
    if error is not None:
        message = f"Topic name is invalid: {error}"[:_MAX_MESSAGE_CHARACTERS]
        return [_refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, message) for index in indexes]
    return [_describe_active(broker, TopicPartition(name, index)) for index in indexes]


def _describe_active(broker: BrokerApi, key: TopicPartition) -> Any:
    replica = broker.replicas.find(key)
    if replica is None:
        if broker.metadata.partition_exists(key):
            return _refused(key.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        message = "This server does not host this topic-partition."
        return _refused(key.partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return PartitionResponse(
        partition_index=key.partition,
        active_producers=[
            ProducerState(
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=-1,
            )
            for producer_id, producer in replica.log.producers.items()
        ],
    )


def _refused(index: int, code: ErrorCode, message: str | None = None) -> Any:
    return PartitionResponse(
        partition_index=index, error_code=int(code), error_message=message, active_producers=[]
    )


def _refuse_describe_producers(request: _DescribeProducers, code: ErrorCode) -> Any:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=[_refused(index, code) for index in indexes])
            for name, indexes in request.topics
        ]
    )


DESCRIBE_PRODUCERS = ServedApi(
    messages=DESCRIBE_PRODUCERS_MESSAGES,
    versions=(0, 0),
    decode=_decode_describe_producers,
    answer=_describe_producers,
    refuse=_refuse_describe_producers,
    subjects=Subjects(partitions=lambda _broker, request: request.topics),
)


@dataclass(frozen=True, slots=True)
class _DescribeLogDirs:
    """A request for the logs of partitions; None is all of them."""

    topics: tuple[RequestedTopic, ...] | None


def _decode_describe_log_dirs(message: Any, context: RequestContext) -> _DescribeLogDirs:
    if message.topics is None:
        return _DescribeLogDirs(None)
    return _DescribeLogDirs(
        tuple(RequestedTopic(topic.topic, tuple(topic.partitions)) for topic in message.topics)
    )


def _describe_log_dirs(
    broker: BrokerApi, context: RequestContext, request: _DescribeLogDirs
) -> Any:
    replicas = broker.replicas.replicas
    described = list(replicas.values())
    if request.topics is not None:
        wanted = {
            TopicPartition(name, index) for name, indexes in request.topics for index in indexes
        }
        described = [replica for key, replica in replicas.items() if key in wanted]
    topics: dict[str, list[Any]] = {}
    for replica in described:
        partition = DescribeLogDirsPartition(
            partition_index=replica.key.partition,
            partition_size=replica.log.size_bytes,
            # As in Kafka, the lag behind the high watermark, not behind the leader.
            offset_lag=max(replica.high_watermark - replica.log.end_offset, 0),
        )
        topics.setdefault(replica.key.topic, []).append(partition)
    space = broker.log_manager.space()
    return DescribeLogDirsResponse(
        results=[
            DescribeLogDirsResult(
                log_dir=space.path,
                topics=[
                    DescribeLogDirsTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ],
                total_bytes=space.total_bytes,
                usable_bytes=space.usable_bytes,
            )
        ]
    )


def _refuse_describe_log_dirs(request: _DescribeLogDirs, code: ErrorCode) -> Any:
    """Return the response with an error; old versions have one in each directory only."""
    directory = DescribeLogDirsResult(error_code=int(code), topics=[])
    return DescribeLogDirsResponse(error_code=int(code), results=[directory])


DESCRIBE_LOG_DIRS = ServedApi(
    messages=DESCRIBE_LOG_DIRS_MESSAGES,
    versions=(1, 4),
    decode=_decode_describe_log_dirs,
    answer=_describe_log_dirs,
    refuse=_refuse_describe_log_dirs,
    subjects=Subjects(partitions=lambda _broker, request: request.topics or ()),
)
