"""The handlers of ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from collections import Counter
from typing import Any

from request_purgatory.broker.api.broker_api import BrokerApi
from request_purgatory.broker.api.leader_replica import leader_replica
from request_purgatory.broker.metadata.topic_configs import topic_value
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_delete_records import DeletedPartition
from request_purgatory.broker.replication.replica import Replica, ReplicaError
from request_purgatory.broker.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode

#: The special timestamps of ListOffsets. Tiered storage is not supported, so EARLIEST_LOCAL is the
#: same as EARLIEST, and LATEST_TIERED does not exist.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

#: The first version of ListOffsets with each special timestamp.
SPECIAL_TIMESTAMP_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}

_ListedTopic = apis.LIST_OFFSETS.response.ListOffsetsTopicResponse
_Listed = _ListedTopic.ListOffsetsPartitionResponse
_EpochTopic = apis.OFFSET_FOR_LEADER_EPOCH.response.OffsetForLeaderTopicResult
_EpochEnd = _EpochTopic.EpochEndOffset
_DeletedTopic = apis.DELETE_RECORDS.response.DeleteRecordsTopicResult
_Deleted = _DeletedTopic.DeleteRecordsPartitionResult


def list_offsets(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a ListOffsets request: look up the earliest, the latest or a timestamp's offset."""
    counts = Counter(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        # A partition that is named twice has one result, an error.
        by_index = {partition.partition_index: partition for partition in topic.partitions}
        results = []
        for index, partition in by_index.items():
            key = TopicPartition(topic.name, index)
            results.append(
                _list_partition(
                    node, context, request, key, partition, is_named_once=counts[key] == 1
                )
            )
        topics.append(_ListedTopic(name=topic.name, partitions=results))
    context.reply(apis.LIST_OFFSETS.response(topics=topics))


def _list_partition(
    node: BrokerApi,
    context: RequestContext,
    request: Any,
    key: TopicPartition,
    partition: Any,
    *,
    is_named_once: bool,
) -> Any:
    """Return the result of one partition."""
    result = _Listed(
        partition_index=key.partition, error_code=0, timestamp=-1, offset=-1, leader_epoch=-1
    )
    timestamp = partition.timestamp
    if not is_named_once:
        result.error_code = int(ErrorCode.INVALID_REQUEST)
    elif timestamp < 0 and not _is_supported(timestamp, context.version):
        result.error_code = int(ErrorCode.UNSUPPORTED_VERSION)
    else:
        try:
            replica = leader_replica(node, key, partition.current_leader_epoch)
            result.timestamp, result.offset, result.leader_epoch = _find_offset(
                replica, timestamp, is_follower=request.replica_id >= 0
            )
        except ReplicaError as error:
            result.error_code = int(error.code)
    return result


def _is_supported(special_timestamp: int, version: int) -> bool:
    since = SPECIAL_TIMESTAMP_SINCE.get(special_timestamp)
    return since is not None and version >= since


def _find_offset(replica: Replica, timestamp: int, *, is_follower: bool) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader epoch), each -1 if there is none.

    A consumer sees the records below the high watermark only.
    """
    log = replica.log
    limit = log.end_offset if is_follower else replica.high_watermark
    if timestamp == LATEST:
        return -1, limit, replica.leader_epoch
    if timestamp == LATEST_TIERED:
        return -1, -1, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    found = (
        log.max_timestamp_offset()
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp, limit)
    )
    if found is None and timestamp == MAX_TIMESTAMP and log.log_start_offset < limit:
        # No record has a timestamp: the first record counts as the latest.
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if found is None or found[1] >= limit:
        return -1, -1, -1
    return found[0], found[1], log.epoch_at(found[1])


def offset_for_leader_epoch(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle an OffsetForLeaderEpoch request, by which clients detect a truncated log."""
    topics = []
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            result = _EpochEnd(
                partition=partition.partition, error_code=0, leader_epoch=-1, end_offset=-1
            )
            key = TopicPartition(topic.topic, partition.partition)
            try:
                log = leader_replica(node, key, partition.current_leader_epoch).log
                found = log.end_offset_for_epoch(partition.leader_epoch)
                result.leader_epoch, result.end_offset = found
            except ReplicaError as error:
                result.error_code = int(error.code)
            results.append(result)
        topics.append(_EpochTopic(topic=topic.topic, partitions=results))
    context.reply(apis.OFFSET_FOR_LEADER_EPOCH.response(topics=topics))


def delete_records(node: BrokerApi, context: RequestContext, request: Any) -> None:
    """Handle a DeleteRecords request; the response waits for every replica."""
    # As in Kafka, the last entry of a partition that is named twice counts.
    refused: dict[TopicPartition, DeletedPartition] = {}
    offsets: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            error = _delete_error(node, key)
            if error is None:
                offsets[key] = partition.offset
            else:
                refused[key] = DeletedPartition(key, error)

    def reply(deleted: list[DeletedPartition]) -> None:
        topics: dict[str, list[Any]] = {}
        for each in [*refused.values(), *deleted]:
            low = each.low_watermark if each.error is ErrorCode.NONE else -1
            result = _Deleted(
                partition_index=each.key.partition, low_watermark=low, error_code=int(each.error)
            )
            topics.setdefault(each.key.topic, []).append(result)
        context.reply(
            apis.DELETE_RECORDS.response(
                topics=[
                    _DeletedTopic(name=name, partitions=partitions)
                    for name, partitions in topics.items()
                ]
            )
        )

    node.replicas.delete_records(request.timeout_ms, list(offsets.items()), reply)


def _delete_error(node: BrokerApi, key: TopicPartition) -> ErrorCode | None:
    """Return why clients can't delete records of a partition, or None."""
    topic = node.metadata.topics.get(key.topic)
    if topic is None or not node.metadata.partition_exists(key):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic.is_internal:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if "delete" not in topic_value("cleanup.policy", topic.configs, node.settings):
        return ErrorCode.POLICY_VIOLATION
    return None
