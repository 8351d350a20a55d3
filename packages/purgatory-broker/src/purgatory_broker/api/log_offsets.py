"""ListOffsets and OffsetForLeaderEpoch: look up offsets of a partition's log."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.list_offsets import (
    LIST_OFFSETS_MESSAGES,
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from purgatory_broker._wire.protocol.offset_for_leader_epoch import (
    OFFSET_FOR_LEADER_EPOCH_MESSAGES,
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, Subjects, refused_topics
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


@dataclass(frozen=True, slots=True)
class _OffsetQuestion:
    index: int
    #: A timestamp in milliseconds since 1970, or a special one.
    timestamp: int
    #: The leader epoch that the client knows; -1 for none.
    current_leader_epoch: int


@dataclass(frozen=True, slots=True)
class _ListedTopicOffsets:
    name: str
    partitions: tuple[_OffsetQuestion, ...]


@dataclass(frozen=True, slots=True)
class _ListOffsets:
    is_follower: bool
    topics: tuple[_ListedTopicOffsets, ...]


def _decode_list_offsets(message: Any, context: RequestContext) -> _ListOffsets:
    return _ListOffsets(
        message.replica_id >= 0,
        tuple(
            _ListedTopicOffsets(
                topic.name,
                tuple(
                    _OffsetQuestion(
                        partition.partition_index,
                        partition.timestamp,
                        partition.current_leader_epoch,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        ),
    )


def _list_offsets(broker: BrokerApi, context: RequestContext, request: _ListOffsets) -> Any:
    counts = Counter(
        TopicPartition(topic.name, partition.index)
        for topic in request.topics
        for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        # A partition that is named twice has one result, an error.
        results: dict[int, Any] = {}
        for question in topic.partitions:
            key = TopicPartition(topic.name, question.index)
            result = results[question.index] = ListOffsetsPartitionResponse(
                partition_index=question.index
            )
            since = SPECIAL_TIMESTAMP_SINCE.get(question.timestamp, sys.maxsize)
            if counts[key] > 1:
                result.error_code = int(ErrorCode.INVALID_REQUEST)
            elif question.timestamp < 0 and context.version < since:
                result.error_code = int(ErrorCode.UNSUPPORTED_VERSION)
            else:
                try:
                    replica = _leader_replica(broker, key, question.current_leader_epoch)
                    result.timestamp, result.offset, result.leader_epoch = _find_offset(
                        replica, question.timestamp, is_follower=request.is_follower
                    )
                except ReplicaError as error:
                    result.error_code = int(error.code)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=list(results.values())))
    return ListOffsetsResponse(topics=topics)


def _find_offset(replica: Replica, timestamp: int, *, is_follower: bool) -> tuple[int, int, int]:
    """Return (timestamp, offset, leader epoch), each -1 if there is none."""
    log = replica.log
    limit = log.end_offset if is_follower else replica.high_watermark
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


def _named_partitions(
    request: _ListOffsets | _OffsetForLeaderEpoch,
) -> list[tuple[str, list[int]]]:
    return [
        (topic.name, [partition.index for partition in topic.partitions])
        for topic in request.topics
    ]


def _refuse_list_offsets(request: _ListOffsets, code: ErrorCode) -> Any:
    topics = refused_topics(
        _named_partitions(request), ListOffsetsTopicResponse, ListOffsetsPartitionResponse, code
    )
    return ListOffsetsResponse(topics=topics)


LIST_OFFSETS = ServedApi(
    messages=LIST_OFFSETS_MESSAGES,
    versions=(1, 10),
    decode=_decode_list_offsets,
    answer=_list_offsets,
    refuse=_refuse_list_offsets,
    subjects=Subjects(partitions=lambda _broker, request: _named_partitions(request)),
)


@dataclass(frozen=True, slots=True)
class _EpochQuestion:
    index: int
    #: The leader epoch that the client knows; -1 for none.
    current_leader_epoch: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class _TopicEpochs:
    name: str
    partitions: tuple[_EpochQuestion, ...]


@dataclass(frozen=True, slots=True)
class _OffsetForLeaderEpoch:
    topics: tuple[_TopicEpochs, ...]


def _decode_offset_for_leader_epoch(message: Any, context: RequestContext) -> _OffsetForLeaderEpoch:
    return _OffsetForLeaderEpoch(
        tuple(
            _TopicEpochs(
                topic.topic,
                tuple(
                    _EpochQuestion(
                        partition.partition, partition.current_leader_epoch, partition.leader_epoch
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in message.topics
        )
    )


def _offset_for_leader_epoch(
    broker: BrokerApi, context: RequestContext, request: _OffsetForLeaderEpoch
) -> Any:
    topics = []
    for topic in request.topics:
        results = []
        for partition in topic.partitions:
            result = EpochEndOffset(partition=partition.index)
            key = TopicPartition(topic.name, partition.index)
            try:
                log = _leader_replica(broker, key, partition.current_leader_epoch).log
                epoch_end = log.end_offset_for_epoch(partition.leader_epoch)
                result.leader_epoch, result.end_offset = epoch_end
            except ReplicaError as error:
                result.error_code = int(error.code)
            results.append(result)
        topics.append(OffsetForLeaderTopicResult(topic=topic.name, partitions=results))
    return OffsetForLeaderEpochResponse(topics=topics)


def _refuse_offset_for_leader_epoch(request: _OffsetForLeaderEpoch, code: ErrorCode) -> Any:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.name,
                partitions=[
                    EpochEndOffset(partition=partition.index, error_code=int(code))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


OFFSET_FOR_LEADER_EPOCH = ServedApi(
    messages=OFFSET_FOR_LEADER_EPOCH_MESSAGES,
    versions=(2, 4),
    decode=_decode_offset_for_leader_epoch,
    answer=_offset_for_leader_epoch,
    refuse=_refuse_offset_for_leader_epoch,
    subjects=Subjects(partitions=lambda _broker, request: _named_partitions(request)),
)
