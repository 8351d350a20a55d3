"""The messages of WriteShareGroupState.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_IH = struct.Struct(">ih")
_IIIQ = struct.Struct(">iiiq")
_QQBH = struct.Struct(">qqbh")


class StateBatch(MessageStruct):
    """StateBatch of Kafka."""

    __slots__ = ("first_offset", "last_offset", "delivery_state", "delivery_count")
    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class PartitionData(MessageStruct):
    """PartitionData of Kafka."""

    __slots__ = ("partition", "state_epoch", "leader_epoch", "start_offset", "state_batches")
    partition: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    state_batches: list[StateBatch]

    def __init__(
        self,
        partition: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[StateBatch] = NEW_LIST,
    ) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is NEW_LIST else state_batches


class WriteStateData(MessageStruct):
    """WriteStateData of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionData]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionData] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class WriteShareGroupStateRequest(MessageStruct):
    """WriteShareGroupStateRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[WriteStateData]

    def __init__(self, group_id: str = "", topics: list[WriteStateData] = NEW_LIST) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics


class PartitionResult(MessageStruct):
    """PartitionResult of Kafka."""

    __slots__ = ("partition", "error_code", "error_message")
    partition: int
    error_code: int
    error_message: str | None

    def __init__(
        self, partition: int = 0, error_code: int = 0, error_message: str | None = None
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message


class WriteStateResult(MessageStruct):
    """WriteStateResult of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionResult]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionResult] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class WriteShareGroupStateResponse(MessageStruct):
    """WriteShareGroupStateResponse of Kafka."""

    __slots__ = ("results",)
    results: list[WriteStateResult]

    def __init__(self, results: list[WriteStateResult] = NEW_LIST) -> None:
        self.results = [] if results is NEW_LIST else results


def _read_state_batch(reader: Reader, version: int) -> StateBatch:
    first_offset, last_offset, delivery_state, delivery_count = _QQBH.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 19
    reader.skip_tagged_fields()
    return StateBatch(first_offset, last_offset, delivery_state, delivery_count)


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    partition, state_epoch, leader_epoch, start_offset = _IIIQ.unpack_from(
        reader.frame, reader.position
    )
    reader.position += 20
    state_batches: list[StateBatch] = []
    for _ in range(reader.count("state_batches", 20)):
        state_batches.append(_read_state_batch(reader, version))
    reader.skip_tagged_fields()
    return PartitionData(partition, state_epoch, leader_epoch, start_offset, state_batches)


def _read_write_state_data(reader: Reader, version: int) -> WriteStateData:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionData] = []
    for _ in range(reader.count("partitions", 22)):
        partitions.append(_read_partition_data(reader, version))
    reader.skip_tagged_fields()
    return WriteStateData(topic_id, partitions)


def _read_write_share_group_state_request(
    reader: Reader, version: int
) -> WriteShareGroupStateRequest:
    group_id = reader.string("group_id")
    topics: list[WriteStateData] = []
    for _ in range(reader.count("topics", 18)):
        topics.append(_read_write_state_data(reader, version))
    reader.skip_tagged_fields()
    return WriteShareGroupStateRequest(group_id, topics)


def _read_partition_result(reader: Reader, version: int) -> PartitionResult:
    partition, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return PartitionResult(partition, error_code, error_message)


def _read_write_state_result(reader: Reader, version: int) -> WriteStateResult:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionResult] = []
    for _ in range(reader.count("partitions", 8)):
        partitions.append(_read_partition_result(reader, version))
    reader.skip_tagged_fields()
    return WriteStateResult(topic_id, partitions)


def _read_write_share_group_state_response(
    reader: Reader, version: int
) -> WriteShareGroupStateResponse:
    results: list[WriteStateResult] = []
    for _ in range(reader.count("results", 18)):
        results.append(_read_write_state_result(reader, version))
    reader.skip_tagged_fields()
    return WriteShareGroupStateResponse(results)


def _write_partition_result(out: Writer, data: PartitionResult, version: int) -> None:
    out += _IH.pack(data.partition, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_write_state_result(out: Writer, data: WriteStateResult, version: int) -> None:
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for partition_result in data.partitions:
        _write_partition_result(out, partition_result, version)
    out.append(0)


def _write_write_share_group_state_response(
    out: Writer, data: WriteShareGroupStateResponse, version: int
) -> None:
    out.length(len(data.results))
    for write_state_result in data.results:
        _write_write_state_result(out, write_state_result, version)
    out.append(0)


def _error_response(
    request: WriteShareGroupStateRequest, code: int
) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
                topic_id=write_state_data.topic_id,
                partitions=[
                    PartitionResult(partition=partition_data.partition, error_code=code)
                    for partition_data in write_state_data.partitions
                ],
            )
            for write_state_data in request.topics
        ]
    )


def _topics(request: WriteShareGroupStateRequest) -> Iterator[NamedTopic]:
    for write_state_data in request.topics:
        yield NamedTopic(
            None,
            write_state_data.topic_id,
            [partition.partition for partition in write_state_data.partitions],
        )


WRITE_SHARE_GROUP_STATE_MESSAGES = ApiMessages(
    key=85,
    name="WriteShareGroupState",
    versions=(0, 0),
    flexible_since=0,
    request=WriteShareGroupStateRequest,
    response=WriteShareGroupStateResponse,
    read_request=_read_write_share_group_state_request,
    read_response=_read_write_share_group_state_response,
    write_response=_write_write_share_group_state_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
