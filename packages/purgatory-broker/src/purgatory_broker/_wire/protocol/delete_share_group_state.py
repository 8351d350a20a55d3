"""The messages of DeleteShareGroupState.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class PartitionData(MessageStruct):
    """PartitionData of Kafka."""

    __slots__ = ("partition",)
    partition: int

    def __init__(self, partition: int = 0) -> None:
        self.partition = partition


class DeleteStateData(MessageStruct):
    """DeleteStateData of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionData]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionData] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class DeleteShareGroupStateRequest(MessageStruct):
    """DeleteShareGroupStateRequest of Kafka."""

    __slots__ = ("group_id", "topics")
    group_id: str
    topics: list[DeleteStateData]

    def __init__(self, group_id: str = "", topics: list[DeleteStateData] = NEW_LIST) -> None:
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


class DeleteStateResult(MessageStruct):
    """DeleteStateResult of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionResult]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionResult] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class DeleteShareGroupStateResponse(MessageStruct):
    """DeleteShareGroupStateResponse of Kafka."""

    __slots__ = ("results",)
    results: list[DeleteStateResult]

    def __init__(self, results: list[DeleteStateResult] = NEW_LIST) -> None:
        self.results = [] if results is NEW_LIST else results


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    (partition,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return PartitionData(partition)


def _read_delete_state_data(reader: Reader, version: int) -> DeleteStateData:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionData] = []
    for _ in range(reader.count("partitions", 5)):
        partitions.append(_read_partition_data(reader, version))
    reader.skip_tagged_fields()
    return DeleteStateData(topic_id, partitions)


def _read_delete_share_group_state_request(
    reader: Reader, version: int
) -> DeleteShareGroupStateRequest:
    group_id = reader.string("group_id")
    topics: list[DeleteStateData] = []
    for _ in range(reader.count("topics", 18)):
        topics.append(_read_delete_state_data(reader, version))
    reader.skip_tagged_fields()
    return DeleteShareGroupStateRequest(group_id, topics)


def _read_partition_result(reader: Reader, version: int) -> PartitionResult:
    partition, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return PartitionResult(partition, error_code, error_message)


def _read_delete_state_result(reader: Reader, version: int) -> DeleteStateResult:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionResult] = []
    for _ in range(reader.count("partitions", 8)):
        partitions.append(_read_partition_result(reader, version))
    reader.skip_tagged_fields()
    return DeleteStateResult(topic_id, partitions)


def _read_delete_share_group_state_response(
    reader: Reader, version: int
) -> DeleteShareGroupStateResponse:
    results: list[DeleteStateResult] = []
    for _ in range(reader.count("results", 18)):
        results.append(_read_delete_state_result(reader, version))
    reader.skip_tagged_fields()
    return DeleteShareGroupStateResponse(results)


def _write_partition_result(out: Writer, data: PartitionResult, version: int) -> None:
    out += _IH.pack(data.partition, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_delete_state_result(out: Writer, data: DeleteStateResult, version: int) -> None:
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for partition_result in data.partitions:
        _write_partition_result(out, partition_result, version)
    out.append(0)


def _write_delete_share_group_state_response(
    out: Writer, data: DeleteShareGroupStateResponse, version: int
) -> None:
    out.length(len(data.results))
    for delete_state_result in data.results:
        _write_delete_state_result(out, delete_state_result, version)
    out.append(0)


def _error_response(
    request: DeleteShareGroupStateRequest, code: int
) -> DeleteShareGroupStateResponse:
    return DeleteShareGroupStateResponse(
        results=[
            DeleteStateResult(
                topic_id=delete_state_data.topic_id,
                partitions=[
                    PartitionResult(partition=partition_data.partition, error_code=code)
                    for partition_data in delete_state_data.partitions
                ],
            )
            for delete_state_data in request.topics
        ]
    )


def _topics(request: DeleteShareGroupStateRequest) -> Iterator[NamedTopic]:
    for delete_state_data in request.topics:
        yield NamedTopic(
            None,
            delete_state_data.topic_id,
            [partition.partition for partition in delete_state_data.partitions],
        )


DELETE_SHARE_GROUP_STATE_MESSAGES = ApiMessages(
    key=86,
    name="DeleteShareGroupState",
    versions=(0, 0),
    flexible_since=0,
    request=DeleteShareGroupStateRequest,
    response=DeleteShareGroupStateResponse,
    read_request=_read_delete_share_group_state_request,
    read_response=_read_delete_share_group_state_response,
    write_response=_write_delete_share_group_state_response,
    error_response=_error_response,
    fields={},
    topics=_topics,
    names_partitions=True,
)
