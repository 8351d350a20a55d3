"""The messages of JoinGroup.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer, not_null

_T = struct.Struct(">?")
_HI = struct.Struct(">hi")
_I = struct.Struct(">i")
_IHI = struct.Struct(">ihi")
_II = struct.Struct(">ii")


class JoinGroupRequestProtocol(MessageStruct):
    """JoinGroupRequestProtocol of Kafka."""

    __slots__ = ("name", "metadata")
    name: str
    metadata: bytes

    def __init__(self, name: str = "", metadata: bytes = b"") -> None:
        self.name = name
        self.metadata = metadata


class JoinGroupRequest(MessageStruct):
    """JoinGroupRequest of Kafka."""

    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: list[JoinGroupRequestProtocol]
    reason: str | None

    def __init__(
        self,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = NEW_LIST,
        reason: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.protocol_type = protocol_type
        self.protocols = [] if protocols is NEW_LIST else protocols
        self.reason = reason


class JoinGroupResponseMember(MessageStruct):
    """JoinGroupResponseMember of Kafka."""

    __slots__ = ("member_id", "group_instance_id", "metadata")
    member_id: str
    group_instance_id: str | None
    metadata: bytes

    def __init__(
        self, member_id: str = "", group_instance_id: str | None = None, metadata: bytes = b""
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.metadata = metadata


class JoinGroupResponse(MessageStruct):
    """JoinGroupResponse of Kafka."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    throttle_time_ms: int
    error_code: int
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: list[JoinGroupResponseMember]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.generation_id = generation_id
        self.protocol_type = protocol_type
        self.protocol_name = protocol_name
        self.leader = leader
        self.skip_assignment = skip_assignment
        self.member_id = member_id
        self.members = [] if members is NEW_LIST else members


def _read_join_group_request_protocol(reader: Reader, version: int) -> JoinGroupRequestProtocol:
    name = reader.string("name")
    metadata = reader.blob("metadata")
    if version >= 6:
        reader.skip_tagged_fields()
    return JoinGroupRequestProtocol(name, metadata)


def _read_join_group_request(reader: Reader, version: int) -> JoinGroupRequest:
    rebalance_timeout_ms: int = -1
    group_instance_id: str | None = None
    reason: str | None = None
    group_id = reader.string("group_id")
    if version >= 1:
        session_timeout_ms, rebalance_timeout_ms = _II.unpack_from(reader.frame, reader.position)
        reader.position += 8
    else:
        (session_timeout_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    member_id = reader.string("member_id")
    if version >= 5:
        group_instance_id = reader.nullable_string("group_instance_id")
    protocol_type = reader.string("protocol_type")
    protocols: list[JoinGroupRequestProtocol] = []
    for _ in range(reader.count("protocols", 3)):
        protocols.append(_read_join_group_request_protocol(reader, version))
    if version >= 8:
        reason = reader.nullable_string("reason")
    if version >= 6:
        reader.skip_tagged_fields()
    return JoinGroupRequest(
        group_id,
        session_timeout_ms,
        rebalance_timeout_ms,
        member_id,
        group_instance_id,
        protocol_type,
        protocols,
        reason,
    )


def _read_join_group_response_member(reader: Reader, version: int) -> JoinGroupResponseMember:
    group_instance_id: str | None = None
    member_id = reader.string("member_id")
    if version >= 5:
        group_instance_id = reader.nullable_string("group_instance_id")
    metadata = reader.blob("metadata")
    if version >= 6:
        reader.skip_tagged_fields()
    return JoinGroupResponseMember(member_id, group_instance_id, metadata)


def _read_join_group_response(reader: Reader, version: int) -> JoinGroupResponse:
    throttle_time_ms: int = 0
    protocol_type: str | None = None
    skip_assignment: bool = False
    if version >= 2:
        throttle_time_ms, error_code, generation_id = _IHI.unpack_from(
            reader.frame, reader.position
        )
        reader.position += 10
    else:
        error_code, generation_id = _HI.unpack_from(reader.frame, reader.position)
        reader.position += 6
    if version >= 7:
        protocol_type = reader.nullable_string("protocol_type")
    protocol_name = (
        (reader.nullable_string("protocol_name"))
        if version >= 7
        else reader.string("protocol_name")
    )
    leader = reader.string("leader")
    if version >= 9:
        (skip_assignment,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    member_id = reader.string("member_id")
    members: list[JoinGroupResponseMember] = []
    for _ in range(reader.count("members", 4)):
        members.append(_read_join_group_response_member(reader, version))
    if version >= 6:
        reader.skip_tagged_fields()
    return JoinGroupResponse(
        throttle_time_ms,
        error_code,
        generation_id,
        protocol_type,
        protocol_name,
        leader,
        skip_assignment,
        member_id,
        members,
    )


def _write_join_group_response_member(
    out: Writer, data: JoinGroupResponseMember, version: int
) -> None:
    out.string(data.member_id)
    if version >= 5:
        out.nullable_string(data.group_instance_id)
    out.blob(data.metadata)
    if version >= 6:
        out.append(0)


def _write_join_group_response(out: Writer, data: JoinGroupResponse, version: int) -> None:
    if version >= 2:
        out += _IHI.pack(data.throttle_time_ms, data.error_code, data.generation_id)
    else:
        out += _HI.pack(data.error_code, data.generation_id)
    if version >= 7:
        out.nullable_string(data.protocol_type)
        out.nullable_string(data.protocol_name)
    else:
        out.string(not_null(data.protocol_name, "protocol_name"))
    out.string(data.leader)
    if version >= 9:
        out += _T.pack(data.skip_assignment)
    out.string(data.member_id)
    out.length(len(data.members))
    for join_group_response_member in data.members:
        _write_join_group_response_member(out, join_group_response_member, version)
    if version >= 6:
        out.append(0)


def _error_response(request: JoinGroupRequest, code: int) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, member_id=request.member_id)


def _groups(request: JoinGroupRequest) -> Iterable[str]:
    return [request.group_id]


JOIN_GROUP_MESSAGES = ApiMessages(
    key=11,
    name="JoinGroup",
    versions=(0, 9),
    flexible_since=6,
    request=JoinGroupRequest,
    response=JoinGroupResponse,
    read_request=_read_join_group_request,
    read_response=_read_join_group_response,
    write_response=_write_join_group_response,
    error_response=_error_response,
    fields={
        JoinGroupRequest: {
            "rebalance_timeout_ms": (1, 9),
            "group_instance_id": (5, 9),
            "reason": (8, 9),
        },
        JoinGroupResponseMember: {"group_instance_id": (5, 9)},
        JoinGroupResponse: {
            "throttle_time_ms": (2, 9),
            "protocol_type": (7, 9),
            "skip_assignment": (9, 9),
        },
    },
    groups=_groups,
)
