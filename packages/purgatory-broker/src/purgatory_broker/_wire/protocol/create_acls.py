"""The messages of CreateAcls.

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


class AclCreation(MessageStruct):
    """AclCreation of Kafka."""

    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    resource_type: int
    resource_name: str
    resource_pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    def __init__(
        self,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.resource_pattern_type = resource_pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class CreateAclsRequest(MessageStruct):
    """CreateAclsRequest of Kafka."""

    __slots__ = ("creations",)
    creations: list[AclCreation]

    def __init__(self, creations: list[AclCreation] = NEW_LIST) -> None:
        self.creations = [] if creations is NEW_LIST else creations


class AclCreationResult(MessageStruct):
    """AclCreationResult of Kafka."""

    __slots__ = ("error_code", "error_message")
    error_code: int
    error_message: str | None

    def __init__(self, error_code: int = 0, error_message: str | None = "") -> None:
        self.error_code = error_code
        self.error_message = error_message


class CreateAclsResponse(MessageStruct):
    """CreateAclsResponse of Kafka."""

    __slots__ = ("throttle_time_ms", "results")
    throttle_time_ms: int
    results: list[AclCreationResult]

    def __init__(
        self, throttle_time_ms: int = 0, results: list[AclCreationResult] = NEW_LIST
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is NEW_LIST else results


def _read_acl_creation(reader: Reader, version: int) -> AclCreation:
    (resource_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    resource_name = reader.string("resource_name")
    (resource_pattern_type,) = _B.unpack_from(reader.frame, reader.position)
    reader.position += 1
    principal = reader.string("principal")
    host = reader.string("host")
    operation, permission_type = _BB.unpack_from(reader.frame, reader.position)
    reader.position += 2
    if version >= 2:
        reader.skip_tagged_fields()
    return AclCreation(
        resource_type,
        resource_name,
        resource_pattern_type,
        principal,
        host,
        operation,
        permission_type,
    )


def _read_create_acls_request(reader: Reader, version: int) -> CreateAclsRequest:
    creations: list[AclCreation] = []
    for _ in range(reader.count("creations", 8)):
        creations.append(_read_acl_creation(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return CreateAclsRequest(creations)


def _read_acl_creation_result(reader: Reader, version: int) -> AclCreationResult:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    if version >= 2:
        reader.skip_tagged_fields()
    return AclCreationResult(error_code, error_message)


def _read_create_acls_response(reader: Reader, version: int) -> CreateAclsResponse:
    (throttle_time_ms,) = _I.unpack_from(reader.frame, reader.position)
    reader.position += 4
    results: list[AclCreationResult] = []
    for _ in range(reader.count("results", 4)):
        results.append(_read_acl_creation_result(reader, version))
    if version >= 2:
        reader.skip_tagged_fields()
    return CreateAclsResponse(throttle_time_ms, results)


def _write_acl_creation_result(out: Writer, data: AclCreationResult, version: int) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    if version >= 2:
        out.append(0)


def _write_create_acls_response(out: Writer, data: CreateAclsResponse, version: int) -> None:
    out += _I.pack(data.throttle_time_ms)
    out.length(len(data.results))
    for acl_creation_result in data.results:
        _write_acl_creation_result(out, acl_creation_result, version)
    if version >= 2:
        out.append(0)


def _error_response(request: CreateAclsRequest, code: int) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=None) for _ in request.creations]
    )


CREATE_ACLS_MESSAGES = ApiMessages(
    key=30,
    name="CreateAcls",
    versions=(1, 3),
    flexible_since=2,
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    read_request=_read_create_acls_request,
    read_response=_read_create_acls_response,
    write_response=_write_create_acls_response,
    error_response=_error_response,
    fields={},
)
