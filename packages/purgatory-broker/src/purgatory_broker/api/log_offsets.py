"""ListOffsets and OffsetForLeaderEpoch: look up offsets of a partition's log."""

from __future__ import annotations

import sys
from collections import Counter

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.list_offsets import (
    LIST_OFFSETS_MESSAGES,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from purgatory_broker._wire.protocol.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH_MESSAGES,
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from purgatory_broker.api.access import DENIED, allowed_topics, is_allowed
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.fetch import READ_COMMITTED
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.metadata.acls import AclOperation, AclResource
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica, ReplicaError
from purgatory_broker.request_context import RequestContext


def _leader_replica(broker: BrokerApi, key: TopicPartition, leader_epoch: int) -> Replica:
    """Return the replica of a partition that the broker leads; an epoch of -1 skips the check."""
    if not broker.metadata.partition_exists(key):
        raise ReplicaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return broker.replicas.require_leader(key, leader_epoch)


#: The special timestamps. Tiered storage is not supported, so EARLIEST_LOCAL is the
#: same as EARLIEST, and LATEST_TIERED does not exist.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5

#: The first version with each special timestamp.
SPECIAL_TIMESTAMP_SINCE = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
}


def _list_offsets(
    broker: BrokerApi, context: RequestContext, request: ListOffsetsRequest
) -> ListOffsetsResponse:
    counts = Counter(
        TopicPartition(topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    names = (topic.name for topic in request.topics)
    allowed = allowed_topics(broker, context, AclOperation.DESCRIBE, names)
    topics = []
    for topic in request.topics:
        # A partition that is named twice has one result, an error.
        results: dict[int, ListOffsetsPartitionResponse] = {}
        for wanted in topic.partitions:
            key = TopicPartition(topic.name, wanted.partition_index)
            result = ListOffsetsPartitionResponse(partition_index=key.partition)
            results[key.partition] = result
            since = SPECIAL_TIMESTAMP_SINCE.get(wanted.timestamp, sys.maxsize)
            if topic.name not in allowed:
                result.error_code = DENIED[AclResource.TOPIC]
            elif counts[key] > 1:
                result.error_code = ErrorCode.INVALID_REQUEST
            elif wanted.timestamp < 0 and context.version < since:
                result.error_code = ErrorCode.UNSUPPORTED_VERSION
            else:
                try:
                    replica = _leader_replica(broker, key, wanted.current_leader_epoch)
                    result.timestamp, result.offset, result.leader_epoch = _find_offset(
                        replica, wanted.timestamp, _limit_offset(replica, request)
                    )
                except ReplicaError as error:
                    result.error_code = error.code
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=list(results.values())))
    return ListOffsetsResponse(topics=topics)


def _limit_offset(replica: Replica, request: ListOffsetsRequest) -> int:
    if request.replica_id >= 0:
        return replica.log.end_offset
    if request.isolation_level == READ_COMMITTED:
        return replica.last_stable_offset
    return replica.high_watermark


def _find_offset(replica: Replica, timestamp: int, limit: int) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader epoch), each -1 if there is none before `limit`."""
    log = replica.log
    if timestamp == LATEST:
        return -1, limit, replica.leader_epoch
    if timestamp == LATEST_TIERED:
        return -1, -1, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    match = (
        log.max_timestamp_offset()
        if timestamp == MAX_TIMESTAMP
        else log.offset_for_timestamp(timestamp, limit)
    )
    if match is None and timestamp == MAX_TIMESTAMP and log.log_start_offset < limit:
        # No record has a timestamp: the first record counts as the latest.
        return -1, log.log_start_offset, log.epoch_at(log.log_start_offset)
    if match is None or match[1] >= limit:
        return -1, -1, -1
    return match[0], match[1], log.epoch_at(match[1])


LIST_OFFSETS = ServedApi(messages=LIST_OFFSETS_MESSAGES, versions=(1, 10), answer=_list_offsets)


def _offset_for_leader_epoch(
    broker: BrokerApi, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    topics = []
    is_broker = is_allowed(broker, context, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
    names = [topic.topic for topic in request.topics]
    allowed = names if is_broker else allowed_topics(broker, context, AclOperation.DESCRIBE, names)
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            result = EpochEndOffset(partition=partition.partition)
            results.append(result)
            if topic.topic not in allowed:
                result.error_code = DENIED[AclResource.TOPIC]
                continue
            key = TopicPartition(topic.topic, partition.partition)
            try:
                log = _leader_replica(broker, key, partition.current_leader_epoch).log
                epoch_end = log.end_offset_for_epoch(partition.leader_epoch)
                result.leader_epoch, result.end_offset = epoch_end
            except ReplicaError as error:
                result.error_code = error.code
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)


OFFSET_FOR_LEADER_EPOCH = ServedApi(
    messages=OFFSET_FOR_LEADER_EPOCH_MESSAGES,
    versions=(2, 4),
    answer=_offset_for_leader_epoch,
)
