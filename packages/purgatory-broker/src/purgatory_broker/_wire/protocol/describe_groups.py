"""The messages of DescribeGroups.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_T = struct.Struct(">?")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


class DescribeGroupsRequest(MessageStruct):
    """DescribeGroupsRequest of Kafka."""

    __slots__ = ("groups", "include_authorized_operations")
    groups: list[str]
    include_authorized_operations: bool

    def __init__(
        self, groups: list[str] = NEW_LIST, include_authorized_operations: bool = False
    ) -> None:
        self.groups = [] if groups is NEW_LIST else groups
        self.include_authorized_operations = include_authorized_operations


class DescribedGroupMember(MessageStruct):
    """DescribedGroupMember of Kafka."""

    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "member_metadata",
        "member_assignment",
    )
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    member_metadata: bytes
    member_assignment: bytes

    def __init__(
        self,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.member_metadata = member_metadata
        self.member_assignment = member_assignment


class DescribedGroup(MessageStruct):
    """DescribedGroup of Kafka."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    error_code: int
    error_message: str | None
    group_id: str
    group_state: str
    protocol_type: str
    protocol_data: str
    members: list[DescribedGroupMember]
    authorized_operations: int

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = NEW_LIST,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.protocol_type = protocol_type
        self.protocol_data = protocol_data
        self.members = [] if members is NEW_LIST else members
        self.authorized_operations = authorized_operations


class DescribeGroupsResponse(MessageStruct):
    """DescribeGroupsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "groups")
    throttle_time_ms: int
    groups: list[DescribedGroup]

    def __init__(self, throttle_time_ms: int = 0, groups: list[DescribedGroup] = NEW_LIST) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is NEW_LIST else groups


def _read_describe_groups_request(reader: Reader, version: int) -> DescribeGroupsRequest:
    include_authorized_operations: bool = False
    groups = reader.strings("groups")
    if version >= 3:
        (include_authorized_operations,) = _T.unpack_from(reader.frame, reader.position)
        reader.position += 1
    if version >= 5:
        reader.skip_tagged_fields()
    return DescribeGroupsRequest(groups, include_authorized_operations)


def _read_described_group_member(reader: Reader, version: int) -> DescribedGroupMember:
    group_instance_id: str | None = None
    member_id = reader.string("member_id")
    if version >= 4:
        group_instance_id = reader.nullable_string("group_instance_id")
    client_id = reader.string("client_id")
    client_host = reader.string("client_host")
    member_metadata = reader.blob("member_metadata")
    member_assignment = reader.blob("member_assignment")
    if version >= 5:
        reader.skip_tagged_fields()
    return DescribedGroupMember(
        member_id, group_instance_id, client_id, client_host, member_metadata, member_assignment
    )


def _read_described_group(reader: Reader, version: int) -> DescribedGroup:
    error_message: str | None = None
    authorized_operations: int = -2147483648
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 6:
        error_message = reader.nullable_string("error_message")
    group_id = reader.string("group_id")
    group_state = reader.string("group_state")
    protocol_type = reader.string("protocol_type")
    protocol_data = reader.string("protocol_data")
    members: list[DescribedGroupMember] = []
    for _ in range(reader.count("members", 7)):
        members.append(_read_described_group_member(reader, version))
    if version >= 3:
        (authorized_operations,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    if version >= 5:
        reader.skip_tagged_fields()
    return DescribedGroup(
        error_code,
        error_message,
        group_id,
        group_state,
        protocol_type,
        protocol_data,
        members,
        authorized_operations,
    )


def _read_describe_groups_response(reader: Reader, version: int) -> DescribeGroupsResponse:
    throttle_time_ms: int = 0
    if version >= 1:
        (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
        reader.position += 4
    groups: list[DescribedGroup] = []
    for _ in range(reader.count("groups", 12)):
        groups.append(_read_described_group(reader, version))
    if version >= 5:
        reader.skip_tagged_fields()
    return DescribeGroupsResponse(throttle_time_ms, groups)


def _write_described_group_member(out: Writer, data: DescribedGroupMember, version: int) -> None:
    out.string(data.member_id)
    if version >= 4:
        out.nullable_string(data.group_instance_id)
    out.string(data.client_id)
    out.string(data.client_host)
    out.blob(data.member_metadata)
    out.blob(data.member_assignment)
    if version >= 5:
        out.append(0)


def _write_described_group(out: Writer, data: DescribedGroup, version: int) -> None:
    out += _H.pack(data.error_code)
    if version >= 6:
        out.nullable_string(data.error_message)
    out.string(data.group_id)
    out.string(data.group_state)
    out.string(data.protocol_type)
    out.string(data.protocol_data)
    out.length(len(data.members))
    for described_group_member in data.members:
        _write_described_group_member(out, described_group_member, version)
    if version >= 3:
        out += _I.pack(data.authorized_operations)
    if version >= 5:
        out.append(0)


def _write_describe_groups_response(
    out: Writer, data: DescribeGroupsResponse, version: int
) -> None:
    if version >= 1:
        out += _I.pack(data.throttle_time_ms)
    out.length(len(data.groups))
    for described_group in data.groups:
        _write_described_group(out, described_group, version)
    if version >= 5:
        out.append(0)


def _error_response(request: DescribeGroupsRequest, code: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(error_code=code, group_id=value) for value in request.groups]
    )


def _groups(request: DescribeGroupsRequest) -> Iterable[str]:
    return request.groups


DESCRIBE_GROUPS_MESSAGES = ApiMessages(
    key=15,
    name="DescribeGroups",
    versions=(0, 6),
    flexible_since=5,
    request=DescribeGroupsRequest,
    response=DescribeGroupsResponse,
    read_request=_read_describe_groups_request,
    read_response=_read_describe_groups_response,
    write_response=_write_describe_groups_response,
    error_response=_error_response,
    fields={
        DescribeGroupsRequest: {"include_authorized_operations": (3, 6)},
        DescribedGroupMember: {"group_instance_id": (4, 6)},
        DescribedGroup: {"error_message": (6, 6), "authorized_operations": (3, 6)},
        DescribeGroupsResponse: {"throttle_time_ms": (1, 6)},
    },
    groups=_groups,
)
