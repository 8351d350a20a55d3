"""The messages of DeleteGroups.

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


class DeleteGroupsRequest(MessageStruct):
    """DeleteGroupsRequest of Kafka."""

    __slots__ = ("groups_names",)
    groups_names: list[str]

    def __init__(self, groups_names: list[str] = NEW_LIST) -> None:
        self.groups_names = [] if groups_names is NEW_LIST else groups_names


class DeletableGroupResult(MessageStruct):
    """DeletableGroupResult of Kafka."""

    __slots__ = ("group_id", "error_code")
    group_id: str
    error_code: int

    def __init__(self, group_id: str = "", error_code: int = 0) -> None:
        self.group_id = group_id
        self.error_code = error_code


class DeleteGroupsResponse(MessageStruct):
    """DeleteGroupsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "results")
    throttle_time_ms: int
    results: list[DeletableGroupResult]

    def __init__(
        self, throttle_time_ms: int = 0, results: list[DeletableGroupResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW_LIST else results


def _read_delete_groups_request(reader: Reader, version: int) -> DeleteGroupsRequest:
    groups_names = reader.strings("groups_names")
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteGroupsRequest(groups_names)


def _read_deletable_group_result(reader: Reader, version: int) -> DeletableGroupResult:
    group_id = reader.string("group_id")
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 2:
        reader.skip_tagged_fields()
    return DeletableGroupResult(group_id, error_code)


def _read_delete_groups_response(reader: Reader, version: int) -> DeleteGroupsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    results: list[DeletableGroupResult] = []
    for _ in range(reader.count("results", 4)):
        results.append(_read_deletable_group_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteGroupsResponse(throttle_time_ms, results)


def _write_deletable_group_result(out: Writer, data: DeletableGroupResult, version: int) -> None:
    out.string(data.group_id)
    out += _H.pack(data.error_code)
    if version >= 2:
        out.append(0)


def _write_delete_groups_response(out: Writer, data: DeleteGroupsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.results))
    for deletable_group_result in data.results:
        _write_deletable_group_result(out, deletable_group_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: DeleteGroupsRequest, code: int) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=value, error_code=code) for value in request.groups_names
        ]
    )


def _groups(request: DeleteGroupsRequest) -> Iterable[str]:
    return request.groups_names


DELETE_GROUPS_MESSAGES = ApiMessages(
    key=42,
    name="DeleteGroups",
    versions=(0, 2),
    flexible_since=2,
    request=DeleteGroupsRequest,
    response=DeleteGroupsResponse,
    read_request=_read_delete_groups_request,
    read_response=_read_delete_groups_response,
    write_response=_write_delete_groups_response,
    error_response=_error_response,
    fields={},
    groups=_groups,
)
