"""The messages of Metadata.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from uuid import UUID

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct, NamedTopic
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_T = struct.Struct(">?")
_TT = struct.Struct(">??")
_TTT = struct.Struct(">???")
_H = struct.Struct(">h")
_HII = struct.Struct(">hii")
_HIII = struct.Struct(">hiii")
_I = struct.Struct(">i")


class MetadataRequestTopic(MessageStruct):
    """MetadataRequestTopic of Kafka."""

    __slots__ = ("topic_id", "name")
    topic_id: UUID | None
    name: str | None

    def __init__(self, topic_id: UUID | None = None, name: str | None = "") -> None:
        self.topic_id = topic_id
        self.name = name


class MetadataRequest(MessageStruct):
    """MetadataRequest of Kafka."""

    __slots__ = (
        "topics",
        "allow_auto_topic_creation",
        "include_cluster_authorized_operations",
        "include_topic_authorized_operations",
    )
    topics: list[MetadataRequestTopic] | None
    allow_auto_topic_creation: bool
    include_cluster_authorized_operations: bool
    include_topic_authorized_operations: bool

    def __init__(
        self,
        topics: list[MetadataRequestTopic] | None = NEW_LIST,
        allow_auto_topic_creation: bool = True,
        include_cluster_authorized_operations: bool = False,
        include_topic_authorized_operations: bool = False,
    ) -> None:
        self.topics = [] if topics is NEW_LIST else topics
        self.allow_auto_topic_creation = allow_auto_topic_creation
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.include_topic_authorized_operations = include_topic_authorized_operations


class MetadataResponseBroker(MessageStruct):
    """MetadataResponseBroker of Kafka."""

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


class MetadataResponsePartition(MessageStruct):
    """MetadataResponsePartition of Kafka."""

    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "offline_replicas",
    )
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: list[int]
    isr_nodes: list[int]
    offline_replicas: list[int]

    def __init__(
        self,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = NEW_LIST,
        isr_nodes: list[int] = NEW_LIST,
        offline_replicas: list[int] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.replica_nodes = [] if replica_nodes is NEW_LIST else replica_nodes
        self.isr_nodes = [] if isr_nodes is NEW_LIST else isr_nodes
        self.offline_replicas = [] if offline_replicas is NEW_LIST else offline_replicas


class MetadataResponseTopic(MessageStruct):
    """MetadataResponseTopic of Kafka."""

    __slots__ = (
        "error_code",
        "name",
        "topic_id",
        "is_internal",
        "partitions",
        "topic_authorized_operations",
    )
    error_code: int
    name: str | None
    topic_id: UUID | None
    is_internal: bool
    partitions: list[MetadataResponsePartition]
    topic_authorized_operations: int

    def __init__(
        self,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID | None = None,
        is_internal: bool = False,
        partitions: list[MetadataResponsePartition] = NEW_LIST,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.name = name
        self.topic_id = topic_id
        self.is_internal = is_internal
        self.partitions = [] if partitions is NEW_LIST else partitions
        self.topic_authorized_operations = topic_authorized_operations


class MetadataResponse(MessageStruct):
    """MetadataResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "brokers",
        "cluster_id",
        "controller_id",
        "topics",
        "cluster_authorized_operations",
        "error_code",
    )
    throttle_time_ms: int
    brokers: list[MetadataResponseBroker]
    cluster_id: str | None
    controller_id: int
    topics: list[MetadataResponseTopic]
    cluster_authorized_operations: int
    error_code: int

    def __init__(
        self,
        throttle_time_ms: int = 0,
        brokers: list[MetadataResponseBroker] = NEW_LIST,
        cluster_id: str | None = None,
        controller_id: int = -1,
        topics: list[MetadataResponseTopic] = NEW_LIST,
        cluster_authorized_operations: int = -2147483648,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.brokers = [] if brokers is NEW_LIST else brokers
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.topics = [] if topics is NEW_LIST else topics
        self.cluster_authorized_operations = cluster_authorized_operations
        self.error_code = error_code


def _read_metadata_request_topic(reader: Reader, version: int) -> MetadataRequestTopic:
    topic_id: UUID | None = None
    if version >= 10:
        topic_id = reader.topic_id("topic_id")
    name = (reader.nullable_string("name")) if version >= 10 else reader.string("name")
    if version >= 9:
        reader.skip_tagged_fields()
    return MetadataRequestTopic(topic_id, name)


def _read_metadata_request(reader: Reader, version: int) -> MetadataRequest:
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False
    topics = (
        (
            None
            if (count := reader.nullable_count("topics", 2)) < 0
            else [_read_metadata_request_topic(reader, version) for _ in range(count)]
        )
        if version >= 1
        else [
            _read_metadata_request_topic(reader, version) for _ in range(reader.count("topics", 2))
        ]
    )
    if version >= 11:
        allow_auto_topic_creation, include_topic_authorized_operations = _TT.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 2
    elif version >= 8:
        (
            allow_auto_topic_creation,
            include_cluster_authorized_operations,
            include_topic_authorized_operations,
        ) = _TTT.unpack_from(reader.frame, reader.position)
        reader.position += 3
    elif version >= 4:
        (allow_auto_topic_creation,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    if version >= 9:
        reader.skip_tagged_fields()
    return MetadataRequest(
        topics,
        allow_auto_topic_creation,
        include_cluster_authorized_operations,
        include_topic_authorized_operations,
    )


def _read_metadata_response_broker(reader: Reader, version: int) -> MetadataResponseBroker:
    rack: str | None = None
    (node_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    host = reader.string("host")
    (port,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    if version >= 1:
        rack = reader.nullable_string("rack")
    if version >= 9:
        reader.skip_tagged_fields()
    return MetadataResponseBroker(node_id, host, port, rack)


def _read_metadata_response_partition(reader: Reader, version: int) -> MetadataResponsePartition:
    leader_epoch: int = -1
    offline_replicas: list[int] = []
    if version >= 7:
        error_code, partition_index, leader_id, leader_epoch = _HIII.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 14
    else:
        error_code, partition_index, leader_id = _HII.unpack_from(reader.frame, reader.position)
        reader.position += 10
    replica_nodes = reader.numbers("replica_nodes", "i", 4)
    isr_nodes = reader.numbers("isr_nodes", "i", 4)
    if version >= 5:
        offline_replicas = reader.numbers("offline_replicas", "i", 4)
    if version >= 9:
        reader.skip_tagged_fields()
    return MetadataResponsePartition(
        error_code,
        partition_index,
        leader_id,
        leader_epoch,
        replica_nodes,
        isr_nodes,
        offline_replicas,
    )


def _read_metadata_response_topic(reader: Reader, version: int) -> MetadataResponseTopic:
    topic_id: UUID | None = None
    is_internal: bool = False
    topic_authorized_operations: int = -2147483648
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    name = (reader.nullable_string("name")) if version >= 12 else reader.string("name")
    if version >= 10:
        topic_id = reader.topic_id("topic_id")
    if version >= 1:
        (is_internal,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    partitions: list[MetadataResponsePartition] = []
    for _ in range(reader.count("partitions", 18)):
        partitions.append(_read_metadata_response_partition(reader, version))
    if version >= 8:
        (topic_authorized_operations,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 9:
        reader.skip_tagged_fields()
    return MetadataResponseTopic(
        error_code, name, topic_id, is_internal, partitions, topic_authorized_operations
    )


def _read_metadata_response(reader: Reader, version: int) -> MetadataResponse:
    throttle_time_ms: int = 0
    cluster_id: str | None = None
    controller_id: int = -1
    cluster_authorized_operations: int = -2147483648
    error_code: int = 0
    if version >= 3:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    brokers: list[MetadataResponseBroker] = []
    for _ in range(reader.count("brokers", 10)):
        brokers.append(_read_metadata_response_broker(reader, version))
    if version >= 2:
        cluster_id = reader.nullable_string("cluster_id")
    if version >= 1:
        (controller_id,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    topics: list[MetadataResponseTopic] = []
    for _ in range(reader.count("topics", 8)):
        topics.append(_read_metadata_response_topic(reader, version))
    if version >= 13:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    elif version >= 11:
        pass
    elif version >= 8:
        (cluster_authorized_operations,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 9:
        reader.skip_tagged_fields()
    return MetadataResponse(
        throttle_time_ms,
        brokers,
        cluster_id,
        controller_id,
        topics,
        cluster_authorized_operations,
        error_code,
    )


def _write_metadata_response_broker(
    out: Writer, data: MetadataResponseBroker, version: int
) -> None:
    out += _I.pack(data.node_id)
    out.string(data.host)
    out += _I.pack(data.port)
    if version >= 1:
        out.nullable_string(data.rack)
    if version >= 9:
        out.append(0)


def _write_metadata_response_partition(
    out: Writer, data: MetadataResponsePartition, version: int
) -> None:
    if version >= 7:
        out += _HIII.pack(data.error_code, data.partition_index, data.leader_id, data.leader_epoch)
    else:
        out += _HII.pack(data.error_code, data.partition_index, data.leader_id)
    out.numbers(data.replica_nodes, "i")
    out.numbers(data.isr_nodes, "i")
    if version >= 5:
        out.numbers(data.offline_replicas, "i")
    if version >= 9:
        out.append(0)


def _write_metadata_response_topic(out: Writer, data: MetadataResponseTopic, version: int) -> None:
    out += _H.pack(data.error_code)
    if version >= 12:
        out.nullable_string(data.name)
    else:
        out.string(not_null(data.name, "name"))
    if version >= 10:
        out.topic_id(data.topic_id)
    if version >= 1:
        out += _T.pack(data.is_internal)
    out.length(len(data.partitions))
    for metadata_response_partition in data.partitions:
        _write_metadata_response_partition(out, metadata_response_partition, version)
    if version >= 8:
        out += _I.pack(data.topic_authorized_operations)
    if version >= 9:
        out.append(0)


def _write_metadata_response(out: Writer, data: MetadataResponse, version: int) -> None:
    if version >= 3:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.brokers))
    for metadata_response_broker in data.brokers:
        _write_metadata_response_broker(out, metadata_response_broker, version)
    if version >= 2:
        out.nullable_string(data.cluster_id)
    if version >= 1:
        out += _I.pack(data.controller_id)
    out.length(len(data.topics))
    for metadata_response_topic in data.topics:
        _write_metadata_response_topic(out, metadata_response_topic, version)
    if version >= 13:
        out += _H.pack(data.error_code)
    elif version >= 11:
        pass
    elif version >= 8:
        out += _I.pack(data.cluster_authorized_operations)
    if version >= 9:
        out.append(0)


def _error_response(request: MetadataRequest, code: int) -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(
                error_code=code,
                name=metadata_request_topic.name or "",
                topic_id=metadata_request_topic.topic_id,
            )
            for metadata_request_topic in (request.topics or ())
        ],
        error_code=code,
    )


def _topics(request: MetadataRequest) -> Iterator[NamedTopic]:
    for metadata_request_topic in request.topics or ():
        yield NamedTopic(metadata_request_topic.name, metadata_request_topic.topic_id)


METADATA_MESSAGES = ApiMessages(
    key=3,
    name="Metadata",
    versions=(0, 13),
    flexible_since=9,
    request=MetadataRequest,
    response=MetadataResponse,
    read_request=_read_metadata_request,
    read_response=_read_metadata_response,
    write_response=_write_metadata_response,
    error_response=_error_response,
    fields={
        MetadataRequestTopic: {"topic_id": (10, 13)},
        MetadataRequest: {
            "allow_auto_topic_creation": (4, 13),
            "include_cluster_authorized_operations": (8, 10),
            "include_topic_authorized_operations": (8, 13),
        },
        MetadataResponseBroker: {"rack": (1, 13)},
        MetadataResponsePartition: {"leader_epoch": (7, 13), "offline_replicas": (5, 13)},
        MetadataResponseTopic: {
            "topic_id": (10, 13),
            "is_internal": (1, 13),
            "topic_authorized_operations": (8, 13),
        },
        MetadataResponse: {
            "throttle_time_ms": (3, 13),
            "cluster_id": (2, 13),
            "controller_id": (1, 13),
            "cluster_authorized_operations": (8, 10),
            "error_code": (13, 13),
        },
    },
    topics=_topics,
)
