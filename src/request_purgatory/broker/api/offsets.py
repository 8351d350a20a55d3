"""ListOffsets and DeleteRecords: where a partition's records begin and end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from request_purgatory.broker.metadata.topic_configs import topic_value
from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_delete_records import DeletedPartition
from request_purgatory.broker.replication.replica import Replica, ReplicaError
from request_purgatory.broker.server.request_context import RequestContext
from request_purgatory.broker.wire import apis
from request_purgatory.broker.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from request_purgatory.broker.cluster.node import Node

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
#: What is not in tiered storage, of which there is none here; and the last that is.
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

#: From which version on each of these is served.
_SPECIAL_SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
_NEVER = 1 << 15

_ListedTopic = apis.LIST_OFFSETS.response.ListOffsetsTopicResponse
_Listed = _ListedTopic.ListOffsetsPartitionResponse
_EpochTopic = apis.OFFSET_FOR_LEADER_EPOCH.response.OffsetForLeaderTopicResult
_EpochEnd = _EpochTopic.EpochEndOffset
_DeletedTopic = apis.DELETE_RECORDS.response.DeleteRecordsTopicResult
_Deleted = _DeletedTopic.DeleteRecordsPartitionResult


def list_offsets(node: Node, context: RequestContext, request: Any) -> None:
    """The earliest and the latest offset, or the first at a time."""
    topics = []
    counts = Counter(
        TopicPartition(topic.name, each.partition_index)
        for topic in request.topics
        for each in topic.partitions
    )
    for topic in request.topics:
        partitions = []
        # One that is asked for twice is answered once, with an error.
        for each in {one.partition_index: one for one in topic.partitions}.values():
            found = _Listed(
                partition_index=each.partition_index,
                error_code=0,
                timestamp=-1,
                offset=-1,
                leader_epoch=-1,
            )
            key = TopicPartition(topic.name, each.partition_index)
            if counts[key] > 1:
                found.error_code = int(ErrorCode.INVALID_REQUEST)
                partitions.append(found)
                continue
            try:
                if each.timestamp < 0 and context.version < _SPECIAL_SINCE.get(
                    each.timestamp, _NEVER
                ):
                    raise ReplicaError(ErrorCode.UNSUPPORTED_VERSION)
                replica = node.leader_replica(key, each.current_leader_epoch)
                found.timestamp, found.offset, found.leader_epoch = _listed(
                    replica, each.timestamp, follower=request.replica_id >= 0
                )
            except ReplicaError as error:
                found.error_code = int(error.code)
            partitions.append(found)
        topics.append(_ListedTopic(name=topic.name, partitions=partitions))
    context.reply(apis.LIST_OFFSETS.response(topics=topics))


def _listed(replica: Replica, timestamp: int, *, follower: bool) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch; -1 for what there is not."""
    log = replica.log
    limit = log.end_offset if follower else replica.high_watermark
    if timestamp == LATEST:
        return -1, limit, replica.leader_epoch
    if timestamp == LATEST_TIERED:
        return -1, -1, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    found = (
        log.max_timestamp_offset()
        if timestamp == MAX_TIMESTAMP
        else log.offset_at_time(timestamp, limit)
    )
    if found is None and timestamp == MAX_TIMESTAMP and log.log_start_offset < limit:
        # Records without a time, the first of which is the latest.
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if found is None or found[1] >= limit:
        return -1, -1, -1
    return found[0], found[1], log.epoch_at(found[1])


def offset_for_leader_epoch(node: Node, context: RequestContext, request: Any) -> None:
    """Where leader epochs end, for clients that look whether the log was cut."""
    topics = []
    for topic in request.topics:
        partitions = []
        for each in topic.partitions:
            found = _EpochEnd(
                partition=each.partition, error_code=0, leader_epoch=-1, end_offset=-1
            )
            try:
                replica = node.leader_replica(
                    TopicPartition(topic.topic, each.partition), each.current_leader_epoch
                )
                found.leader_epoch, found.end_offset = replica.log.epoch_end(each.leader_epoch)
            except ReplicaError as error:
                found.error_code = int(error.code)
            partitions.append(found)
        topics.append(_EpochTopic(topic=topic.topic, partitions=partitions))
    context.reply(apis.OFFSET_FOR_LEADER_EPOCH.response(topics=topics))


def delete_records(node: Node, context: RequestContext, request: Any) -> None:
    """Delete what is before an offset, and answer when every replica has."""
    # A partition that is there twice is as in Kafka: what is said last is done.
    unknown: dict[TopicPartition, DeletedPartition] = {}
    wanted: dict[TopicPartition, int] = {}
    for topic in request.topics:
        for each in topic.partitions:
            key = TopicPartition(topic.name, each.partition_index)
            known = node.topics.get(topic.name)
            if not node.knows(key):
                unknown[key] = DeletedPartition(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            elif known is not None and known.is_internal:
                unknown[key] = DeletedPartition(key, ErrorCode.INVALID_TOPIC_EXCEPTION)
            elif known is not None and "delete" not in topic_value(
                "cleanup.policy", known.configs, node.settings
            ):
                unknown[key] = DeletedPartition(key, ErrorCode.POLICY_VIOLATION)
            else:
                wanted[key] = each.offset

    def reply(deleted: list[DeletedPartition]) -> None:
        topics: dict[str, list[Any]] = {}
        for each in [*unknown.values(), *deleted]:
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

    node.replicas.delete_records(request.timeout_ms, list(wanted.items()), reply)
