"""The messages of DescribeQuorum.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_U = struct.Struct(">H")
_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")
_IIQ = struct.Struct(">iiq")
_Q = struct.Struct(">q")
_QQQ = struct.Struct(">qqq")


class RequestPartitionData(MessageStruct):
    """RequestPartitionData of Kafka."""

    __slots__ = ("partition_index",)
    partition_index: int

    def __init__(self, partition_index: int = 0) -> None:
        self.partition_index = partition_index


class RequestTopicData(MessageStruct):
    """RequestTopicData of Kafka."""

    __slots__ = ("topic_name", "partitions")
    topic_name: str
    partitions: list[RequestPartitionData]

    def __init__(
        self, topic_name: str = "", partitions: list[RequestPartitionData] = NEW_LIST
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW_LIST else partitions


class DescribeQuorumRequest(MessageStruct):
    """DescribeQuorumRequest of Kafka."""

    __slots__ = ("topics",)
    topics: list[RequestTopicData]

    def __init__(self, topics: list[RequestTopicData] = NEW_LIST) -> None:
        self.topics = [] if topics is NEW_LIST else topics


class ReplicaState(MessageStruct):
    """ReplicaState of Kafka."""

    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )
    replica_id: int
    replica_directory_id: UUID | None
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int

    def __init__(
        self,
        replica_id: int = 0,
        replica_directory_id: UUID | None = None,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.log_end_offset = log_end_offset
        self.last_fetch_timestamp = last_fetch_timestamp
        self.last_caught_up_timestamp = last_caught_up_timestamp


class ResponsePartitionData(MessageStruct):
    """ResponsePartitionData of Kafka."""

    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )
    partition_index: int
    error_code: int
    error_message: str | None
    leader_id: int
    leader_epoch: int
    high_watermark: int
    current_voters: list[ReplicaState]
    observers: list[ReplicaState]

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] = NEW_LIST,
        observers: list[ReplicaState] = NEW_LIST,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.error_message = error_message
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark
        self.current_voters = [] if current_voters is NEW_LIST else current_voters
        self.observers = [] if observers is NEW_LIST else observers


class ResponseTopicData(MessageStruct):
    """ResponseTopicData of Kafka."""

    __slots__ = ("topic_name", "partitions")
    topic_name: str
    partitions: list[ResponsePartitionData]

    def __init__(
        self, topic_name: str = "", partitions: list[ResponsePartitionData] = NEW_LIST
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is NEW_LIST else partitions


class Listener(MessageStruct):
    """Listener of Kafka."""

    __slots__ = ("name", "host", "port")
    name: str
    host: str
    port: int

    def __init__(self, name: str = "", host: str = "", port: int = 0) -> None:
        self.name = name
        self.host = host
        self.port = port


class Node(MessageStruct):
    """Node of Kafka."""

    __slots__ = ("node_id", "listeners")
    node_id: int
    listeners: list[Listener]

    def __init__(self, node_id: int = 0, listeners: list[Listener] = NEW_LIST) -> None:
        self.node_id = node_id
        self.listeners = [] if listeners is NEW_LIST else listeners


class DescribeQuorumResponse(MessageStruct):
    """DescribeQuorumResponse of Kafka."""

    __slots__ = ("error_code", "error_message", "topics", "nodes")
    error_code: int
    error_message: str | None
    topics: list[ResponseTopicData]
    nodes: list[Node]

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ResponseTopicData] = NEW_LIST,
        nodes: list[Node] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.topics = [] if topics is NEW_LIST else topics
        self.nodes = [] if nodes is NEW_LIST else nodes


def _read_request_partition_data(reader: Reader, version: int) -> RequestPartitionData:
    (partition_index,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return RequestPartitionData(partition_index)


def _read_request_topic_data(reader: Reader, version: int) -> RequestTopicData:
    topic_name = reader.string("topic_name")
    partitions: list[RequestPartitionData] = []
    for _ in range(reader.count("partitions", 5)):
        partitions.append(_read_request_partition_data(reader, version))
    reader.skip_tagged_fields()
    return RequestTopicData(topic_name, partitions)


def _read_describe_quorum_request(reader: Reader, version: int) -> DescribeQuorumRequest:
    topics: list[RequestTopicData] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_request_topic_data(reader, version))
    reader.skip_tagged_fields()
    return DescribeQuorumRequest(topics)


def _read_replica_state(reader: Reader, version: int) -> ReplicaState:
    replica_directory_id: UUID | None = None
    last_fetch_timestamp: int = -1
    last_caught_up_timestamp: int = -1
    (replica_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    if version >= 2:
        replica_directory_id = reader.topic_id("replica_directory_id")
    if version >= 1:
        log_end_offset, last_fetch_timestamp, last_caught_up_timestamp = _QQQ.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 24
    else:
        (log_end_offset,) = _Q.unpack_from(reader.frame, reader.position)
        reader.position += 8
    reader.skip_tagged_fields()
    return ReplicaState(
        replica_id,
        replica_directory_id,
        log_end_offset,
        last_fetch_timestamp,
        last_caught_up_timestamp,
    )


def _read_response_partition_data(reader: Reader, version: int) -> ResponsePartitionData:
    error_message: str | None = ""
    partition_index, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    if version >= 2:
        error_message = reader.nullable_string("error_message")
    leader_id, leader_epoch, high_watermark = _IIQ.unpack_from(reader.frame, reader.position)
    reader.position += 16
    current_voters: list[ReplicaState] = []
    for _ in range(reader.count("current_voters", 13)):
        current_voters.append(_read_replica_state(reader, version))
    observers: list[ReplicaState] = []
    for _ in range(reader.count("observers", 13)):
        observers.append(_read_replica_state(reader, version))
    reader.skip_tagged_fields()
    return ResponsePartitionData(
        partition_index,
        error_code,
        error_message,
        leader_id,
        leader_epoch,
        high_watermark,
        current_voters,
        observers,
    )


def _read_response_topic_data(reader: Reader, version: int) -> ResponseTopicData:
    topic_name = reader.string("topic_name")
    partitions: list[ResponsePartitionData] = []
    for _ in range(reader.count("partitions", 25)):
        partitions.append(_read_response_partition_data(reader, version))
    reader.skip_tagged_fields()
    return ResponseTopicData(topic_name, partitions)


def _read_listener(reader: Reader, version: int) -> Listener:
    name = reader.string("name")
    host = reader.string("host")
    (port,) = _U.unpack_from(reader.frame, reader.position)
    reader.position += 2
    reader.skip_tagged_fields()
    return Listener(name, host, port)


def _read_node(reader: Reader, version: int) -> Node:
    (node_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    listeners: list[Listener] = []
    for _ in range(reader.count("listeners", 5)):
        listeners.append(_read_listener(reader, version))
    reader.skip_tagged_fields()
    return Node(node_id, listeners)


def _read_describe_quorum_response(reader: Reader, version: int) -> DescribeQuorumResponse:
    error_message: str | None = ""
    nodes: list[Node] = []
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 2:
        error_message = reader.nullable_string("error_message")
    topics: list[ResponseTopicData] = []
    for _ in range(reader.count("topics", 3)):
        topics.append(_read_response_topic_data(reader, version))
    if version >= 2:
        for _ in range(reader.count("nodes", 6)):
            nodes.append(_read_node(reader, version))
    reader.skip_tagged_fields()
    return DescribeQuorumResponse(error_code, error_message, topics, nodes)


def _write_replica_state(out: Writer, data: ReplicaState, version: int) -> None:
    out += _I.pack(data.replica_id)
    if version >= 2:
        out.topic_id(data.replica_directory_id)
    if version >= 1:
        out += _QQQ.pack(
            data.log_end_offset, data.last_fetch_timestamp, data.last_caught_up_timestamp
        )
    else:
        out += _Q.pack(data.log_end_offset)
    out.append(0)


def _write_response_partition_data(out: Writer, data: ResponsePartitionData, version: int) -> None:
    out += _IH.pack(data.partition_index, data.error_code)
    if version >= 2:
        out.nullable_string(data.error_message)
    out += _IIQ.pack(data.leader_id, data.leader_epoch, data.high_watermark)
    out.length(len(data.current_voters))
    for replica_state in data.current_voters:
        _write_replica_state(out, replica_state, version)
    out.length(len(data.observers))
    for replica_state in data.observers:
        _write_replica_state(out, replica_state, version)
    out.append(0)


def _write_response_topic_data(out: Writer, data: ResponseTopicData, version: int) -> None:
    out.string(data.topic_name)
    out.length(len(data.partitions))
    for response_partition_data in data.partitions:
        _write_response_partition_data(out, response_partition_data, version)
    out.append(0)


def _write_listener(out: Writer, data: Listener, version: int) -> None:
    out.string(data.name)
    out.string(data.host)
    out += _U.pack(data.port)
    out.append(0)


def _write_node(out: Writer, data: Node, version: int) -> None:
    out += _I.pack(data.node_id)
    out.length(len(data.listeners))
    for listener in data.listeners:
        _write_listener(out, listener, version)
    out.append(0)


def _write_describe_quorum_response(
    out: Writer, data: DescribeQuorumResponse, version: int
) -> None:
    out += _H.pack(data.error_code)
    if version >= 2:
        out.nullable_string(data.error_message)
    out.length(len(data.topics))
    for response_topic_data in data.topics:
        _write_response_topic_data(out, response_topic_data, version)
    if version >= 2:
        out.length(len(data.nodes))
        for node in data.nodes:
            _write_node(out, node, version)
    out.append(0)


def _error_response(request: DescribeQuorumRequest, code: int) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(error_code=code)


def _topics(request: DescribeQuorumRequest) -> Iterator[NamedTopic]:
    for request_topic_data in request.topics:
        yield NamedTopic(
            request_topic_data.topic_name,
            None,
            [partition.partition_index for partition in request_topic_data.partitions],
        )


DESCRIBE_QUORUM_MESSAGES = ApiMessages(
    key=55,
    name="DescribeQuorum",
    versions=(0, 2),
    flexible_since=0,
    request=DescribeQuorumRequest,
    response=DescribeQuorumResponse,
    read_request=_read_describe_quorum_request,
    read_response=_read_describe_quorum_response,
    write_response=_write_describe_quorum_response,
    error_response=_error_response,
    fields={
        ReplicaState: {
            "replica_directory_id": (2, 2),
            "last_fetch_timestamp": (1, 2),
            "last_caught_up_timestamp": (1, 2),
        },
        ResponsePartitionData: {"error_message": (2, 2)},
        DescribeQuorumResponse: {"error_message": (2, 2), "nodes": (2, 2)},
    },
    topics=_topics,
    names_partitions=True,
)
