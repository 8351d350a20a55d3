"""ListOffsets: look up the earliest, the latest or a timestamp's offset."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest, ListOffsetsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.leader_replica import leader_replica
from purgatory_broker.api.served_api import ServedApi, request_subjects
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.replica import Replica, ReplicaError
from purgatory_broker.request_context import RequestContext, RequestSubjects, Subject
from purgatory_broker.wire.error_code import ErrorCode

_ListedTopic = ListOffsetsResponse.ListOffsetsTopicResponse
_Listed = _ListedTopic.ListOffsetsPartitionResponse

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
class _PartitionQuestion:
    """A question for an offset of a partition.

    Attributes:
        timestamp: A timestamp in milliseconds since 1970, or a special one.
        current_leader_epoch: The leader epoch that the client knows; -1 for none.
    """

    index: int
    timestamp: int
    current_leader_epoch: int


@dataclass(frozen=True, slots=True)
class _TopicQuestions:
    name: str
    partitions: tuple[_PartitionQuestion, ...]


@dataclass(frozen=True, slots=True)
class _Request:
    """A request for offsets, of a follower or of a client."""

    is_follower: bool
    topics: tuple[_TopicQuestions, ...]


def _decode(message: Any, context: RequestContext) -> _Request:
    return _Request(
        message.replica_id >= 0,
        tuple(
            _TopicQuestions(
                topic.name,
                tuple(
                    _PartitionQuestion(
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


def _list_offsets(broker: BrokerApi, context: RequestContext, request: _Request) -> None:
    counts = Counter(
        TopicPartition(topic.name, partition.index)
        for topic in request.topics
        for partition in topic.partitions
    )
    topics = []
    for topic in request.topics:
        # A partition that is named twice has one result, an error.
        by_index = {partition.index: partition for partition in topic.partitions}
        results = []
        for index, partition in by_index.items():
            key = TopicPartition(topic.name, index)
            results.append(
                _list_partition(
                    broker, context, request, key, partition, is_named_once=counts[key] == 1
                )
            )
        topics.append(_ListedTopic(name=topic.name, partitions=results))
    context.reply(ListOffsetsResponse(topics=topics))


def _list_partition(
    broker: BrokerApi,
    context: RequestContext,
    request: _Request,
    key: TopicPartition,
    partition: _PartitionQuestion,
    *,
    is_named_once: bool,
) -> Any:
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
            replica = leader_replica(broker, key, partition.current_leader_epoch)
            result.timestamp, result.offset, result.leader_epoch = _find_offset(
                replica, timestamp, is_follower=request.is_follower
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


def _error_response(request: _Request, code: ErrorCode) -> Any:
    return ListOffsetsResponse(
        topics=[
            _ListedTopic(
                name=topic.name,
                partitions=[
                    _Listed(partition_index=partition.index, error_code=int(code))
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _subjects(broker: BrokerApi, request: _Request) -> RequestSubjects:
    return request_subjects(
        partitions=(
            (topic.name, (partition.index for partition in topic.partitions))
            for topic in request.topics
        )
    )


API = ServedApi(
    key=2,
    name="ListOffsets",
    request=ListOffsetsRequest,
    response=ListOffsetsResponse,
    min_version=1,
    max_version=10,
    decode=_decode,
    handle=_list_offsets,
    error_response=_error_response,
    subjects=_subjects,
    names=frozenset({Subject.TOPIC, Subject.PARTITION}),
)
