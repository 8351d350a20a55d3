"""The messages of DescribeCluster.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_TB = struct.Struct(">?b")
_TBT = struct.Struct(">?b?")
_B = struct.Struct(">b")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class DescribeClusterRequest(MessageStruct):
    """DescribeClusterRequest of Kafka."""

    __slots__ = ("include_cluster_authorized_operations", "endpoint_type", "include_fenced_brokers")
    include_cluster_authorized_operations: bool
    endpoint_type: int
    include_fenced_brokers: bool

    def __init__(
        self,
        include_cluster_authorized_operations: bool = False,
        endpoint_type: int = 1,
        include_fenced_brokers: bool = False,
    ) -> None:
        self.include_cluster_authorized_operations = include_cluster_authorized_operations
        self.endpoint_type = endpoint_type
        self.include_fenced_brokers = include_fenced_brokers


class DescribeClusterBroker(MessageStruct):
    """DescribeClusterBroker of Kafka."""

    __slots__ = ("broker_id", "host", "port", "rack", "is_fenced")
    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool

    def __init__(
        self,
        broker_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
        is_fenced: bool = False,
    ) -> None:
        self.broker_id = broker_id
        self.host = host
        self.port = port
        self.rack = rack
        self.is_fenced = is_fenced


class DescribeClusterResponse(MessageStruct):
    """DescribeClusterResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "endpoint_type",
        "cluster_id",
        "controller_id",
        "brokers",
        "cluster_authorized_operations",
    )
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    endpoint_type: int
    cluster_id: str
    controller_id: int
    brokers: list[DescribeClusterBroker]
    cluster_authorized_operations: int

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        endpoint_type: int = 1,
        cluster_id: str = "",
        controller_id: int = -1,
        brokers: list[DescribeClusterBroker] = NEW_LIST,
        cluster_authorized_operations: int = -2147483648,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.endpoint_type = endpoint_type
        self.cluster_id = cluster_id
        self.controller_id = controller_id
        self.brokers = [] if brokers is NEW_LIST else brokers
        self.cluster_authorized_operations = cluster_authorized_operations


def _read_describe_cluster_request(reader: Reader, version: int) -> DescribeClusterRequest:
    endpoint_type: int = 1
    include_fenced_brokers: bool = False
    if version >= 2:
        include_cluster_authorized_operations, endpoint_type, include_fenced_brokers = (
            _TBT.unpack_from(reader.frame, reader.position)
        )
        reader.position += 3
    elif version >= 1:
        include_cluster_authorized_operations, endpoint_type = _TB.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 2
    else:
        (include_cluster_authorized_operations,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    reader.skip_tagged_fields()
    return DescribeClusterRequest(
        include_cluster_authorized_operations, endpoint_type, include_fenced_brokers
    )


def _read_describe_cluster_broker(reader: Reader, version: int) -> DescribeClusterBroker:
    is_fenced: bool = False
    (broker_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    host = reader.string("host")
    (port,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    rack = reader.nullable_string("rack")
    if version >= 2:
        (is_fenced,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    reader.skip_tagged_fields()
    return DescribeClusterBroker(broker_id, host, port, rack, is_fenced)


def _read_describe_cluster_response(reader: Reader, version: int) -> DescribeClusterResponse:
    endpoint_type: int = 1
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    if version >= 1:
        (endpoint_type,) = _B.unpack_from(reader.frame, reader.position)
        reader.position += 1
    cluster_id = reader.string("cluster_id")
    (controller_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    brokers: list[DescribeClusterBroker] = []
    for _ in range(reader.count("brokers", 11)):
        brokers.append(_read_describe_cluster_broker(reader, version))
    (cluster_authorized_operations,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    reader.skip_tagged_fields()
    return DescribeClusterResponse(
        throttle_time_ms,
        error_code,
        error_message,
        endpoint_type,
        cluster_id,
        controller_id,
        brokers,
        cluster_authorized_operations,
    )


def _write_describe_cluster_broker(out: Writer, data: DescribeClusterBroker, version: int) -> None:
    out += _I.pack(data.broker_id)
    out.string(data.host)
    out += _I.pack(data.port)
    out.nullable_string(data.rack)
    if version >= 2:
        out += _T.pack(data.is_fenced)
    out.append(0)


def _write_describe_cluster_response(
    out: Writer, data: DescribeClusterResponse, version: int
) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    if version >= 1:
        out += _B.pack(data.endpoint_type)
    out.string(data.cluster_id)
    out += _I.pack(data.controller_id)
    out.length(len(data.brokers))
    for describe_cluster_broker in data.brokers:
        _write_describe_cluster_broker(out, describe_cluster_broker, version)
    out += _I.pack(data.cluster_authorized_operations)
    out.append(0)


def _error_response(request: DescribeClusterRequest, code: int) -> DescribeClusterResponse:
    return DescribeClusterResponse(error_code=code)


DESCRIBE_CLUSTER_MESSAGES = ApiMessages(
    key=60,
    name="DescribeCluster",
    versions=(0, 2),
    flexible_since=0,
    request=DescribeClusterRequest,
    response=DescribeClusterResponse,
    read_request=_read_describe_cluster_request,
    read_response=_read_describe_cluster_response,
    write_response=_write_describe_cluster_response,
    error_response=_error_response,
    fields={
        DescribeClusterRequest: {"endpoint_type": (1, 2), "include_fenced_brokers": (2, 2)},
        DescribeClusterBroker: {"is_fenced": (2, 2)},
        DescribeClusterResponse: {"endpoint_type": (1, 2)},
    },
)
