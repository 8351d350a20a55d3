"""A blocking client of Kafka's protocol that sends requests unchecked and returns responses."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeLogDirsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListGroupsRequest,
    ListTransactionsRequest,
)
from kafka.protocol.api_header import ResponseClassRegistry
from kafka.protocol.consumer import (
    FetchRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

REQUESTS = {
    each.__name__.removesuffix("Request"): each
    for each in (
        AddOffsetsToTxnRequest,
        AddPartitionsToTxnRequest,
        AlterConfigsRequest,
        AlterUserScramCredentialsRequest,
        ApiVersionsRequest,
        CreateAclsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteAclsRequest,
        DeleteGroupsRequest,
        DeleteRecordsRequest,
        DeleteTopicsRequest,
        DescribeAclsRequest,
        DescribeClusterRequest,
        DescribeConfigsRequest,
        DescribeGroupsRequest,
        DescribeProducersRequest,
        DescribeLogDirsRequest,
        DescribeTransactionsRequest,
        DescribeUserScramCredentialsRequest,
        EndTxnRequest,
        FetchRequest,
        FindCoordinatorRequest,
        HeartbeatRequest,
        ElectLeadersRequest,
        IncrementalAlterConfigsRequest,
        InitProducerIdRequest,
        JoinGroupRequest,
        LeaveGroupRequest,
        ListGroupsRequest,
        ListOffsetsRequest,
        ListTransactionsRequest,
        MetadataRequest,
        OffsetCommitRequest,
        OffsetDeleteRequest,
        OffsetFetchRequest,
        OffsetForLeaderEpochRequest,
        ProduceRequest,
        SaslAuthenticateRequest,
        SaslHandshakeRequest,
        SyncGroupRequest,
        TxnOffsetCommitRequest,
        WriteTxnMarkersRequest,
    )
}

#: Seconds that a response may take, unless the request itself asks to wait.
TIME_LIMIT = 30.0

_SIZE = struct.Struct(">i")
_HEADER = struct.Struct(">hhih")


class ConnectionClosedError(Exception):
    """The broker closed the connection instead of answering."""


def message(kind: Any, fields: Mapping[str, Any]) -> Any:
    """Return a message of the class `kind`, or a part of one, built from dicts and lists."""
    made: dict[str, Any] = {}
    classes = _classes(kind)
    for name, value in fields.items():
        part, is_array = classes[name]
        if part is not None and value is not None:
            value = [message(part, each) for each in value] if is_array else message(part, value)
        made[name] = value
    return kind(**made)


@cache
def _classes(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Return, by field, the class of its parts (None for plain values) and whether it is an array.

    The result is kept, as a message may have tens of thousands of parts.
    """
    parts = {
        name: field if field.is_struct() or field.is_struct_array() else None
        for name, field in kind.fields.items()
    }
    return {
        name: (field and field.data_class, field is not None and field.is_struct_array())
        for name, field in parts.items()
    }


class RawClient:
    """One connection to one broker, for one thread at a time."""

    def __init__(self, address: str, *, client_id: str = "parity") -> None:
        host, port = address.rsplit(":", 1)
        self.address = address
        self._client_id = client_id.encode()
        self._socket = socket.create_connection((host, int(port)), TIME_LIMIT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation = 0
        self._awaited: list[tuple[int, Any, int]] = []

    def call(self, api: str, version: int, /, **fields: Any) -> Any:
        """Send a request with these fields, and return the response."""
        return self.send(message(REQUESTS[api], fields), version)

    def send(self, request: Any, version: int) -> Any:
        """Send a request, and return the response."""
        self.write(request, version)
        return self.read()

    def start(self, api: str, version: int, /, *, answered: bool = True, **fields: Any) -> None:
        """Send a request without reading the response; `answered=False` if there is none."""
        self.write(message(REQUESTS[api], fields), version, answered=answered)

    def write(self, request: Any, version: int, *, answered: bool = True) -> None:
        """Send a request."""
        self._correlation += 1
        header = (
            _HEADER.pack(request.API_KEY, version, self._correlation, len(self._client_id))
            + self._client_id
        )
        flexible = type(request).flexible_version_q(version)
        self.write_frame(header + (b"\0" if flexible else b"") + request.encode(version=version))
        if answered:
            self._awaited.append((self._correlation, request, version))

    def read(self, *, timeout: float = TIME_LIMIT) -> Any:
        """Return the response to the oldest request without one."""
        correlation, request, version = self._awaited.pop(0)
        frame = self.read_frame(timeout=timeout)
        assert _SIZE.unpack_from(frame)[0] == correlation, "a response out of order"
        kind = ResponseClassRegistry._response_class_registry[request.API_KEY]
        # A response to ApiVersions always has the old header: the client does not know yet
        # which versions the broker has.
        flexible = (
            kind.flexible_version_q(version) and request.API_KEY != ApiVersionsRequest.API_KEY
        )
        return kind.decode(frame[5 if flexible else 4 :], version=version)

    def write_frame(self, frame: bytes) -> None:
        """Send the bytes of a request, prefixed by their length."""
        self.write_bytes(_SIZE.pack(len(frame)) + frame)

    def write_bytes(self, raw: bytes) -> None:
        """Send bytes unchanged."""
        self._socket.sendall(raw)

    def read_frame(self, *, timeout: float = TIME_LIMIT) -> bytes:
        """Return the bytes of a response, without their length."""
        until = time.monotonic() + timeout
        return self._exactly(_SIZE.unpack(self._exactly(4, until))[0], until)

    def is_closed(self, *, within: float = TIME_LIMIT) -> bool:
        """Return whether the broker closes the connection in time, without a response."""
        try:
            answer = self.read_frame(timeout=within)
        except ConnectionClosedError:
            return True
        except TimeoutError:
            return False
        raise AssertionError(f"answered with {answer!r}")

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _exactly(self, size: int, until: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._socket.settimeout(max(until - time.monotonic(), 0.001))
            try:
                part = self._socket.recv(size - len(parts))
            except ConnectionError as error:
                raise ConnectionClosedError(self.address) from error
            if not part:
                raise ConnectionClosedError(self.address)
            parts += part
        return bytes(parts)
