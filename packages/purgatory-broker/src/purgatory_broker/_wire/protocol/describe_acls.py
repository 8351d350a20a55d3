"""The messages of DescribeAcls.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_B = struct.Struct(">b")
_BB = struct.Struct(">bb")
_IH = struct.Struct(">ih")


class DescribeAclsRequest(MessageStruct):
    """DescribeAclsRequest of Kafka."""

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


class AclDescription(MessageStruct):
    """AclDescription of Kafka."""

    __slots__ = ("principal", "host", "operation", "permission_type")
    principal: str
    host: str
    operation: int
    permission_type: int

    def __init__(
        self, principal: str = "", host: str = "", operation: int = 0, permission_type: int = 0
    ) -> None:
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class DescribeAclsResource(MessageStruct):
    """DescribeAclsResource of Kafka."""

    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    resource_type: int
    resource_name: str
    pattern_type: int
    acls: list[AclDescription]

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] = NEW_LIST,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.acls = [] if acls is NEW_LIST else acls


class DescribeAclsResponse(MessageStruct):
    """DescribeAclsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    throttle_time_ms: int
    error_code: int
    error_message: str | None
    resources: list[DescribeAclsResource]

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] = NEW_LIST,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.resources = [] if resources is NEW_LIST else resources


def _read_describe_acls_request(reader: Reader, version: int) -> DescribeAclsRequest:
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
    return DescribeAclsRequest(
        resource_type_filter,
        resource_name_filter,
        pattern_type_filter,
        principal_filter,
        host_filter,
        operation,
        permission_type,
    )


def _read_acl_description(reader: Reader, version: int) -> AclDescription:
    principal = reader.string("principal")
    host = reader.string("host")
    operation, permission_type = _BB.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 2:
        reader.skip_tagged_fields()
    return AclDescription(principal, host, operation, permission_type)


def _read_describe_acls_resource(reader: Reader, version: int) -> DescribeAclsResource:
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    (pattern_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    acls: list[AclDescription] = []
    for _ in range(reader.count("acls", 5)):
        acls.append(_read_acl_description(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeAclsResource(resource_type, resource_name, pattern_type, acls)


def _read_describe_acls_response(reader: Reader, version: int) -> DescribeAclsResponse:
    throttle_time_ms, error_code = _IH.unpack_from(reader.frame, reader.position)
    reader.position += 6
    error_message = reader.nullable_string("error_message")
    resources: list[DescribeAclsResource] = []
    for _ in range(reader.count("resources", 5)):
        resources.append(_read_describe_acls_resource(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return DescribeAclsResponse(throttle_time_ms, error_code, error_message, resources)


def _write_acl_description(out: Writer, data: AclDescription, version: int) -> None:
    out.string(data.principal)
    out.string(data.host)
    out += _BB.pack(data.operation, data.permission_type)
    if version >= 2:
        out.append(0)


def _write_describe_acls_resource(out: Writer, data: DescribeAclsResource, version: int) -> None:
    out += _B.pack(data.resource_type)
    out.string(data.resource_name)
    out += _B.pack(data.pattern_type)
    out.length(len(data.acls))
    for acl_description in data.acls:
        _write_acl_description(out, acl_description, version)
    if version >= 2:
        out.append(0)


def _write_describe_acls_response(out: Writer, data: DescribeAclsResponse, version: int) -> None:
    out += _IH.pack(data.throttle_time_ms, data.error_code)
    out.nullable_string(data.error_message)
    out.length(len(data.resources))
    for describe_acls_resource in data.resources:
        _write_describe_acls_resource(out, describe_acls_resource, version)
    if version >= 2:
        out.append(0)


def _error_response(request: DescribeAclsRequest, code: int) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=code, error_message=None)


DESCRIBE_ACLS_MESSAGES = ApiMessages(
    key=29,
    name="DescribeAcls",
    versions=(1, 3),
    flexible_since=2,
    request=DescribeAclsRequest,
    response=DescribeAclsResponse,
    read_request=_read_describe_acls_request,
    read_response=_read_describe_acls_response,
    write_response=_write_describe_acls_response,
    error_response=_error_response,
    fields={},
)
