"""The messages of SyncGroup.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_I = struct.Struct(">i")
_IH = struct.Struct(">ih")


class SyncGroupRequestAssignment(MessageStruct):
    """SyncGroupRequestAssignment of Kafka."""

    __slots__ = ("member_id", "assignment")
    member_id: str
    assignment: bytes

    def __init__(self, member_id: str = "", assignment: bytes = b"") -> None:
        self.member_id = member_id
        self.assignment = assignment


class SyncGroupRequest(MessageStruct):
    """SyncGroupRequest of Kafka."""

    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: list[SyncGroupRequestAssignment]

    def __init__(
        self,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = NEW_LIST,
    ) -> None:
        self.group_id = group_id
        self.generation_id = generation_id
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignments = [] if assignments is NEW_LIST else assignments


class SyncGroupResponse(MessageStruct):
    """SyncGroupResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    throttle_time_ms: int
    error_code: int
    protocol_type: str | None
    protocol_name: str | None
    assignment: bytes

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.assignment = assignment


def _read_sync_group_request_assignment(reader: Reader, version: int) -> SyncGroupRequestAssignment:
    member_id = reader.string("member_id")
    assignment = reader.blob("assignment")
    if version >= 4:
        reader.skip_tagged_fields()
    return SyncGroupRequestAssignment(member_id, assignment)


def _read_sync_group_request(reader: Reader, version: int) -> SyncGroupRequest:
    group_instance_id: str | None = None
    protocol_type: str | None = None
    protocol_name: str | None = None
    group_id = reader.string("group_id")
    (generation_id,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    member_id = reader.string("member_id")
    if version >= 3:
        group_instance_id = reader.nullable_string("group_instance_id")
    if version >= 5:
        protocol_type = reader.nullable_string("protocol_type")
        protocol_name = reader.nullable_string("protocol_name")
    assignments: list[SyncGroupRequestAssignment] = []
    for _ in range(reader.count("assignments", 3)):
        assignments.append(_read_sync_group_request_assignment(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return SyncGroupRequest(
        group_id,
        generation_id,
        member_id,
        group_instance_id,
        protocol_type,
        protocol_name,
        assignments,
    )


def _read_sync_group_response(reader: Reader, version: int) -> SyncGroupResponse:
    throttle_time_ms: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    if version >= 1:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    if version >= 5:
        protocol_type = reader.nullable_string("protocol_type")
        protocol_name = reader.nullable_string("protocol_name")
    assignment = reader.blob("assignment")
    if version >= 4:
        reader.skip_tagged_fields()
    return SyncGroupResponse(throttle_time_ms, error_code, protocol_type, protocol_name, assignment)


def _write_sync_group_response(out: Writer, data: SyncGroupResponse, version: int) -> None:
    if version >= 1:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _H.pack(data.error_code)
    if version >= 5:
        out.nullable_string(data.protocol_type)
        out.nullable_string(data.protocol_name)
    out.blob(data.assignment)
    if version >= 4:
        out.append(0)


def _error_response(request: SyncGroupRequest, code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code)


def _groups(request: SyncGroupRequest) -> Iterable[str]:
    return [request.group_id]


SYNC_GROUP_MESSAGES = ApiMessages(
    key=14,
    name="SyncGroup",
    versions=(0, 5),
    flexible_since=4,
    request=SyncGroupRequest,
    response=SyncGroupResponse,
    read_request=_read_sync_group_request,
    read_response=_read_sync_group_response,
    write_response=_write_sync_group_response,
    error_response=_error_response,
    fields={
        SyncGroupRequest: {
            "group_instance_id": (3, 5),
            "protocol_type": (5, 5),
            "protocol_name": (5, 5),
        },
        SyncGroupResponse: {
            "throttle_time_ms": (1, 5),
            "protocol_type": (5, 5),
            "protocol_name": (5, 5),
        },
    },
    groups=_groups,
)
