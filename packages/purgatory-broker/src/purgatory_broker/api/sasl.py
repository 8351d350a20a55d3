"""SaslHandshake and SaslAuthenticate: name the mechanism of a login, and exchange its tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.sasl_authenticate import (
    SASL_AUTHENTICATE_MESSAGES,
    SaslAuthenticateResponse,
)
from purgatory_broker._wire.protocol.sasl_handshake import (
    SASL_HANDSHAKE_MESSAGES,
    SaslHandshakeResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import LoginFailedError, RequestContext

#: The first version after which tokens are sent in SaslAuthenticate requests.
AUTHENTICATE_REQUESTS_SINCE = 1


@dataclass(frozen=True, slots=True)
class _Handshake:
    mechanism: str


def _decode_sasl_handshake(message: Any, context: RequestContext) -> _Handshake:
    return _Handshake(message.mechanism)


def _sasl_handshake(broker: BrokerApi, context: RequestContext, request: _Handshake) -> Any:
    login = context.login
    if login is None:
        # The listener has no SASL, or the client is logged in.
        return SaslHandshakeResponse(error_code=int(ErrorCode.ILLEGAL_SASL_STATE), mechanisms=[])
    code = ErrorCode.NONE
    has_requests = context.version >= AUTHENTICATE_REQUESTS_SINCE
    if not login.start(request.mechanism, has_requests=has_requests):
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        context.close_reason = f"unsupported SASL mechanism {request.mechanism[:100]!r}"
    return SaslHandshakeResponse(error_code=int(code), mechanisms=list(login.mechanisms))


SASL_HANDSHAKE = ServedApi(
    messages=SASL_HANDSHAKE_MESSAGES,
    versions=(0, 1),
    decode=_decode_sasl_handshake,
    answer=_sasl_handshake,
)


@dataclass(frozen=True, slots=True)
class _Token:
    token: bytes = field(repr=False)


def _decode_sasl_authenticate(message: Any, context: RequestContext) -> _Token:
    return _Token(bytes(message.auth_bytes))


def _sasl_authenticate(broker: BrokerApi, context: RequestContext, request: _Token) -> Any:
    """Handle a SaslAuthenticate request; a client that can't log in is disconnected."""
    login = context.login
    if login is None:
        return _failure(
            ErrorCode.ILLEGAL_SASL_STATE,
            "SaslAuthenticate request received after successful authentication",
        )
    try:
        answer = login.evaluate(request.token)
    except LoginFailedError as error:
        context.close_reason = f"login failed: {error}"
        return _failure(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error))
    return SaslAuthenticateResponse(error_message=None, auth_bytes=answer)


def _failure(code: ErrorCode, message: str | None) -> Any:
    return SaslAuthenticateResponse(error_code=int(code), error_message=truncate_message(message))


SASL_AUTHENTICATE = ServedApi(
    messages=SASL_AUTHENTICATE_MESSAGES,
    versions=(0, 2),
    decode=_decode_sasl_authenticate,
    answer=_sasl_authenticate,
    refuse=lambda _request, code: _failure(code, None),
    secrets=frozenset({"auth_bytes"}),
)
