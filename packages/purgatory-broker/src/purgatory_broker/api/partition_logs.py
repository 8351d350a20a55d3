"""DeleteRecords, DescribeProducers and DescribeLogDirs: the logs of partitions."""

from __future__ import annotations

from collections.abc import Iterable

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.delete_records import (
    DELETE_RECORDS_MESSAGES,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from purgatory_broker._wire.protocol.describe_log_dirs import (
    DESCRIBE_LOG_DIRS_MESSAGES,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from purgatory_broker._wire.protocol.describe_producers import (
    DESCRIBE_PRODUCERS_MESSAGES,
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topic_configs import topic_value
from purgatory_broker.metadata.topics import TopicPartition, topic_name_error
from purgatory_broker.replication.record_deletions import DeletedPartition
from purgatory_broker.request_context import RequestContext


def _delete_records(
    broker: BrokerApi, context: RequestContext, request: DeleteRecordsRequest
) -> None:
    # As in Kafka, the last entry of a partition that is named twice counts.
    refused: dict[TopicPartition, DeletedPartition] = {}
    offsets: dict[TopicPartition, int] = {}
    names = (topic.name for topic in request.topics)
    allowed = allowed_topics(broker, context, AclOperation.DELETE, names)
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = _delete_error(broker, key)
            if key.topic not in allowed:
                error = DENIED[AclResource.TOPIC]
            if error is None:
                offsets[key] = partition.offset
            else:
                refused[key] = DeletedPartition(key, error)

    def reply(deleted: list[DeletedPartition]) -> None:
        topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
        for partition in [*refused.values(), *deleted]:
            low = partition.low_watermark if partition.error is ErrorCode.NONE else -1
            result = DeleteRecordsPartitionResult(
                partition_index=partition.key.partition,
                low_watermark=low,
                error_code=partition.error,
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


DELETE_RECORDS = ServedApi(
    messages=DELETE_RECORDS_MESSAGES,
    versions=(0, 2),
    recorded_timeout_ms=lambda request: request.timeout_ms,
    handle=_delete_records,
)


#: The longest error message: every partition of a topic repeats the topic's name.
_MAX_MESSAGE_CHARACTERS = 400


def _describe_producers(
    broker: BrokerApi, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    # Each partition once: a small request that repeats one would have a huge response.
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    return DescribeProducersResponse(
        topics=[
            TopicResponse(name=name, partitions=_describe_topic(broker, context, name, indexes))
            for name, indexes in wanted.items()
        ]
    )


def _describe_topic(
    broker: BrokerApi, context: RequestContext, name: str, indexes: Iterable[int]
) -> list[PartitionResponse]:
    error = topic_name_error(name)
    if error is not None:
        message = f"Topic name is invalid: {error}"[:_MAX_MESSAGE_CHARACTERS]
        return [_refused(index, ErrorCode.INVALID_TOPIC_EXCEPTION, message) for index in indexes]
    if not is_allowed(broker, context, AclOperation.READ, AclResource.TOPIC, name):
        return [_refused(index, DENIED[AclResource.TOPIC]) for index in indexes]
    return [_describe_active(broker, TopicPartition(name, index)) for index in indexes]


def _describe_active(broker: BrokerApi, key: TopicPartition) -> PartitionResponse:
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
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=(
                    -1 if producer.transaction_start is None else producer.transaction_start
                ),
            )
            for producer_id, producer in replica.log.producers.items()
        ],
    )


def _refused(index: int, code: ErrorCode, message: str | None = None) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code, error_message=message)


DESCRIBE_PRODUCERS = ServedApi(
    messages=DESCRIBE_PRODUCERS_MESSAGES, versions=(0, 0), answer=_describe_producers
)


def _describe_log_dirs(
    broker: BrokerApi, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse:
    if not is_allowed(broker, context, AclOperation.DESCRIBE, AclResource.CLUSTER):
        return DescribeLogDirsResponse(error_code=DENIED[AclResource.CLUSTER])
    replicas = broker.replicas.replicas
    described = list(replicas.values())
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index)
            for topic in request.topics
            for index in topic.partitions
        }
        described = [replica for key, replica in replicas.items() if key in wanted]
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
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


DESCRIBE_LOG_DIRS = ServedApi(
    messages=DESCRIBE_LOG_DIRS_MESSAGES,
    versions=(1, 4),
    answer=_describe_log_dirs,
)
