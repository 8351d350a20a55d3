"""The messages of ReadShareGroupStateSummary.

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
_II = struct.Struct(">ii")
_IIQ = struct.Struct(">iiq")


class PartitionData(MessageStruct):
    """PartitionData of Kafka."""

    __slots__ = ("partition", "leader_epoch")
    partition: int
    leader_epoch: int

    def __init__(self, partition: int = 0, leader_epoch: int = 0) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch


class ReadStateSummaryData(MessageStruct):
    """ReadStateSummaryData of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionData]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionData] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class ReadShareGroupStateSummaryRequest(MessageStruct):
    """ReadShareGroupStateSummaryRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[ReadStateSummaryData]

    def __init__(self, group_id: str = "", topics: list[ReadStateSummaryData] = NEW_LIST) -> None:
        self.group_id = group_id
        self.topics = [] if topics is NEW_LIST else topics


class PartitionResult(MessageStruct):
    """PartitionResult of Kafka."""

    __slots__ = (
        "partition",
        "error_code",
        "error_message",
        "state_epoch",
        "leader_epoch",
        "start_offset",
    )
    partition: int
    error_code: int
    error_message: str | None
    state_epoch: int
    leader_epoch: int
    start_offset: int

    def __init__(
        self,
        partition: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.error_message = error_message
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset


class ReadStateSummaryResult(MessageStruct):
    """ReadStateSummaryResult of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionResult]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionResult] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class ReadShareGroupStateSummaryResponse(MessageStruct):
    """ReadShareGroupStateSummaryResponse of Kafka."""

    __slots__ = ("results",)
    results: list[ReadStateSummaryResult]

    def __init__(self, results: list[ReadStateSummaryResult] = NEW_LIST) -> None:
        self.results = [] if results is NEW_LIST else results


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    partition, leader_epoch = _II.unpack_from(reader.frame, reader.position)
    reader.position += 8
    reader.skip_tagged_fields()
    return PartitionData(partition, leader_epoch)


def _read_read_state_summary_data(reader: Reader, version: int) -> ReadStateSummaryData:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionData] = []
    for _ in range(reader.count("partitions", 9)):
        partitions.append(_read_partition_data(reader, version))
    reader.skip_tagged_fields()
    return ReadStateSummaryData(topic_id, partitions)


def _read_read_share_group_state_summary_request(
    reader: Reader, version: int
) -> ReadShareGroupStateSummaryRequest:
    group_id = reader.string("group_id")
    topics: list[ReadStateSummaryData] = []
    for _ in range(reader.count("topics", 18)):
        topics.append(_read_read_state_summary_data(reader, version))
    reader.skip_tagged_fields()
    return ReadShareGroupStateSummaryRequest(group_id, topics)


def _read_partition_result(reader: Reader, version: int) -> PartitionResult:
    partition, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    state_epoch, leader_epoch, start_offset = _IIQ.unpack_from(reader.frame, reader.position)
    reader.position += 16
    reader.skip_tagged_fields()
    return PartitionResult(
        partition, error_code, error_message, state_epoch, leader_epoch, start_offset
    )


def _read_read_state_summary_result(reader: Reader, version: int) -> ReadStateSummaryResult:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionResult] = []
    for _ in range(reader.count("partitions", 24)):
        partitions.append(_read_partition_result(reader, version))
    reader.skip_tagged_fields()
    return ReadStateSummaryResult(topic_id, partitions)


def _read_read_share_group_state_summary_response(
    reader: Reader, version: int
) -> ReadShareGroupStateSummaryResponse:
    results: list[ReadStateSummaryResult] = []
    for _ in range(reader.count("results", 18)):
        results.append(_read_read_state_summary_result(reader, version))
    reader.skip_tagged_fields()
    return ReadShareGroupStateSummaryResponse(results)


def _write_partition_result(out: Writer, data: PartitionResult, version: int) -> None:
    out += _IH.pack(data.partition, data.error_code)
    out.nullable_string(data.error_message)
    out += _IIQ.pack(data.state_epoch, data.leader_epoch, data.start_offset)
    out.append(0)


def _write_read_state_summary_result(
    out: Writer, data: ReadStateSummaryResult, version: int
) -> None:
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for partition_result in data.partitions:
        _write_partition_result(out, partition_result, version)
    out.append(0)


def _write_read_share_group_state_summary_response(
    out: Writer, data: ReadShareGroupStateSummaryResponse, version: int
) -> None:
    out.length(len(data.results))
    for read_state_summary_result in data.results:
        _write_read_state_summary_result(out, read_state_summary_result, version)
    out.append(0)


def _error_response(
    request: ReadShareGroupStateSummaryRequest, code: int
) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=read_state_summary_data.topic_id,
                partitions=[
                    PartitionResult(partition=partition_data.partition, error_code=code)
                    for partition_data in read_state_summary_data.partitions
                ],
            )
            for read_state_summary_data in request.topics
        ]
    )


def _topics(request: ReadShareGroupStateSummaryRequest) -> Iterator[NamedTopic]:
    for read_state_summary_data in request.topics:
        yield NamedTopic(
            None,
            read_state_summary_data.topic_id,
            [partition.partition for partition in read_state_summary_data.partitions],
        )


READ_SHARE_GROUP_STATE_SUMMARY_MESSAGES = ApiMessages(
    key=87,
    name="ReadShareGroupStateSummary",
    versions=(0, 0),
    flexible_since=0,
    request=ReadShareGroupStateSummaryRequest,
    response=ReadShareGroupStateSummaryResponse,
    read_request=_read_read_share_group_state_summary_request,
    read_response=_read_read_share_group_state_summary_response,
    write_response=_write_read_share_group_state_summary_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
