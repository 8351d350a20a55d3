"""The messages of Produce.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader, refused_tag
from purgatory_broker._wire.writer import Writer

_HI = struct.Struct(">hi")
_I = struct.Struct(">i")
_IHQQ = struct.Struct(">ihqq")
_IHQQQ = struct.Struct(">ihqqq")
_II = struct.Struct(">ii")


class PartitionProduceData(MessageStruct):
    """PartitionProduceData of Kafka."""

    __slots__ = ("index", "records")
    index: int
    records: bytes | None

    def __init__(self, index: int = 0, records: bytes | None = b"") -> None:
        self.index = index
        self.records = records


class TopicProduceData(MessageStruct):
    """TopicProduceData of Kafka."""

    __slots__ = ("name", "topic_id", "partition_data")
    name: str
    topic_id: UUID | None
    partition_data: list[PartitionProduceData]

    def __init__(
        self,
        name: str = "",
        topic_id: UUID | None = None,
        partition_data: list[PartitionProduceData] = NEW_LIST,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_data = [] if partition_data is NEW_LIST else partition_data


class ProduceRequest(MessageStruct):
    """ProduceRequest of Kafka."""

    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic_data: list[TopicProduceData]

    def __init__(
        self,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = NEW_LIST,
    ) -> None:
        self.transactional_id = transactional_id
        self.acks = acks
        self.timeout_ms = timeout_ms
        self.topic_data = [] if topic_data is NEW_LIST else topic_data


class BatchIndexAndErrorMessage(MessageStruct):
    """BatchIndexAndErrorMessage of Kafka."""

    __slots__ = ("batch_index", "batch_index_error_message")
    batch_index: int
    batch_index_error_message: str | None

    def __init__(self, batch_index: int = 0, batch_index_error_message: str | None = None) -> None:
        self.batch_index = batch_index
        self.batch_index_error_message = batch_index_error_message


class LeaderIdAndEpoch(MessageStruct):
    """LeaderIdAndEpoch of Kafka."""

    __slots__ = ("leader_id", "leader_epoch")
    leader_id: int
    leader_epoch: int

    def __init__(self, leader_id: int = -1, leader_epoch: int = -1) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class PartitionProduceResponse(MessageStruct):
    """PartitionProduceResponse of Kafka."""

    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )
    index: int
    error_code: int
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    record_errors: list[BatchIndexAndErrorMessage]
    error_message: str | None
    current_leader: LeaderIdAndEpoch | None

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = NEW_LIST,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch | None = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self.log_start_offset = log_start_offset
        self.record_errors = [] if record_errors is NEW_LIST else record_errors
        self.error_message = error_message
        self.current_leader = current_leader


class TopicProduceResponse(MessageStruct):
    """TopicProduceResponse of Kafka."""

    __slots__ = ("name", "topic_id", "partition_responses")
    name: str
    topic_id: UUID | None
    partition_responses: list[PartitionProduceResponse]

    def __init__(
        self,
        name: str = "",
        topic_id: UUID | None = None,
        partition_responses: list[PartitionProduceResponse] = NEW_LIST,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition_responses = [] if partition_responses is NEW_LIST else partition_responses


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


class ProduceResponse(MessageStruct):
    """ProduceResponse of Kafka."""

    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")
    responses: list[TopicProduceResponse]
    throttle_time_ms: int
    node_endpoints: list[NodeEndpoint]

    def __init__(
        self,
        responses: list[TopicProduceResponse] = NEW_LIST,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = NEW_LIST,
    ) -> None:
        self.responses = [] if responses is NEW_LIST else responses
        self.throttle_time_ms = throttle_time_ms
        self.node_endpoints = [] if node_endpoints is NEW_LIST else node_endpoints


def _read_partition_produce_data(reader: Reader, version: int) -> PartitionProduceData:
    (index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    records = reader.nullable_blob("records")
    if version >= 9:
        reader.skip_tagged_fields()
    return PartitionProduceData(index, records)


def _read_topic_produce_data(reader: Reader, version: int) -> TopicProduceData:
    name: str = ""
    topic_id: UUID | None = None
    if version <= 12:
        name = reader.string("name")
    if version >= 13:
        topic_id = reader.topic_id("topic_id")
    partition_data: list[PartitionProduceData] = []
    for _ in range(reader.count("partition_data", 6)):
        partition_data.append(_read_partition_produce_data(reader, version))
    if version >= 9:
        reader.skip_tagged_fields()
    return TopicProduceData(name, topic_id, partition_data)


def _read_produce_request(reader: Reader, version: int) -> ProduceRequest:
    transactional_id = reader.nullable_string("transactional_id")
    acks, timeout_ms = _HI.unpack_from(reader.frame, reader.position)
    reader.position += 6
    topic_data: list[TopicProduceData] = []
    for _ in range(reader.count("topic_data", 3)):
        topic_data.append(_read_topic_produce_data(reader, version))
    if version >= 9:
        reader.skip_tagged_fields()
    return ProduceRequest(transactional_id, acks, timeout_ms, topic_data)


def _read_batch_index_and_error_message(reader: Reader, version: int) -> BatchIndexAndErrorMessage:
    (batch_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    batch_index_error_message = reader.nullable_string("batch_index_error_message")
    if version >= 9:
        reader.skip_tagged_fields()
    return BatchIndexAndErrorMessage(batch_index, batch_index_error_message)


def _read_leader_id_and_epoch(reader: Reader, version: int) -> LeaderIdAndEpoch:
    leader_id, leader_epoch = _II.unpack_from(reader.frame, reader.position)
    reader.position += 8
    reader.skip_tagged_fields()
    return LeaderIdAndEpoch(leader_id, leader_epoch)


def _read_partition_produce_response(reader: Reader, version: int) -> PartitionProduceResponse:
    log_start_offset: int = -1
    record_errors: list[BatchIndexAndErrorMessage] = []
    error_message: str | None = None
    current_leader: LeaderIdAndEpoch | None = None
    if version >= 5:
        index, error_code, base_offset, log_append_time_ms, log_start_offset = _IHQQQ.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 30
    else:
        index, error_code, base_offset, log_append_time_ms = _IHQQ.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 22
    if version >= 8:
        for _ in range(reader.count("record_errors", 6)):
            record_errors.append(_read_batch_index_and_error_message(reader, version))
        error_message = reader.nullable_string("error_message")
    if version >= 9:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0 and version >= 10:
                current_leader = _read_leader_id_and_epoch(reader, version)
            elif tag == 0:
                raise refused_tag(tag, version)
            else:
                reader.skip_value()
    return PartitionProduceResponse(
        index,
        error_code,
        base_offset,
        log_append_time_ms,
        log_start_offset,
        record_errors,
        error_message,
        current_leader,
    )


def _read_topic_produce_response(reader: Reader, version: int) -> TopicProduceResponse:
    name: str = ""
    topic_id: UUID | None = None
    if version <= 12:
        name = reader.string("name")
    if version >= 13:
        topic_id = reader.topic_id("topic_id")
    partition_responses: list[PartitionProduceResponse] = []
    for _ in range(reader.count("partition_responses", 22)):
        partition_responses.append(_read_partition_produce_response(reader, version))
    if version >= 9:
        reader.skip_tagged_fields()
    return TopicProduceResponse(name, topic_id, partition_responses)


def _read_node_endpoint(reader: Reader, version: int) -> NodeEndpoint:
    (node_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    host = reader.string("host")
    (port,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    rack = reader.nullable_string("rack")
    reader.skip_tagged_fields()
    return NodeEndpoint(node_id, host, port, rack)


def _read_produce_response(reader: Reader, version: int) -> ProduceResponse:
    node_endpoints: list[NodeEndpoint] = []
    responses: list[TopicProduceResponse] = []
    for _ in range(reader.count("responses", 3)):
        responses.append(_read_topic_produce_response(reader, version))
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    if version >= 9:
        for _ in range(reader.tagged_fields()):
            tag = reader.tag()
            if tag == 0 and version >= 10:
                node_endpoints = [
                    _read_node_endpoint(reader, version)
                    for _ in range(reader.count("node_endpoints", 11))
                ]
            elif tag == 0:
                raise refused_tag(tag, version)
            else:
                reader.skip_value()
    return ProduceResponse(responses, throttle_time_ms, node_endpoints)


def _write_batch_index_and_error_message(
    out: Writer, data: BatchIndexAndErrorMessage, version: int
) -> None:
    out += _I.pack(data.batch_index)
    out.nullable_string(data.batch_index_error_message)
    if version >= 9:
        out.append(0)


def _write_leader_id_and_epoch(out: Writer, data: LeaderIdAndEpoch, version: int) -> None:
    out += _II.pack(data.leader_id, data.leader_epoch)
    out.append(0)


def _write_partition_produce_response(
    out: Writer, data: PartitionProduceResponse, version: int
) -> None:
    if version >= 5:
        out += _IHQQQ.pack(
            data.index,
            data.error_code,
            data.base_offset,
            data.log_append_time_ms,
            data.log_start_offset,
        )
    else:
        out += _IHQQ.pack(data.index, data.error_code, data.base_offset, data.log_append_time_ms)
    if version >= 8:
        out.length(len(data.record_errors))
        for batch_index_and_error_message in data.record_errors:
            _write_batch_index_and_error_message(out, batch_index_and_error_message, version)
        out.nullable_string(data.error_message)
    if version >= 9:
        tagged: list[tuple[int, bytes | bytearray]] = []
        if version >= 10 and data.current_leader is not None:
            value = out.value()
            _write_leader_id_and_epoch(value, data.current_leader, version)
            tagged.append((0, value))
        if tagged:
            out.tagged_fields(tagged)
        else:
            out.append(0)


def _write_topic_produce_response(out: Writer, data: TopicProduceResponse, version: int) -> None:
    if version <= 12:
        out.string(data.name)
    if version >= 13:
        out.topic_id(data.topic_id)
    out.length(len(data.partition_responses))
    for partition_produce_response in data.partition_responses:
        _write_partition_produce_response(out, partition_produce_response, version)
    if version >= 9:
        out.append(0)


def _write_node_endpoint(out: Writer, data: NodeEndpoint, version: int) -> None:
    out += _I.pack(data.node_id)
    out.string(data.host)
    out += _I.pack(data.port)
    out.nullable_string(data.rack)
    out.append(0)


def _write_produce_response(out: Writer, data: ProduceResponse, version: int) -> None:
    out.length(len(data.responses))
    for topic_produce_response in data.responses:
        _write_topic_produce_response(out, topic_produce_response, version)
    out += _I.pack(data.throttle_time_ms)
    if version >= 9:
        tagged: list[tuple[int, bytes | bytearray]] = []
        if version >= 10 and data.node_endpoints:
            value = out.value()
            value.length(len(data.node_endpoints))
            for node_endpoint in data.node_endpoints:
                _write_node_endpoint(value, node_endpoint, version)
            tagged.append((0, value))
        if tagged:
            out.tagged_fields(tagged)
        else:
            out.append(0)


def _error_response(request: ProduceRequest, code: int) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic_produce_data.name,
                topic_id=topic_produce_data.topic_id,
                partition_responses=[
                    PartitionProduceResponse(
                        index=partition_produce_data.index, error_code=code, base_offset=-1
                    )
                    for partition_produce_data in topic_produce_data.partition_data
                ],
            )
            for topic_produce_data in request.topic_data
        ]
    )


def _topics(request: ProduceRequest) -> Iterator[NamedTopic]:
    for topic_produce_data in request.topic_data:
        yield NamedTopic(
            topic_produce_data.name,
            topic_produce_data.topic_id,
            [partition.index for partition in topic_produce_data.partition_data],
        )


def _transactional_ids(request: ProduceRequest) -> Iterable[str]:
    return [request.transactional_id] if request.transactional_id else []


PRODUCE_MESSAGES = ApiMessages(
    key=0,
    name="Produce",
    versions=(3, 13),
    flexible_since=9,
    request=ProduceRequest,
    response=ProduceResponse,
    read_request=_read_produce_request,
    read_response=_read_produce_response,
    write_response=_write_produce_response,
    error_response=_error_response,
    fields={
        TopicProduceData: {"name": (3, 12), "topic_id": (13, 13)},
        PartitionProduceResponse: {
            "log_start_offset": (5, 13),
            "record_errors": (8, 13),
            "error_message": (8, 13),
            "current_leader": (10, 13),
        },
        TopicProduceResponse: {"name": (3, 12), "topic_id": (13, 13)},
        ProduceResponse: {"node_endpoints": (10, 13)},
    },
    topics=_topics,
    names_partitions=True,
    transactional_ids=_transactional_ids,
)
