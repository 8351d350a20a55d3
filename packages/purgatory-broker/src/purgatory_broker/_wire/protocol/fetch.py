"""The messages of Fetch.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader, refused_tag
from purgatory_broker._wire.writer import Writer

_I = struct.Struct(">i")
_IHI = struct.Struct(">ihi")
_IHQQ = struct.Struct(">ihqq")
_IHQQQ = struct.Struct(">ihqqq")
_II = struct.Struct(">ii")
_IIIBII = struct.Struct(">iiibii")
_IIIIB = struct.Struct(">iiiib")
_IIIIBII = struct.Struct(">iiiibii")
_IIQIQI = struct.Struct(">iiqiqi")
_IIQQI = struct.Struct(">iiqqi")
_IQ = struct.Struct(">iq")
_IQI = struct.Struct(">iqi")
_IQQI = struct.Struct(">iqqi")
_Q = struct.Struct(">q")
_QI = struct.Struct(">qi")
_QQ = struct.Struct(">qq")


class ReplicaState(MessageStruct):
    """ReplicaState of Kafka."""

    __slots__ = ("replica_id", "replica_epoch")
    replica_id: int
    replica_epoch: int

    def __init__(self, replica_id: int = -1, replica_epoch: int = -1) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch


class FetchPartition(MessageStruct):
    """FetchPartition of Kafka."""

    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    partition_max_bytes: int
    replica_directory_id: UUID | None
    high_watermark: int

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: UUID | None = None,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.partition_max_bytes = partition_max_bytes
        self.replica_directory_id = replica_directory_id
        self.high_watermark = high_watermark


class FetchTopic(MessageStruct):
    """FetchTopic of Kafka."""

    __slots__ = ("topic", "topic_id", "partitions")
    topic: str
    topic_id: UUID | None
    partitions: list[FetchPartition]

    def __init__(
        self,
        topic: str = "",
        topic_id: UUID | None = None,
        partitions: list[FetchPartition] = NEW_LIST,
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class ForgottenTopic(MessageStruct):
    """ForgottenTopic of Kafka."""

    __slots__ = ("topic", "topic_id", "partitions")
    topic: str
    topic_id: UUID | None
    partitions: list[int]

    def __init__(
        self, topic: str = "", topic_id: UUID | None = None, partitions: list[int] = NEW_LIST
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partitions = [] if partitions is NEW_LIST else partitions


class FetchRequest(MessageStruct):
    """FetchRequest of Kafka."""

    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )
    cluster_id: str | None
    replica_id: int
    replica_state: ReplicaState | None
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[FetchTopic]
    forgotten_topics_data: list[ForgottenTopic]
    rack_id: str

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState | None = None,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] = NEW_LIST,
        forgotten_topics_data: list[ForgottenTopic] = NEW_LIST,
        rack_id: str = "",
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.replica_state = replica_state
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = [] if topics is NEW_LIST else topics
        self.forgotten_topics_data = (
            [] if forgotten_topics_data is NEW_LIST else forgotten_topics_data
        )
        self.rack_id = rack_id


class EpochEndOffset(MessageStruct):
    """EpochEndOffset of Kafka."""

    __slots__ = ("epoch", "end_offset")
    epoch: int
    end_offset: int

    def __init__(self, epoch: int = -1, end_offset: int = -1) -> None:
        self.epoch = epoch
        self.end_offset = end_offset


class LeaderIdAndEpoch(MessageStruct):
    """LeaderIdAndEpoch of Kafka."""

    __slots__ = ("leader_id", "leader_epoch")
    leader_id: int
    leader_epoch: int

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class SnapshotId(MessageStruct):
    """SnapshotId of Kafka."""

    __slots__ = ("end_offset", "epoch")
    end_offset: int
    epoch: int

    def __init__(self, end_offset: int = -1, epoch: int = -1) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class AbortedTransaction(MessageStruct):
    """AbortedTransaction of Kafka."""

    __slots__ = ("producer_id", "first_offset")
    producer_id: int
    first_offset: int

    def __init__(self, producer_id: int = 0, first_offset: int = 0) -> None:
        self.producer_id = producer_id
        self.first_offset = first_offset


class PartitionData(MessageStruct):
    """PartitionData of Kafka."""

    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )
    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    diverging_epoch: EpochEndOffset | None
    current_leader: LeaderIdAndEpoch | None
    snapshot_id: SnapshotId | None
    aborted_transactions: list[AbortedTransaction] | None
    preferred_read_replica: int
    records: bytes | None

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
        snapshot_id: SnapshotId | None = None,
        aborted_transactions: list[AbortedTransaction] | None = NEW_LIST,
        preferred_read_replica: int = -1,
        records: bytes | None = b"",
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id
        self.aborted_transactions = [] if aborted_transactions is NEW_LIST else aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.records = records


class FetchableTopicResponse(MessageStruct):
    """FetchableTopicResponse of Kafka."""

    __slots__ = ("topic", "topic_id", "partitions")
    topic: str
    topic_id: UUID | None
    partitions: list[PartitionData]

    def __init__(
        self,
        topic: str = "",
        topic_id: UUID | None = None,
        partitions: list[PartitionData] = NEW_LIST,
    ) -> None:
        self.topic = topic
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


class FetchResponse(MessageStruct):
    """FetchResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchableTopicResponse]
    node_endpoints: list[NodeEndpoint]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = NEW_LIST,
        node_endpoints: list[NodeEndpoint] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.session_id = session_id
        self.responses = [] if responses is NEW_LIST else responses
        self.node_endpoints = [] if node_endpoints is NEW_LIST else node_endpoints


def _read_replica_state(reader: Reader, version: int) -> ReplicaState:
    replica_id, replica_epoch = _IQ.unpack_from(reader.frame, reader.position)
    reader.position += 12
    reader.skip_tagged_fields()
    return ReplicaState(replica_id, replica_epoch)


def _read_fetch_partition(reader: Reader, version: int) -> FetchPartition:
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    replica_directory_id: UUID | None = None
    high_watermark: int = 9223372036854775807
    if version >= 12:
        (
            partition,
            current_leader_epoch,
            fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            partition_max_bytes,
        ) = _IIQIQI.unpack_from(reader.frame, reader.position)
        reader.position += 32
    elif version >= 9:
        partition, current_leader_epoch, fetch_offset, log_start_offset, partition_max_bytes = (
            _IIQQI.unpack_from(reader.frame, reader.position)
        )
        reader.position += 28
    elif version >= 5:
        partition, fetch_offset, log_start_offset, partition_max_bytes = _IQQI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 24
    else:
        partition, fetch_offset, partition_max_bytes = _IQI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 16
    if version >= 12:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0 and version >= 17:
                replica_directory_id = reader.topic_id("replica_directory_id")
            elif tag == 0:
                raise refused_tag(tag, version)
            elif tag == 1 and version >= 18:
                high_watermark = reader.unpack(_Q)[0]
            elif tag == 1:
                raise refused_tag(tag, version)
            else:
                reader.skip_value()
    return FetchPartition(
        partition,
        current_leader_epoch,
        fetch_offset,
        last_fetched_epoch,
        log_start_offset,
        partition_max_bytes,
        replica_directory_id,
        high_watermark,
    )


def _read_fetch_topic(reader: Reader, version: int) -> FetchTopic:
    topic: str = ""
    topic_id: UUID | None = None
    if version <= 12:
        topic = reader.string("topic")
    if version >= 13:
        topic_id = reader.topic_id("topic_id")
    partitions: list[FetchPartition] = []
    for _ in range(reader.count("partitions", 16)):
        partitions.append(_read_fetch_partition(reader, version))
    if version >= 12:
        reader.skip_tagged_fields()
    return FetchTopic(topic, topic_id, partitions)


def _read_forgotten_topic(reader: Reader, version: int) -> ForgottenTopic:
    topic: str = ""
    topic_id: UUID | None = None
    if version <= 12:
        topic = reader.string("topic")
    if version >= 13:
        topic_id = reader.topic_id("topic_id")
    partitions = reader.numbers("partitions", "i", 4)
    if version >= 12:
        reader.skip_tagged_fields()
    return ForgottenTopic(topic, topic_id, partitions)


def _read_fetch_request(reader: Reader, version: int) -> FetchRequest:
    cluster_id: str | None = None
    replica_id: int = -1
    replica_state: ReplicaState | None = None
    session_id: int = 0
    session_epoch: int = -1
    forgotten_topics_data: list[ForgottenTopic] = []
    rack_id: str = ""
    if version >= 15:
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = (
            _IIIBII.unpack_from(reader.frame, reader.position)
        )
        reader.position += 21
    elif version >= 7:
        (
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
        ) = _IIIIBII.unpack_from(reader.frame, reader.position)
        reader.position += 25
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = _IIIIB.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 17
    topics: list[FetchTopic] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_fetch_topic(reader, version))
    if version >= 7:
        for _ in range(reader.count("forgotten_topics_data", 3)):
            forgotten_topics_data.append(_read_forgotten_topic(reader, version))
    if version >= 11:
        rack_id = reader.string("rack_id")
    if version >= 12:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0:
                cluster_id = reader.nullable_string("cluster_id")
            elif tag == 1 and version >= 15:
                replica_state = _read_replica_state(reader, version)
            elif tag == 1:
                raise refused_tag(tag, version)
            else:
                reader.skip_value()
    return FetchRequest(
        cluster_id,
        replica_id,
        replica_state,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten_topics_data,
        rack_id,
    )


def _read_epoch_end_offset(reader: Reader, version: int) -> EpochEndOffset:
    epoch, end_offset = _IQ.unpack_from(reader.frame, reader.position)
    reader.position += 12
    reader.skip_tagged_fields()
    return EpochEndOffset(epoch, end_offset)


def _read_leader_id_and_epoch(reader: Reader, version: int) -> LeaderIdAndEpoch:
    leader_id, leader_epoch = _II.unpack_from(reader.frame, reader.position)
    reader.position += 8
    reader.skip_tagged_fields()
    return LeaderIdAndEpoch(leader_id, leader_epoch)


def _read_snapshot_id(reader: Reader, version: int) -> SnapshotId:
    end_offset, epoch = _QI.unpack_from(reader.frame, reader.position)
    reader.position += 12
    reader.skip_tagged_fields()
    return SnapshotId(end_offset, epoch)


def _read_aborted_transaction(reader: Reader, version: int) -> AbortedTransaction:
    producer_id, first_offset = _QQ.unpack_from(reader.frame, reader.position)
    reader.position += 16
    if version >= 12:
        reader.skip_tagged_fields()
    return AbortedTransaction(producer_id, first_offset)


def _read_partition_data(reader: Reader, version: int) -> PartitionData:
    log_start_offset: int = -1
    diverging_epoch: EpochEndOffset | None = None
    current_leader: LeaderIdAndEpoch | None = None
    snapshot_id: SnapshotId | None = None
    preferred_read_replica: int = -1
    if version >= 5:
        partition_index, error_code, high_watermark, last_stable_offset, log_start_offset = (
            _IHQQQ.unpack_from(reader.frame, reader.position)
        )
        reader.position += 30
    else:
        partition_index, error_code, high_watermark, last_stable_offset = _IHQQ.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 22
    aborted_transactions = (
        None
        if (count := reader.nullable_count("aborted_transactions", 16)) < 0
        else [_read_aborted_transaction(reader, version) for _ in range(count)]
    )
    if version >= 11:
        (preferred_read_replica,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    records = reader.nullable_blob("records")
    if version >= 12:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0:
                diverging_epoch = _read_epoch_end_offset(reader, version)
            elif tag == 1:
                current_leader = _read_leader_id_and_epoch(reader, version)
            elif tag == 2:
                snapshot_id = _read_snapshot_id(reader, version)
            else:
                reader.skip_value()
    return PartitionData(
        partition_index,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        diverging_epoch,
        current_leader,
        snapshot_id,
        aborted_transactions,
        preferred_read_replica,
        records,
    )


def _read_fetchable_topic_response(reader: Reader, version: int) -> FetchableTopicResponse:
    topic: str = ""
    topic_id: UUID | None = None
    if version <= 12:
        topic = reader.string("topic")
    if version >= 13:
        topic_id = reader.topic_id("topic_id")
    partitions: list[PartitionData] = []
    for _ in range(reader.count("partitions", 30)):
        partitions.append(_read_partition_data(reader, version))
    if version >= 12:
        reader.skip_tagged_fields()
    return FetchableTopicResponse(topic, topic_id, partitions)


def _read_node_endpoint(reader: Reader, version: int) -> NodeEndpoint:
    (node_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    host = reader.string("host")
    (port,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    rack = reader.nullable_string("rack")
    reader.skip_tagged_fields()
    return NodeEndpoint(node_id, host, port, rack)


def _read_fetch_response(reader: Reader, version: int) -> FetchResponse:
    error_code: int = 0
    session_id: int = 0
    node_endpoints: list[NodeEndpoint] = []
    if version >= 7:
        throttle_time_ms, error_code, session_id = _IHI.unpack_from(reader.frame, reader.position)
        reader.position += 10
    else:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    responses: list[FetchableTopicResponse] = []
    for _ in range(reader.count("responses", 3)):
        responses.append(_read_fetchable_topic_response(reader, version))
    if version >= 12:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0 and version >= 16:
                node_endpoints = [
                    _read_node_endpoint(reader, version)
                    for _ in range(reader.count("node_endpoints", 11))
                ]
            elif tag == 0:
                raise refused_tag(tag, version)
            else:
                reader.skip_value()
    return FetchResponse(throttle_time_ms, error_code, session_id, responses, node_endpoints)


def _write_epoch_end_offset(out: Writer, data: EpochEndOffset, version: int) -> None:
    out += _IQ.pack(data.epoch, data.end_offset)
    out.append(0)


def _write_leader_id_and_epoch(out: Writer, data: LeaderIdAndEpoch, version: int) -> None:
    out += _II.pack(data.leader_id, data.leader_epoch)
    out.append(0)


def _write_snapshot_id(out: Writer, data: SnapshotId, version: int) -> None:
    out += _QI.pack(data.end_offset, data.epoch)
    out.append(0)


def _write_aborted_transaction(out: Writer, data: AbortedTransaction, version: int) -> None:
    out += _QQ.pack(data.producer_id, data.first_offset)
    if version >= 12:
        out.append(0)


def _write_partition_data(out: Writer, data: PartitionData, version: int) -> None:
    if version >= 5:
        out += _IHQQQ.pack(
            data.partition_index,
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
        )
    else:
        out += _IHQQ.pack(
            data.partition_index, data.error_code, data.high_watermark, data.last_stable_offset
        )
    if data.aborted_transactions is None:
        out.length(-1)
    else:
        out.length(len(data.aborted_transactions))
        for aborted_transaction in data.aborted_transactions:
            _write_aborted_transaction(out, aborted_transaction, version)
    if version >= 11:
        out += _I.pack(data.preferred_read_replica)
    out.nullable_blob(data.records)
    if version >= 12:
        tagged: list[tuple[int, bytes | bytearray]] = []
        if data.diverging_epoch is not None:
            value = out.value()
            _write_epoch_end_offset(value, data.diverging_epoch, version)
            tagged.append((0, value))
        if data.current_leader is not None:
            value = out.value()
            _write_leader_id_and_epoch(value, data.current_leader, version)
            tagged.append((1, value))
        if data.snapshot_id is not None:
            value = out.value()
            _write_snapshot_id(value, data.snapshot_id, version)
            tagged.append((2, value))
        if tagged:
            out.tagged_fields(tagged)
        else:
            out.append(0)


def _write_fetchable_topic_response(
    out: Writer, data: FetchableTopicResponse, version: int
) -> None:
    if version <= 12:
        out.string(data.topic)
    if version >= 13:
        out.topic_id(data.topic_id)
    out.length(len(data.partitions))
    for partition_data in data.partitions:
        _write_partition_data(out, partition_data, version)
    if version >= 12:
        out.append(0)


def _write_node_endpoint(out: Writer, data: NodeEndpoint, version: int) -> None:
    out += _I.pack(data.node_id)
    out.string(data.host)
    out += _I.pack(data.port)
    out.nullable_string(data.rack)
    out.append(0)


def _write_fetch_response(out: Writer, data: FetchResponse, version: int) -> None:
    if version >= 7:
        out += _IHI.pack(data.throttle_time_ms, data.error_code, data.session_id)
    else:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.responses))
    for fetchable_topic_response in data.responses:
        _write_fetchable_topic_response(out, fetchable_topic_response, version)
    if version >= 12:
        tagged: list[tuple[int, bytes | bytearray]] = []
        if version >= 16 and data.node_endpoints:
            value = out.value()
            value.length(len(data.node_endpoints))
            for node_endpoint in data.node_endpoints:
                _write_node_endpoint(value, node_endpoint, version)
            tagged.append((0, value))
        if tagged:
            out.tagged_fields(tagged)
        else:
            out.append(0)


def _error_response(request: FetchRequest, code: int) -> FetchResponse:
    return FetchResponse(
        error_code=code,
        responses=[
            FetchableTopicResponse(
                topic=fetch_topic.topic,
                topic_id=fetch_topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=fetch_partition.partition,
                        error_code=code,
                        high_watermark=-1,
                        aborted_transactions=None,
                    )
                    for fetch_partition in fetch_topic.partitions
                ],
            )
            for fetch_topic in request.topics
        ],
    )


def _topics(request: FetchRequest) -> Iterator[NamedTopic]:
    for fetch_topic in request.topics:
        yield NamedTopic(
            fetch_topic.topic,
            fetch_topic.topic_id,
            [partition.partition for partition in fetch_topic.partitions],
        )


FETCH_MESSAGES = ApiMessages(
    key=1,
    name="Fetch",
    versions=(4, 18),
    flexible_since=12,
    request=FetchRequest,
    response=FetchResponse,
    read_request=_read_fetch_request,
    read_response=_read_fetch_response,
    write_response=_write_fetch_response,
    error_response=_error_response,
    fields={
        FetchPartition: {
            "current_leader_epoch": (9, 18),
            "last_fetched_epoch": (12, 18),
            "log_start_offset": (5, 18),
            "replica_directory_id": (17, 18),
            "high_watermark": (18, 18),
        },
        FetchTopic: {"topic": (4, 12), "topic_id": (13, 18)},
        ForgottenTopic: {"topic": (7, 12), "topic_id": (13, 18)},
        FetchRequest: {
            "cluster_id": (12, 18),
            "replica_id": (4, 14),
            "replica_state": (15, 18),
            "session_id": (7, 18),
            "session_epoch": (7, 18),
            "forgotten_topics_data": (7, 18),
            "rack_id": (11, 18),
        },
        PartitionData: {
            "log_start_offset": (5, 18),
            "diverging_epoch": (12, 18),
            "current_leader": (12, 18),
            "snapshot_id": (12, 18),
            "preferred_read_replica": (11, 18),
        },
        FetchableTopicResponse: {"topic": (4, 12), "topic_id": (13, 18)},
        FetchResponse: {"error_code": (7, 18), "session_id": (7, 18), "node_endpoints": (16, 18)},
    },
    topics=_topics,
    names_partitions=True,
)
