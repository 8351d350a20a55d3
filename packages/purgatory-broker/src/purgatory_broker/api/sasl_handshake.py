"""SaslHandshake: name the mechanism of a login."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafka.protocol.sasl import SaslHandshakeRequest, SaslHandshakeResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import RequestContext
from purgatory_broker.wire.error_code import ErrorCode

#: The first version after which tokens are sent in SaslAuthenticate requests.
AUTHENTICATE_REQUESTS_SINCE = 1


@dataclass(frozen=True, slots=True)
class _Handshake:
    mechanism: str


def _decode(message: Any, context: RequestContext) -> _Handshake:
    return _Handshake(message.mechanism)


def _sasl_handshake(broker: BrokerApi, context: RequestContext, request: _Handshake) -> None:
    login = context.login
    if login is None:
        # The listener has no SASL, or the client is logged in.
        context.reply(_error_response(request, ErrorCode.ILLEGAL_SASL_STATE))
        return
    code = ErrorCode.NONE
    has_requests = context.version >= AUTHENTICATE_REQUESTS_SINCE
    if not login.start(request.mechanism, has_requests=has_requests):
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        context.close_reason = f"unsupported SASL mechanism {request.mechanism[:100]!r}"
    context.reply(SaslHandshakeResponse(error_code=int(code), mechanisms=list(login.mechanisms)))


def _error_response(request: _Handshake, code: ErrorCode) -> Any:
    return SaslHandshakeResponse(error_code=int(code), mechanisms=[])


API = ServedApi(
    key=17,
    name="SaslHandshake",
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    min_version=0,
    max_version=1,
    decode=_decode,
    handle=_sasl_handshake,
    error_response=_error_response,
    subjects=no_subjects,
)
