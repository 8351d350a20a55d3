"""The messages of Heartbeat.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class HeartbeatRequest(MessageStruct):
    """HeartbeatRequest of Kafka."""

    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id


class HeartbeatResponse(MessageStruct):
    """HeartbeatResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code")
    throttle_time_ms: int
    error_code: int

    def __init__(self, throttle_time_ms: int = 0, error_code: int = 0) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code


def _read_heartbeat_request(reader: Reader, version: int) -> HeartbeatRequest:
    group_instance_id: str | None = None
    group_id = reader.string("group_id")
    (generation_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    member_id = reader.string("member_id")
    if version >= 3:
        group_instance_id = reader.nullable_string("group_instance_id")
    if version >= 4:
        reader.skip_tagged_fields()
    return HeartbeatRequest(group_id, generation_id, member_id, group_instance_id)


def _read_heartbeat_response(reader: Reader, version: int) -> HeartbeatResponse:
    throttle_time_ms: int = 0
    if version >= 1:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    if version >= 4:
        reader.skip_tagged_fields()
    return HeartbeatResponse(throttle_time_ms, error_code)


def _write_heartbeat_response(out: Writer, data: HeartbeatResponse, version: int) -> None:
    if version >= 1:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _H.pack(data.error_code)
    if version >= 4:
        out.append(0)


def _error_response(request: HeartbeatRequest, code: int) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


def _groups(request: HeartbeatRequest) -> Iterable[str]:
    return [request.group_id]


HEARTBEAT_MESSAGES = ApiMessages(
    key=12,
    name="Heartbeat",
    versions=(0, 4),
    flexible_since=4,
    request=HeartbeatRequest,
    response=HeartbeatResponse,
    read_request=_read_heartbeat_request,
    read_response=_read_heartbeat_response,
    write_response=_write_heartbeat_response,
    error_response=_error_response,
    fields={
        HeartbeatRequest: {"group_instance_id": (3, 4)},
        HeartbeatResponse: {"throttle_time_ms": (1, 4)},
    },
    groups=_groups,
)
