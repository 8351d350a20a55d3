"""The messages of LeaveGroup.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_IH = struct.Struct(">ih")


class MemberIdentity(MessageStruct):
    """MemberIdentity of Kafka."""

    __slots__ = ("member_id", "group_instance_id", "reason")
    member_id: str
    group_instance_id: str | None
    reason: str | None

    def __init__(
        self, member_id: str = "", group_instance_id: str | None = None, reason: str | None = None
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.reason = reason


class LeaveGroupRequest(MessageStruct):
    """LeaveGroupRequest of Kafka."""

    __slots__ = ("group_id", "member_id", "members")
    group_id: str
    member_id: str
    members: list[MemberIdentity]

    def __init__(
        self, group_id: str = "", member_id: str = "", members: list[MemberIdentity] = NEW_LIST
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.members = [] if members is NEW_LIST else members


class MemberResponse(MessageStruct):
    """MemberResponse of Kafka."""

    __slots__ = ("member_id", "group_instance_id", "error_code")
    member_id: str
    group_instance_id: str | None
    error_code: int

    def __init__(
        self, member_id: str = "", group_instance_id: str | None = "", error_code: int = 0
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.error_code = error_code


class LeaveGroupResponse(MessageStruct):
    """LeaveGroupResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "members")
    throttle_time_ms: int
    error_code: int
    members: list[MemberResponse]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.members = [] if members is NEW_LIST else members


def _read_member_identity(reader: Reader, version: int) -> MemberIdentity:
    reason: str | None = None
    member_id = reader.string("member_id")
    group_instance_id = reader.nullable_string("group_instance_id")
    if version >= 5:
        reason = reader.nullable_string("reason")
    if version >= 4:
        reader.skip_tagged_fields()
    return MemberIdentity(member_id, group_instance_id, reason)


def _read_leave_group_request(reader: Reader, version: int) -> LeaveGroupRequest:
    member_id: str = ""
    members: list[MemberIdentity] = []
    group_id = reader.string("group_id")
    if version <= 2:
        member_id = reader.string("member_id")
    if version >= 3:
        for _ in range(reader.count("members", 3)):
            members.append(_read_member_identity(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return LeaveGroupRequest(group_id, member_id, members)


def _read_member_response(reader: Reader, version: int) -> MemberResponse:
    member_id = reader.string("member_id")
    group_instance_id = reader.nullable_string("group_instance_id")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 4:
        reader.skip_tagged_fields()
    return MemberResponse(member_id, group_instance_id, error_code)


def _read_leave_group_response(reader: Reader, version: int) -> LeaveGroupResponse:
    throttle_time_ms: int = 0
    members: list[MemberResponse] = []
    if version >= 1:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    if version >= 3:
        for _ in range(reader.count("members", 5)):
            members.append(_read_member_response(reader, version))
    if version >= 4:
        reader.skip_tagged_fields()
    return LeaveGroupResponse(throttle_time_ms, error_code, members)


def _write_member_response(out: Writer, data: MemberResponse, version: int) -> None:
    out.string(data.member_id)
    out.nullable_string(data.group_instance_id)
    out += _H.pack(data.error_code)
    if version >= 4:
        out.append(0)


def _write_leave_group_response(out: Writer, data: LeaveGroupResponse, version: int) -> None:
    if version >= 1:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _H.pack(data.error_code)
    if version >= 3:
        out.length(len(data.members))
        for member_response in data.members:
            _write_member_response(out, member_response, version)
    if version >= 4:
        out.append(0)


def _error_response(request: LeaveGroupRequest, code: int) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=code)


def _groups(request: LeaveGroupRequest) -> Iterable[str]:
    return [request.group_id]


LEAVE_GROUP_MESSAGES = ApiMessages(
    key=13,
    name="LeaveGroup",
    versions=(0, 5),
    flexible_since=4,
    request=LeaveGroupRequest,
    response=LeaveGroupResponse,
    read_request=_read_leave_group_request,
    read_response=_read_leave_group_response,
    write_response=_write_leave_group_response,
    error_response=_error_response,
    fields={
        MemberIdentity: {"reason": (5, 5)},
        LeaveGroupRequest: {"member_id": (0, 2), "members": (3, 5)},
        LeaveGroupResponse: {"throttle_time_ms": (1, 5), "members": (3, 5)},
    },
    groups=_groups,
)
