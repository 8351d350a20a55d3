"""CreateAcls: refused, as by a Kafka without an authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import CreateAclsRequest, CreateAclsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode

_Result = CreateAclsResponse.AclCreationResult

#: Kafka's message to clients that create or delete ACLs.
NO_AUTHORIZER = "No Authorizer is configured."


@dataclass(frozen=True, slots=True)
class _CreateAcls:
    count: int


def _decode(message: Any, context: RequestContext) -> _CreateAcls:
    return _CreateAcls(len(message.creations))


def _create_acls(broker: BrokerApi, context: RequestContext, request: _CreateAcls) -> None:
    context.reply(_response(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))


def _response(request: _CreateAcls, code: ErrorCode, text: str | None) -> Any:
    result = _Result(error_code=int(code), error_message=text)
    return CreateAclsResponse(results=[result] * request.count)


def _error_response(request: _CreateAcls, code: ErrorCode) -> Any:
    return _response(request, code, None)


API = ServedApi(
    key=30,
    name="CreateAcls",
    request=CreateAclsRequest,
    response=CreateAclsResponse,
    min_version=1,
    max_version=3,
    decode=_decode,
    handle=_create_acls,
    error_response=_error_response,
    subjects=no_subjects,
)
