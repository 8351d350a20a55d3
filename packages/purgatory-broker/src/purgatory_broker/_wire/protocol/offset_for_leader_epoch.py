"""The messages of OffsetForLeaderEpoch.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_HIIQ = struct.Struct(">hiiq")
_I = struct.Struct(">i")
_III = struct.Struct(">iii")


class OffsetForLeaderPartition(MessageStruct):
    """OffsetForLeaderPartition of Kafka."""

    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    partition: int
    current_leader_epoch: int
    leader_epoch: int

    def __init__(
        self, partition: int = 0, current_leader_epoch: int = -1, leader_epoch: int = 0
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.leader_epoch = leader_epoch


class OffsetForLeaderTopic(MessageStruct):
    """OffsetForLeaderTopic of Kafka."""

    __slots__ = ("topic", "partitions")
    topic: str
    partitions: list[OffsetForLeaderPartition]

    def __init__(
        self, topic: str = "", partitions: list[OffsetForLeaderPartition] = NEW_LIST
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetForLeaderEpochRequest(MessageStruct):
    """OffsetForLeaderEpochRequest of Kafka."""

    __slots__ = ("replica_id", "topics")
    replica_id: int
    topics: list[OffsetForLeaderTopic]

    def __init__(self, replica_id: int = -2, topics: list[OffsetForLeaderTopic] = NEW_LIST) -> None:
        self.replica_id = replica_id
        self.topics = [] if topics is NEW_LIST else topics


class EpochEndOffset(MessageStruct):
    """EpochEndOffset of Kafka."""

    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int

    def __init__(
        self, error_code: int = 0, partition: int = 0, leader_epoch: int = -1, end_offset: int = -1
    ) -> None:
        self.error_code = error_code
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.end_offset = end_offset


class OffsetForLeaderTopicResult(MessageStruct):
    """OffsetForLeaderTopicResult of Kafka."""

    __slots__ = ("topic", "partitions")
    topic: str
    partitions: list[EpochEndOffset]

    def __init__(self, topic: str = "", partitions: list[EpochEndOffset] = NEW_LIST) -> None:
        self.topic = topic
        self.partitions = [] if partitions is NEW_LIST else partitions


class OffsetForLeaderEpochResponse(MessageStruct):
    """OffsetForLeaderEpochResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[OffsetForLeaderTopicResult]

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[OffsetForLeaderTopicResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_offset_for_leader_partition(reader: Reader, version: int) -> OffsetForLeaderPartition:
    partition, current_leader_epoch, leader_epoch = _III.unpack_from(reader.frame, reader.position)
    reader.position += 12
    if version >= 4:
        reader.skip_tagged_fields()
    return OffsetForLeaderPartition(partition, current_leader_epoch, leader_epoch)


def _read_offset_for_leader_topic(reader: Reader, version: int) -> OffsetForLeaderTopic:
    topic = reader.string("topic")
    partitions: list[OffsetForLeaderPartition] = []
    for _ in range(reader.count("partitions", 12)):
        partitions.append(_read_offset_for_leader_partition(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return OffsetForLeaderTopic(topic, partitions)


def _read_offset_for_leader_epoch_request(
    reader: Reader, version: int
) -> OffsetForLeaderEpochRequest:
    replica_id: int = -2
    if version >= 3:
        (replica_id,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics: list[OffsetForLeaderTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_offset_for_leader_topic(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return OffsetForLeaderEpochRequest(replica_id, topics)


def _read_epoch_end_offset(reader: Reader, version: int) -> EpochEndOffset:
    error_code, partition, leader_epoch, end_offset = _HIIQ.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 18
    if version >= 4:
        reader.skip_tagged_fields()
    return EpochEndOffset(error_code, partition, leader_epoch, end_offset)


def _read_offset_for_leader_topic_result(
    reader: Reader, version: int
) -> OffsetForLeaderTopicResult:
    topic = reader.string("topic")
    partitions: list[EpochEndOffset] = []
    for _ in range(reader.count("partitions", 18)):
        partitions.append(_read_epoch_end_offset(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return OffsetForLeaderTopicResult(topic, partitions)


def _read_offset_for_leader_epoch_response(
    reader: Reader, version: int
) -> OffsetForLeaderEpochResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics: list[OffsetForLeaderTopicResult] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_offset_for_leader_topic_result(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return OffsetForLeaderEpochResponse(throttle_time_ms, topics)


def _write_epoch_end_offset(out: Writer, data: EpochEndOffset, version: int) -> None:
    out += _HIIQ.pack(data.error_code, data.partition, data.leader_epoch, data.end_offset)
    if version >= 4:
        out.append(0)


def _write_offset_for_leader_topic_result(
    out: Writer, data: OffsetForLeaderTopicResult, version: int
) -> None:
    out.string(data.topic)
    out.length(len(data.partitions))
    for epoch_end_offset in data.partitions:
        _write_epoch_end_offset(out, epoch_end_offset, version)
    if version >= 4:
        out.append(0)


def _write_offset_for_leader_epoch_response(
    out: Writer, data: OffsetForLeaderEpochResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for offset_for_leader_topic_result in data.topics:
        _write_offset_for_leader_topic_result(out, offset_for_leader_topic_result, version)
    if version >= 4:
        out.append(0)


def _error_response(
    request: OffsetForLeaderEpochRequest, code: int
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=offset_for_leader_topic.topic,
                partitions=[
                    EpochEndOffset(error_code=code, partition=offset_for_leader_partition.partition)
                    for offset_for_leader_partition in offset_for_leader_topic.partitions
                ],
            )
            for offset_for_leader_topic in request.topics
        ]
    )


def _topics(request: OffsetForLeaderEpochRequest) -> Iterator[NamedTopic]:
    for offset_for_leader_topic in request.topics:
        yield NamedTopic(
            offset_for_leader_topic.topic,
            None,
            [partition.partition for partition in offset_for_leader_topic.partitions],
        )


OFFSET_FOR_LEADER_EPOCH_MESSAGES = ApiMessages(
    key=23,
    name="OffsetForLeaderEpoch",
    versions=(2, 4),
    flexible_since=4,
    request=OffsetForLeaderEpochRequest,
    response=OffsetForLeaderEpochResponse,
    read_request=_read_offset_for_leader_epoch_request,
    read_response=_read_offset_for_leader_epoch_response,
    write_response=_write_offset_for_leader_epoch_response,
    error_response=_error_response,
    fields={OffsetForLeaderEpochRequest: {"replica_id": (3, 4)}},
    topics=_topics,
    names_partitions=True,
)
