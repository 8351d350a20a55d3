"""The messages of TxnOffsetCommit.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IQ = struct.Struct(">iq")
_IQI = struct.Struct(">iqi")
_QH = struct.Struct(">qh")
_QHI = struct.Struct(">qhi")


class TxnOffsetCommitRequestPartition(MessageStruct):
    """TxnOffsetCommitRequestPartition of Kafka."""

    __slots__ = (
        "partition_index",
        "committed_offset",
        "committed_leader_epoch",
        "committed_metadata",
    )
    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None

    def __init__(
        self,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index = partition_index
        self.committed_offset = committed_offset
        self.committed_leader_epoch = committed_leader_epoch
        self.committed_metadata = committed_metadata


class TxnOffsetCommitRequestTopic(MessageStruct):
    """TxnOffsetCommitRequestTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[TxnOffsetCommitRequestPartition]

    def __init__(
        self, name: str = "", partitions: list[TxnOffsetCommitRequestPartition] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class TxnOffsetCommitRequest(MessageStruct):
    """TxnOffsetCommitRequest of Kafka."""

    __slots__ = (
        "transactional_id",
        "group_id",
        "producer_id",
        "producer_epoch",
        "generation_id",
        "member_id",
        "group_instance_id",
        "topics",
    )
    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    topics: list[TxnOffsetCommitRequestTopic]

    def __init__(
        self,
        transactional_id: str = "",
        group_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        generation_id: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        topics: list[TxnOffsetCommitRequestTopic] = NEW_LIST,
    ) -> None:
        self.transactional_id = transactional_id
        self.group_id = group_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.topics = [] if topics is NEW_LIST else topics


class TxnOffsetCommitResponsePartition(MessageStruct):
    """TxnOffsetCommitResponsePartition of Kafka."""

    __slots__ = ("partition_index", "error_code")
    partition_index: int
    error_code: int

    def __init__(self, partition_index: int = 0, error_code: int = 0) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class TxnOffsetCommitResponseTopic(MessageStruct):
    """TxnOffsetCommitResponseTopic of Kafka."""

    __slots__ = ("name", "partitions")
    name: str
    partitions: list[TxnOffsetCommitResponsePartition]

    def __init__(
        self, name: str = "", partitions: list[TxnOffsetCommitResponsePartition] = NEW_LIST
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is NEW_LIST else partitions


class TxnOffsetCommitResponse(MessageStruct):
    """TxnOffsetCommitResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "topics")
    throttle_time_ms: int
    topics: list[TxnOffsetCommitResponseTopic]

    def __init__(
        self, throttle_time_ms: int = 0, topics: list[TxnOffsetCommitResponseTopic] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is NEW_LIST else topics


def _read_txn_offset_commit_request_partition(
    reader: Reader, version: int
) -> TxnOffsetCommitRequestPartition:
    committed_leader_epoch: int = -1
    if version >= 2:
        partition_index, committed_offset, committed_leader_epoch = _IQI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    else:
        partition_index, committed_offset = _IQ.unpack_from(reader.frame, reader.position)
        reader.position += 12
    committed_metadata = reader.nullable_string("committed_metadata")
    if version >= 3:
        reader.skip_tagged_fields()
    return TxnOffsetCommitRequestPartition(
        partition_index, committed_offset, committed_leader_epoch, committed_metadata
    )


def _read_txn_offset_commit_request_topic(
    reader: Reader, version: int
) -> TxnOffsetCommitRequestTopic:
    name = reader.string("name")
    partitions: list[TxnOffsetCommitRequestPartition] = []
    for _ in range(reader.count("partitions", 14)):
        partitions.append(_read_txn_offset_commit_request_partition(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return TxnOffsetCommitRequestTopic(name, partitions)


def _read_txn_offset_commit_request(reader: Reader, version: int) -> TxnOffsetCommitRequest:
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None
    transactional_id = reader.string("transactional_id")
    group_id = reader.string("group_id")
    if version >= 3:
        producer_id, producer_epoch, generation_id = _QHI.unpack_from(reader.frame, reader.position)
        reader.position += 14
    else:
        producer_id, producer_epoch = _QH.unpack_from(reader.frame, reader.position)
        reader.position += 10
    if version >= 3:
        member_id = reader.string("member_id")
        group_instance_id = reader.nullable_string("group_instance_id")
    topics: list[TxnOffsetCommitRequestTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_txn_offset_commit_request_topic(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return TxnOffsetCommitRequest(
        transactional_id,
        group_id,
        producer_id,
        producer_epoch,
        generation_id,
        member_id,
        group_instance_id,
        topics,
    )


def _read_txn_offset_commit_response_partition(
    reader: Reader, version: int
) -> TxnOffsetCommitResponsePartition:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    if version >= 3:
        reader.skip_tagged_fields()
    return TxnOffsetCommitResponsePartition(partition_index, error_code)


def _read_txn_offset_commit_response_topic(
    reader: Reader, version: int
) -> TxnOffsetCommitResponseTopic:
    name = reader.string("name")
    partitions: list[TxnOffsetCommitResponsePartition] = []
    for _ in range(reader.count("partitions", 6)):
        partitions.append(_read_txn_offset_commit_response_partition(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return TxnOffsetCommitResponseTopic(name, partitions)


def _read_txn_offset_commit_response(reader: Reader, version: int) -> TxnOffsetCommitResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    topics: list[TxnOffsetCommitResponseTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_txn_offset_commit_response_topic(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return TxnOffsetCommitResponse(throttle_time_ms, topics)


def _write_txn_offset_commit_response_partition(
    out: Writer, data: TxnOffsetCommitResponsePartition, version: int
) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    if version >= 3:
        out.append(0)


def _write_txn_offset_commit_response_topic(
    out: Writer, data: TxnOffsetCommitResponseTopic, version: int
) -> None:
    out.string(data.name)
    out.length(len(data.partitions))
    for txn_offset_commit_response_partition in data.partitions:
        _write_txn_offset_commit_response_partition(
            out, txn_offset_commit_response_partition, version
        )
    if version >= 3:
        out.append(0)


def _write_txn_offset_commit_response(
    out: Writer, data: TxnOffsetCommitResponse, version: int
) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.topics))
    for txn_offset_commit_response_topic in data.topics:
        _write_txn_offset_commit_response_topic(out, txn_offset_commit_response_topic, version)
    if version >= 3:
        out.append(0)


def _error_response(request: TxnOffsetCommitRequest, code: int) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=txn_offset_commit_request_topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=txn_offset_commit_request_partition.partition_index,
                        error_code=code,
                    )
                    for txn_offset_commit_request_partition in txn_offset_commit_request_topic.partitions
                ],
            )
            for txn_offset_commit_request_topic in request.topics
        ]
    )


def _topics(request: TxnOffsetCommitRequest) -> Iterator[NamedTopic]:
    for txn_offset_commit_request_topic in request.topics:
        yield NamedTopic(
            txn_offset_commit_request_topic.name,
            None,
            [partition.partition_index for partition in txn_offset_commit_request_topic.partitions],
        )


def _groups(request: TxnOffsetCommitRequest) -> Iterable[str]:
    return [request.group_id]


def _transactional_ids(request: TxnOffsetCommitRequest) -> Iterable[str]:
    return [request.transactional_id]


TXN_OFFSET_COMMIT_MESSAGES = ApiMessages(
    key=28,
    name="TxnOffsetCommit",
    versions=(0, 5),
    flexible_since=3,
    request=TxnOffsetCommitRequest,
    response=TxnOffsetCommitResponse,
    read_request=_read_txn_offset_commit_request,
    read_response=_read_txn_offset_commit_response,
    write_response=_write_txn_offset_commit_response,
    error_response=_error_response,
    fields={
        TxnOffsetCommitRequestPartition: {"committed_leader_epoch": (2, 5)},
        TxnOffsetCommitRequest: {
            "generation_id": (3, 5),
            "member_id": (3, 5),
            "group_instance_id": (3, 5),
        },
    },
    topics=_topics,
    names_partitions=True,
    groups=_groups,
    transactional_ids=_transactional_ids,
)
