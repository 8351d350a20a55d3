"""The messages of ShareFetch.

Made from Kafka 4.2.0's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_II = struct.Struct(">ii")
_IIIIII = struct.Struct(">iiiiii")
_IIIIIIBT = struct.Struct(">iiiiiib?")
_QQ = struct.Struct(">qq")
_QQH = struct.Struct(">qqh")


class AcknowledgementBatch(MessageStruct):
    """AcknowledgementBatch of Kafka."""

    __slots__ = ("first_offset", "last_offset", "acknowledge_types")
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, acknowledge_types: list[int] = NEW_LIST
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.acknowledge_types = [] if acknowledge_types is NEW_LIST else acknowledge_types


class FetchPartition(MessageStruct):
    """FetchPartition of Kafka."""

    __slots__ = ("partition_index", "acknowledgement_batches")
    partition_index: int
    acknowledgement_batches: list[AcknowledgementBatch]

    def __init__(
        self,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = NEW_LIST,
    ) -> None:
        self.partition_index = partition_index
        self.acknowledgement_batches = (
            [] if acknowledgement_batches is NEW_LIST else acknowledgement_batches
        )


class FetchTopic(MessageStruct):
    """FetchTopic of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[FetchPartition]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[FetchPartition] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class ForgottenTopic(MessageStruct):
    """ForgottenTopic of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[int]

    def __init__(self, topic_id: UUID | None = None, partitions: list[int] = NEW_LIST) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class ShareFetchRequest(MessageStruct):
    """ShareFetchRequest of Kafka."""

    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "max_records",
        "batch_size",
        "share_acquire_mode",
        "is_renew_ack",
        "topics",
        "forgotten_topics_data",
    )
    group_id: str | None
    member_id: str | None
    share_session_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    share_acquire_mode: int
    is_renew_ack: bool
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]

    def __init__(
        self,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] = NEW_LIST,
        forgotten_topics_data: list[ForgottenTopic] = NEW_LIST,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.share_session_epoch = share_session_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.max_records = max_records
        self.batch_size = batch_size
        self.share_acquire_mode = share_acquire_mode
        self.is_renew_ack = is_renew_ack
        self.topics = [] if topics is NEW_LIST else topics
        self.forgotten_topics_data = (
            [] if forgotten_topics_data is NEW_LIST else forgotten_topics_data
        )


class LeaderIdAndEpoch(MessageStruct):
    """LeaderIdAndEpoch of Kafka."""

    __slots__ = ("leader_id", "leader_epoch")
    leader_id: int
    leader_epoch: int

    def __init__(self, leader_id: int = 0, leader_epoch: int = 0) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class AcquiredRecords(MessageStruct):
    """AcquiredRecords of Kafka."""

    __slots__ = ("first_offset", "last_offset", "delivery_count")
    first_offset: int
    last_offset: int
    delivery_count: int

    def __init__(
        self, first_offset: int = 0, last_offset: int = 0, delivery_count: int = 0
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_count = delivery_count


class PartitionData(MessageStruct):
    """PartitionData of Kafka."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "acknowledge_error_code",
        "acknowledge_error_message",
        "current_leader",
        "records",
        "acquired_records",
    )
    partition_index: int
    error_code: int
    error_message: str | None
    acknowledge_error_code: int
    acknowledge_error_message: str | None
    current_leader: LeaderIdAndEpoch | None
    records: bytes
    acquired_records: list[AcquiredRecords]

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        records: bytes = b"",
        acquired_records: list[AcquiredRecords] = NEW_LIST,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.acknowledge_error_code = acknowledge_error_code
        self.acknowledge_error_message = acknowledge_error_message
        self.current_leader = current_leader
        self.records = records
        self.acquired_records = [] if acquired_records is NEW_LIST else acquired_records


class ShareFetchableTopicResponse(MessageStruct):
    """ShareFetchableTopicResponse of Kafka."""

    __slots__ = ("topic_id", "partitions")
    topic_id: UUID | None
    partitions: list[PartitionData]

    def __init__(
        self, topic_id: UUID | None = None, partitions: list[PartitionData] = NEW_LIST
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class NodeEndpoint(MessageStruct):
    """NodeEndpoint of Kafka."""

    __slots__ = ("node_id", "host", "port", "rack")
    node_id: int
    host: str
    port: int
    rack: str | None

    def __init__(
        self, node_id: int = 0, host: str = "", port: int = 0, rack: str | None = None
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port
        self.rack = rack


class ShareFetchResponse(MessageStruct):
    """ShareFetchResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    acquisition_lock_timeout_ms: int
    responses: list[ShareFetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchableTopicResponse] = NEW_LIST,
        node_endpoints: list[NodeEndpoint] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.acquisition_lock_timeout_ms = acquisition_lock_timeout_ms
        self.responses = [] if responses is NEW_LIST else responses
        self.node_endpoints = [] if node_endpoints is NEW_LIST else node_endpoints


def _read_acknowledgement_batch(reader: Reader, version: int) -> AcknowledgementBatch:
    first_offset, last_offset = _QQ.unpack_from(reader.frame, reader.position)
    reader.position += 16
    acknowledge_types = reader.numbers("acknowledge_types", "b", 1)
    reader.skip_tagged_fields()
    return AcknowledgementBatch(first_offset, last_offset, acknowledge_types)


def _read_fetch_partition(reader: Reader, version: int) -> FetchPartition:
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    acknowledgement_batches: list[AcknowledgementBatch] = []
    for _ in range(reader.count("acknowledgement_batches", 18)):
        acknowledgement_batches.append(_read_acknowledgement_batch(reader, version))
    reader.skip_tagged_fields()
    return FetchPartition(partition_index, acknowledgement_batches)


def _read_fetch_topic(reader: Reader, version: int) -> FetchTopic:
    topic_id = reader.topic_id("topic_id")
    partitions: list[FetchPartition] = []
    for _ in range(reader.count("partitions", 6)):
        partitions.append(_read_fetch_partition(reader, version))
    reader.skip_tagged_fields()
    return FetchTopic(topic_id, partitions)


def _read_forgotten_topic(reader: Reader, version: int) -> ForgottenTopic:
    topic_id = reader.topic_id("topic_id")
    partitions = reader.numbers("partitions", "i", 4)
    reader.skip_tagged_fields()
    return ForgottenTopic(topic_id, partitions)


def _read_share_fetch_request(reader: Reader, version: int) -> ShareFetchRequest:
    share_acquire_mode: int = 0
    is_renew_ack: bool = False
    group_id = reader.nullable_string("group_id")
    member_id = reader.nullable_string("member_id")
    if version >= 2:
        (
            share_session_epoch,
            max_wait_ms,
            min_bytes,
            max_bytes,
            max_records,
            batch_size,
            share_acquire_mode,
            is_renew_ack,
        ) = _IIIIIIBT.unpack_from(reader.frame, reader.position)
        reader.position += 26
    else:
        share_session_epoch, max_wait_ms, min_bytes, max_bytes, max_records, batch_size = (
            _IIIIII.unpack_from(reader.frame, reader.position)
        )
        reader.position += 24
    topics: list[FetchTopic] = []
    for _ in range(reader.count("topics", 18)):
        topics.append(_read_fetch_topic(reader, version))
    forgotten_topics_data: list[ForgottenTopic] = []
    for _ in range(reader.count("forgotten_topics_data", 18)):
        forgotten_topics_data.append(_read_forgotten_topic(reader, version))
    reader.skip_tagged_fields()
    return ShareFetchRequest(
        group_id,
        member_id,
        share_session_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        max_records,
        batch_size,
        share_acquire_mode,
        is_renew_ack,
        topics,
        forgotten_topics_data,
    )


def _read_leader_id_and_epoch(reader: Reader, version: int) -> LeaderIdAndEpoch:
    leader_id, leader_epoch = _II.unpack_from(reader.frame, reader.position)
    reader.position += 8
    reader.skip_tagged_fields()
    return LeaderIdAndEpoch(leader_id, leader_epoch)


def _read_acquired_records(reader: Reader, version: int) -> AcquiredRecords:
    first_offset, last_offset, delivery_count = _QQH.unpack_from(reader.frame, reader.position)
    reader.position += 18
    reader.skip_tagged_fields()
    return AcquiredRecords(first_offset, last_offset, delivery_count)


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    (acknowledge_error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    acknowledge_error_message = reader.nullable_string("acknowledge_error_message")
    current_leader = _read_leader_id_and_epoch(reader, version)
    records = reader.blob("records")
    acquired_records: list[AcquiredRecords] = []
    for _ in range(reader.count("acquired_records", 19)):
        acquired_records.append(_read_acquired_records(reader, version))
    reader.skip_tagged_fields()
    return PartitionData(
        partition_index,
        error_code,
        error_message,
        acknowledge_error_code,
        acknowledge_error_message,
        current_leader,
        records,
        acquired_records,
    )


def _read_share_fetchable_topic_response(
    reader: Reader, version: int
) -> ShareFetchableTopicResponse:
    topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionData] = []
    for _ in range(reader.count("partitions", 14)):
        partitions.append(_read_partition_data(reader, version))
    reader.skip_tagged_fields()
    return ShareFetchableTopicResponse(topic_id, partitions)


def _read_node_endpoint(reader: Reader, version: int) -> NodeEndpoint:
    (node_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    host = reader.string("host")
    (port,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    rack = reader.nullable_string("rack")
    reader.skip_tagged_fields()
    return NodeEndpoint(node_id, host, port, rack)


def _read_share_fetch_response(reader: Reader, version: int) -> ShareFetchResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    (acquisition_lock_timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    responses: list[ShareFetchableTopicResponse] = []
    for _ in range(reader.count("responses", 18)):
        responses.append(_read_share_fetchable_topic_response(reader, version))
    node_endpoints: list[NodeEndpoint] = []
    for _ in range(reader.count("node_endpoints", 11)):
        node_endpoints.append(_read_node_endpoint(reader, version))
    reader.skip_tagged_fields()
    return ShareFetchResponse(
        throttle_time_ms,
        error_code,
        error_message,
        acquisition_lock_timeout_ms,
        responses,
        node_endpoints,
    )


def _write_leader_id_and_epoch(out: Writer, data: LeaderIdAndEpoch, version: int) -> None:
    out += _II.pack(data.leader_id, data.leader_epoch)
    out.append(0)


def _write_acquired_records(out: Writer, data: AcquiredRecords, version: int) -> None:
    out += _QQH.pack(data.first_offset, data.last_offset, data.delivery_count)
    out.append(0)


def _write_partition_data(out: Writer, data: PartitionData, version: int) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    out.nullable_string(data.error_message)
    out += _H.pack(data.acknowledge_error_code)
    out.nullable_string(data.acknowledge_error_message)
    _write_leader_id_and_epoch(out, not_null(data.current_leader, "current_leader"), version)
    out.blob(data.records)
    out.length(len(data.acquired_records))
    for acquired_records in data.acquired_records:
        _write_acquired_records(out, acquired_records, version)
    out.append(0)


def _write_share_fetchable_topic_response(
    out: Writer, data: ShareFetchableTopicResponse, version: int
) -> None:
    out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for partition_data in data.partitions:
        _write_partition_data(out, partition_data, version)
    out.append(0)


def _write_node_endpoint(out: Writer, data: NodeEndpoint, version: int) -> None:
    out += _I.pack(data.node_id)
    out.string(data.host)
    out += _I.pack(data.port)
    out.nullable_string(data.rack)
    out.append(0)


def _write_share_fetch_response(out: Writer, data: ShareFetchResponse, version: int) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out += _I.pack(data.acquisition_lock_timeout_ms)
    out.length(len(data.responses))
    for share_fetchable_topic_response in data.responses:
        _write_share_fetchable_topic_response(out, share_fetchable_topic_response, version)
    out.length(len(data.node_endpoints))
    for node_endpoint in data.node_endpoints:
        _write_node_endpoint(out, node_endpoint, version)
    out.append(0)


def _error_response(request: ShareFetchRequest, code: int) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=code)


def _topics(request: ShareFetchRequest) -> Iterator[NamedTopic]:
    for fetch_topic in request.topics:
        yield NamedTopic(
            None,
            fetch_topic.topic_id,
            [partition.partition_index for partition in fetch_topic.partitions],
        )


def _groups(request: ShareFetchRequest) -> Iterable[str]:
    return [request.group_id] if request.group_id else []


SHARE_FETCH_MESSAGES = ApiMessages(
    key=78,
    name="ShareFetch",
    versions=(1, 2),
    flexible_since=0,
    request=ShareFetchRequest,
    response=ShareFetchResponse,
    read_request=_read_share_fetch_request,
    read_response=_read_share_fetch_response,
    write_response=_write_share_fetch_response,
    error_response=_error_response,
    fields={ShareFetchRequest: {"share_acquire_mode": (2, 2), "is_renew_ack": (2, 2)}},
    topics=_topics,
    names_partitions=True,
    groups=_groups,
)
