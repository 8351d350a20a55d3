"""The messages of FindCoordinator.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class FindCoordinatorRequest(MessageStruct):
    """FindCoordinatorRequest of Kafka."""

    __slots__ = ("key", "key_type", "coordinator_keys")
    key: str
    key_type: int
    coordinator_keys: list[str]

    def __init__(
        self, key: str = "", key_type: int = 0, coordinator_keys: list[str] = NEW_LIST
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is NEW_LIST else coordinator_keys


class Coordinator(MessageStruct):
    """Coordinator of Kafka."""

    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    key: str
    node_id: int
    host: str
    port: int
    error_code: int
    error_message: str | None

    def __init__(
        self,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(MessageStruct):
    """FindCoordinatorResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "node_id",
        "host",
        "port",
        "coordinators",
    )
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    node_id: int
    host: str
    port: int
    coordinators: list[Coordinator]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is NEW_LIST else coordinators


def _read_find_coordinator_request(reader: Reader, version: int) -> FindCoordinatorRequest:
    key: str = ""
    key_type: int = 0
    coordinator_keys: list[str] = []
    if version <= 3:
        key = reader.string("key")
    if version >= 1:
        (key_type,) = _B.unpack_from(reader.frame, reader.position)
        reader.position += 1
    if version >= 4:
        coordinator_keys = reader.strings("coordinator_keys")
    if version >= 3:
        reader.skip_tagged_fields()
    return FindCoordinatorRequest(key, key_type, coordinator_keys)


def _read_coordinator(reader: Reader, version: int) -> Coordinator:
    key = reader.string("key")
    (node_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    host = reader.string("host")
    port, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    reader.skip_tagged_fields()
    return Coordinator(key, node_id, host, port, error_code, error_message)


def _read_find_coordinator_response(reader: Reader, version: int) -> FindCoordinatorResponse:
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    coordinators: list[Coordinator] = []
    if version >= 4:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    elif version >= 1:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    if 1 <= version <= 3:
        error_message = reader.nullable_string("error_message")
    if version >= 4:
        pass
    else:
        (node_id,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version <= 3:
        host = reader.string("host")
    if version >= 4:
        pass
    else:
        (port,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 4:
        for _ in range(reader.count("coordinators", 14)):
            coordinators.append(_read_coordinator(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return FindCoordinatorResponse(
        throttle_time_ms, error_code, error_message, node_id, host, port, coordinators
    )


def _write_coordinator(out: Writer, data: Coordinator, version: int) -> None:
    out.string(data.key)
    out += _I.pack(data.node_id)
    out.string(data.host)
    out += _IH.pack(data.port, data.error_code)
    out.nullable_string(data.error_message)
    out.append(0)


def _write_find_coordinator_response(
    out: Writer, data: FindCoordinatorResponse, version: int
) -> None:
    if version >= 4:
        out += _I.pack(data.throttle_time_ms)
    elif version >= 1:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _H.pack(data.error_code)
    if 1 <= version <= 3:
        out.nullable_string(data.error_message)
    if version >= 4:
        pass
    else:
        out += _I.pack(data.node_id)
    if version <= 3:
        out.string(data.host)
    if version >= 4:
        pass
    else:
        out += _I.pack(data.port)
    if version >= 4:
        out.length(len(data.coordinators))
        for coordinator in data.coordinators:
            _write_coordinator(out, coordinator, version)
    if version >= 3:
        out.append(0)


def _error_response(request: FindCoordinatorRequest, code: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=code,
        error_message=None,
        node_id=-1,
        port=-1,
        coordinators=[
            Coordinator(key=value, node_id=-1, port=-1, error_code=code, error_message=None)
            for value in request.coordinator_keys
        ],
    )


FIND_COORDINATOR_MESSAGES = ApiMessages(
    key=10,
    name="FindCoordinator",
    versions=(0, 6),
    flexible_since=3,
    request=FindCoordinatorRequest,
    response=FindCoordinatorResponse,
    read_request=_read_find_coordinator_request,
    read_response=_read_find_coordinator_response,
    write_response=_write_find_coordinator_response,
    error_response=_error_response,
    fields={
        FindCoordinatorRequest: {"key": (0, 3), "key_type": (1, 6), "coordinator_keys": (4, 6)},
        FindCoordinatorResponse: {
            "throttle_time_ms": (1, 6),
            "error_code": (0, 3),
            "error_message": (1, 3),
            "node_id": (0, 3),
            "host": (0, 3),
            "port": (0, 3),
            "coordinators": (4, 6),
        },
    },
)
