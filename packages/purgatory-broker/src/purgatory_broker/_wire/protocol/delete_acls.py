"""The messages of DeleteAcls.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_BB = struct.Struct(">bb")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


class DeleteAclsFilter(MessageStruct):
    """DeleteAclsFilter of Kafka."""

    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int

    def __init__(
        self,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter = resource_type_filter
        self.resource_name_filter = resource_name_filter
        self.pattern_type_filter = pattern_type_filter
        self.principal_filter = principal_filter
        self.host_filter = host_filter
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsRequest(MessageStruct):
    """DeleteAclsRequest of Kafka."""

    __slots__ = ("filters",)
    filters: list[DeleteAclsFilter]

    def __init__(self, filters: list[DeleteAclsFilter] = NEW_LIST) -> None:
        self.filters = [] if filters is NEW_LIST else filters


class DeleteAclsMatchingAcl(MessageStruct):
    """DeleteAclsMatchingAcl of Kafka."""

    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    error_code: int
    error_message: str | None
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DeleteAclsFilterResult(MessageStruct):
    """DeleteAclsFilterResult of Kafka."""

    __slots__ = ("error_code", "error_message", "matching_acls")
    error_code: int
    error_message: str | None
    matching_acls: list[DeleteAclsMatchingAcl]

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] = NEW_LIST,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.matching_acls = [] if matching_acls is NEW_LIST else matching_acls


class DeleteAclsResponse(MessageStruct):
    """DeleteAclsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "filter_results")
    throttle_time_ms: int
    filter_results: list[DeleteAclsFilterResult]

    def __init__(
        self, throttle_time_ms: int = 0, filter_results: list[DeleteAclsFilterResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.filter_results = [] if filter_results is NEW_LIST else filter_results


def _read_delete_acls_filter(reader: Reader, version: int) -> DeleteAclsFilter:
    (resource_type_filter,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name_filter = reader.nullable_string("resource_name_filter")
    (pattern_type_filter,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    principal_filter = reader.nullable_string("principal_filter")
    host_filter = reader.nullable_string("host_filter")
    operation, permission_type = _BB.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteAclsFilter(
        resource_type_filter,
        resource_name_filter,
        pattern_type_filter,
        principal_filter,
        host_filter,
        operation,
        permission_type,
    )


def _read_delete_acls_request(reader: Reader, version: int) -> DeleteAclsRequest:
    filters: list[DeleteAclsFilter] = []
    for _ in range(reader.count("filters", 8)):
        filters.append(_read_delete_acls_filter(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteAclsRequest(filters)


def _read_delete_acls_matching_acl(reader: Reader, version: int) -> DeleteAclsMatchingAcl:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    (pattern_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    principal = reader.string("principal")
    host = reader.string("host")
    operation, permission_type = _BB.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteAclsMatchingAcl(
        error_code,
        error_message,
        resource_type,
        resource_name,
        pattern_type,
        principal,
        host,
        operation,
        permission_type,
    )


def _read_delete_acls_filter_result(reader: Reader, version: int) -> DeleteAclsFilterResult:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    matching_acls: list[DeleteAclsMatchingAcl] = []
    for _ in range(reader.count("matching_acls", 11)):
        matching_acls.append(_read_delete_acls_matching_acl(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteAclsFilterResult(error_code, error_message, matching_acls)


def _read_delete_acls_response(reader: Reader, version: int) -> DeleteAclsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    filter_results: list[DeleteAclsFilterResult] = []
    for _ in range(reader.count("filter_results", 5)):
        filter_results.append(_read_delete_acls_filter_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DeleteAclsResponse(throttle_time_ms, filter_results)


def _write_delete_acls_matching_acl(out: Writer, data: DeleteAclsMatchingAcl, version: int) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out += _B.pack(data.resource_type)
    out.string(data.resource_name)
    out += _B.pack(data.pattern_type)
    out.string(data.principal)
    out.string(data.host)
    out += _BB.pack(data.operation, data.permission_type)
    if version >= 2:
        out.append(0)


def _write_delete_acls_filter_result(
    out: Writer, data: DeleteAclsFilterResult, version: int
) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.matching_acls))
    for delete_acls_matching_acl in data.matching_acls:
        _write_delete_acls_matching_acl(out, delete_acls_matching_acl, version)
    if version >= 2:
        out.append(0)


def _write_delete_acls_response(out: Writer, data: DeleteAclsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.filter_results))
    for delete_acls_filter_result in data.filter_results:
        _write_delete_acls_filter_result(out, delete_acls_filter_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: DeleteAclsRequest, code: int) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=code, error_message=None) for _ in request.filters
        ]
    )


DELETE_ACLS_MESSAGES = ApiMessages(
    key=31,
    name="DeleteAcls",
    versions=(1, 3),
    flexible_since=2,
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    read_request=_read_delete_acls_request,
    read_response=_read_delete_acls_response,
    write_response=_write_delete_acls_response,
    error_response=_error_response,
    fields={},
)
