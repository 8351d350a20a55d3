"""The messages of DeleteAcls.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_BB = struct.Struct(">bb")
_H = struct.Struct(">h")
_I = struct.Struct(">i")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteAclsFilter(MessageStruct):
    """DeleteAclsFilter of Kafka."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteAclsRequest(MessageStruct):
    """DeleteAclsRequest of Kafka."""

    filters: list[DeleteAclsFilter] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteAclsMatchingAcl(MessageStruct):
    """DeleteAclsMatchingAcl of Kafka."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteAclsFilterResult(MessageStruct):
    """DeleteAclsFilterResult of Kafka."""

    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class DeleteAclsResponse(MessageStruct):
    """DeleteAclsResponse of Kafka."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)


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
