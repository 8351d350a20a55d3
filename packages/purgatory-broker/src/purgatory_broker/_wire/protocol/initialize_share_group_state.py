"""The messages of InitializeShareGroupState.

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
_IIQ = struct.Struct(">iiq")


class PartitionData(MessageStruct):
    """PartitionData of Kafka."""

    __slots__ = ("partition", "state_epoch", "start_offset")
    partition: int
    state_epoch: int
    start_offset: int

    def __init__(self, partition: int = 0, state_epoch: int = 0, start_offset: int = 0) -> None:
        self.partition = partition
        self.state_epoch = state_epoch
        self.start_offset = start_offset


class InitializeStateData(MessageStruct):
    """InitializeStateData of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionData]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionData] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class InitializeShareGroupStateRequest(MessageStruct):
    """InitializeShareGroupStateRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[InitializeStateData]

    def __init__(self, group_id: str = "", topics: list[InitializeStateData] = NEW_LIST) -> None:
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


class InitializeStateResult(MessageStruct):
    """InitializeStateResult of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionResult]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionResult] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class InitializeShareGroupStateResponse(MessageStruct):
    """InitializeShareGroupStateResponse of Kafka."""

    __slots__ = ("results",)
    results: list[InitializeStateResult]

    def __init__(self, results: list[InitializeStateResult] = NEW_LIST) -> None:
        self.results = [] if results is NEW_LIST else results


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    partition, state_epoch, start_offset = _IIQ.unpack_from(reader.frame, reader.position)
    reader.position += 16
    reader.skip_tagged_fields()
    return PartitionData(partition, state_epoch, start_offset)


def _read_initialize_state_data(reader: Reader, version: int) -> InitializeStateData:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionData] = []
    for _ in range(reader.count("partitions", 17)):
        partitions.append(_read_partition_data(reader, version))
    reader.skip_tagged_fields()
    return InitializeStateData(topic_id, partitions)


def _read_initialize_share_group_state_request(
    reader: Reader, version: int
) -> InitializeShareGroupStateRequest:
    group_id = reader.string("group_id")
    topics: list[InitializeStateData] = []
    for _ in range(reader.count("topics", 18)):
        topics.append(_read_initialize_state_data(reader, version))
    reader.skip_tagged_fields()
    return InitializeShareGroupStateRequest(group_id, topics)


def _read_partition_result(reader: Reader, version: int) -> PartitionResult:
    partition, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return PartitionResult(partition, error_code, error_message)


def _read_initialize_state_result(reader: Reader, version: int) -> InitializeStateResult:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionResult] = []
    for _ in range(reader.count("partitions", 8)):
        partitions.append(_read_partition_result(reader, version))
    reader.skip_tagged_fields()
    return InitializeStateResult(topic_id, partitions)


def _read_initialize_share_group_state_response(
    reader: Reader, version: int
) -> InitializeShareGroupStateResponse:
    results: list[InitializeStateResult] = []
    for _ in range(reader.count("results", 18)):
        results.append(_read_initialize_state_result(reader, version))
    reader.skip_tagged_fields()
    return InitializeShareGroupStateResponse(results)


def _write_partition_result(out: Writer, data: PartitionResult, version: int) -> None:
    out += _IH.pack(data.partition, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_initialize_state_result(out: Writer, data: InitializeStateResult, version: int) -> None:
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for partition_result in data.partitions:
        _write_partition_result(out, partition_result, version)
    out.append(0)


def _write_initialize_share_group_state_response(
    out: Writer, data: InitializeShareGroupStateResponse, version: int
) -> None:
    out.length(len(data.results))
    for initialize_state_result in data.results:
        _write_initialize_state_result(out, initialize_state_result, version)
    out.append(0)


def _error_response(
    request: InitializeShareGroupStateRequest, code: int
) -> InitializeShareGroupStateResponse:
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(
                topic_id=initialize_state_data.topic_id,
                partitions=[
                    PartitionResult(partition=partition_data.partition, error_code=code)
                    for partition_data in initialize_state_data.partitions
                ],
            )
            for initialize_state_data in request.topics
        ]
    )


def _topics(request: InitializeShareGroupStateRequest) -> Iterator[NamedTopic]:
    for initialize_state_data in request.topics:
        yield NamedTopic(
            None,
            initialize_state_data.topic_id,
            [partition.partition for partition in initialize_state_data.partitions],
        )


INITIALIZE_SHARE_GROUP_STATE_MESSAGES = ApiMessages(
    key=83,
    name="InitializeShareGroupState",
    versions=(0, 0),
    flexible_since=0,
    request=InitializeShareGroupStateRequest,
    response=InitializeShareGroupStateResponse,
    read_request=_read_initialize_share_group_state_request,
    read_response=_read_initialize_share_group_state_response,
    write_response=_write_initialize_share_group_state_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
