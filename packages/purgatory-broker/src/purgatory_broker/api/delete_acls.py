"""DeleteAcls: refused, as by a Kafka without an authorizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DeleteAclsRequest, DeleteAclsResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.create_acls import NO_AUTHORIZER
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode

_Result = DeleteAclsResponse.DeleteAclsFilterResult


@dataclass(frozen=True, slots=True)
class _DeleteAcls:
    count: int


def _decode(message: Any, context: RequestContext) -> _DeleteAcls:
    return _DeleteAcls(len(message.filters))


def _delete_acls(broker: BrokerApi, context: RequestContext, request: _DeleteAcls) -> None:
    context.reply(_response(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER))


def _response(request: _DeleteAcls, code: ErrorCode, text: str | None) -> Any:
    result = _Result(error_code=int(code), error_message=text, matching_acls=[])
    return DeleteAclsResponse(filter_results=[result] * request.count)


def _error_response(request: _DeleteAcls, code: ErrorCode) -> Any:
    return _response(request, code, None)


API = ServedApi(
    key=31,
    name="DeleteAcls",
    request=DeleteAclsRequest,
    response=DeleteAclsResponse,
    min_version=1,
    max_version=3,
    decode=_decode,
    handle=_delete_acls,
    error_response=_error_response,
    subjects=no_subjects,
)
