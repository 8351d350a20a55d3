"""CreateAcls, DeleteAcls and DescribeAcls: refused, as by a Kafka without an authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.protocol.create_acls import (
    CREATE_ACLS_MESSAGES,
    AclCreationResult,
    CreateAclsResponse,
)
from purgatory_broker._wire.protocol.delete_acls import (
    DELETE_ACLS_MESSAGES,
    DeleteAclsFilterResult,
    DeleteAclsResponse,
)
from purgatory_broker._wire.protocol.describe_acls import (
    DESCRIBE_ACLS_MESSAGES,
    DescribeAclsResponse,
)
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import RequestContext

#: Kafka's message to clients that create or delete ACLs.
NO_AUTHORIZER = "No Authorizer is configured."


@dataclass(frozen=True, slots=True)
class _AclChanges:
    count: int


def _decode_create_acls(message: Any, context: RequestContext) -> _AclChanges:
    return _AclChanges(len(message.creations))


def _create_acls_response(request: _AclChanges, code: ErrorCode, text: str | None = None) -> Any:
    result = AclCreationResult(error_code=int(code), error_message=text)
    return CreateAclsResponse(results=[result] * request.count)


CREATE_ACLS = ServedApi(
    messages=CREATE_ACLS_MESSAGES,
    versions=(1, 3),
    decode=_decode_create_acls,
    answer=lambda _broker, _context, request: _create_acls_response(
        request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER
    ),
    refuse=_create_acls_response,
)


def _decode_delete_acls(message: Any, context: RequestContext) -> _AclChanges:
    return _AclChanges(len(message.filters))


def _delete_acls_response(request: _AclChanges, code: ErrorCode, text: str | None = None) -> Any:
    result = DeleteAclsFilterResult(error_code=int(code), error_message=text, matching_acls=[])
    return DeleteAclsResponse(filter_results=[result] * request.count)


DELETE_ACLS = ServedApi(
    messages=DELETE_ACLS_MESSAGES,
    versions=(1, 3),
    decode=_decode_delete_acls,
    answer=lambda _broker, _context, request: _delete_acls_response(
        request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER
    ),
    refuse=_delete_acls_response,
)


def _describe_acls_response(code: ErrorCode, text: str | None = None) -> Any:
    return DescribeAclsResponse(error_code=int(code), error_message=text, resources=[])


DESCRIBE_ACLS = ServedApi(
    messages=DESCRIBE_ACLS_MESSAGES,
    versions=(1, 3),
    # What a request asks for does not matter.
    decode=lambda _message, _context: None,
    answer=lambda _broker, _context, _request: _describe_acls_response(
        ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker"
    ),
    refuse=lambda _request, code: _describe_acls_response(code),
)
