"""The messages of ListGroups.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_IH = struct.Struct(">ih")


class ListGroupsRequest(MessageStruct):
    """ListGroupsRequest of Kafka."""

    __slots__ = ("states_filter", "types_filter")
    states_filter: list[str]
    types_filter: list[str]

    def __init__(
        self, states_filter: list[str] = NEW_LIST, types_filter: list[str] = NEW_LIST
    ) -> None:
        self.states_filter = [] if states_filter is NEW_LIST else states_filter
        self.types_filter = [] if types_filter is NEW_LIST else types_filter


class ListedGroup(MessageStruct):
    """ListedGroup of Kafka."""

    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    group_id: str
    protocol_type: str
    group_state: str
    group_type: str

    def __init__(
        self,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id = group_id
        self.protocol_type = protocol_type
        self.group_state = group_state
        self.group_type = group_type


class ListGroupsResponse(MessageStruct):
    """ListGroupsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "groups")
    throttle_time_ms: int
    error_code: int
    groups: list[ListedGroup]

    def __init__(
        self, throttle_time_ms: int = 0, error_code: int = 0, groups: list[ListedGroup] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.groups = [] if groups is NEW_LIST else groups


def _read_list_groups_request(reader: Reader, version: int) -> ListGroupsRequest:
    states_filter: list[str] = []
    types_filter: list[str] = []
    if version >= 4:
        states_filter = reader.strings("states_filter")
    if version >= 5:
        types_filter = reader.strings("types_filter")
    if version >= 3:
        reader.skip_tagged_fields()
    return ListGroupsRequest(states_filter, types_filter)


def _read_listed_group(reader: Reader, version: int) -> ListedGroup:
    group_state: str = ""
    group_type: str = ""
    group_id = reader.string("group_id")
    protocol_type = reader.string("protocol_type")
    if version >= 4:
        group_state = reader.string("group_state")
    if version >= 5:
        group_type = reader.string("group_type")
    if version >= 3:
        reader.skip_tagged_fields()
    return ListedGroup(group_id, protocol_type, group_state, group_type)


def _read_list_groups_response(reader: Reader, version: int) -> ListGroupsResponse:
    throttle_time_ms: int = 0
    if version >= 1:
        throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
        reader.position += 6
    else:
        (error_code,) = _H.unpack_from(reader.frame, reader.position)
        reader.position += 2
    groups: list[ListedGroup] = []
    for _ in range(reader.count("groups", 3)):
        groups.append(_read_listed_group(reader, version))
    if version >= 3:
        reader.skip_tagged_fields()
    return ListGroupsResponse(throttle_time_ms, error_code, groups)


def _write_listed_group(out: Writer, data: ListedGroup, version: int) -> None:
    out.string(data.group_id)
    out.string(data.protocol_type)
    if version >= 4:
        out.string(data.group_state)
    if version >= 5:
        out.string(data.group_type)
    if version >= 3:
        out.append(0)


def _write_list_groups_response(out: Writer, data: ListGroupsResponse, version: int) -> None:
    if version >= 1:
        out += _IH.pack(data.throttle_time_ms, data.error_code)
    else:
        out += _H.pack(data.error_code)
    out.length(len(data.groups))
    for listed_group in data.groups:
        _write_listed_group(out, listed_group, version)
    if version >= 3:
        out.append(0)


def _error_response(request: ListGroupsRequest, code: int) -> ListGroupsResponse:
    return ListGroupsResponse(error_code=code)


LIST_GROUPS_MESSAGES = ApiMessages(
    key=16,
    name="ListGroups",
    versions=(0, 5),
    flexible_since=3,
    request=ListGroupsRequest,
    response=ListGroupsResponse,
    read_request=_read_list_groups_request,
    read_response=_read_list_groups_response,
    write_response=_write_list_groups_response,
    error_response=_error_response,
    fields={
        ListGroupsRequest: {"states_filter": (4, 5), "types_filter": (5, 5)},
        ListedGroup: {"group_state": (4, 5), "group_type": (5, 5)},
        ListGroupsResponse: {"throttle_time_ms": (1, 5)},
    },
)
