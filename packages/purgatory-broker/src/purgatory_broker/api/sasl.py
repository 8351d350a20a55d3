"""SaslHandshake and SaslAuthenticate: name the mechanism of a login, and exchange its tokens."""

from __future__ import annotations

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker._wire.limits import truncate_message
from purgatory_broker._wire.protocol.sasl_authenticate import (
    SASL_AUTHENTICATE_MESSAGES,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from purgatory_broker._wire.protocol.sasl_handshake import (
    SASL_HANDSHAKE_MESSAGES,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi
from purgatory_broker.request_context import LoginFailedError, RequestContext

#: The first version after which tokens are sent in SaslAuthenticate requests.
AUTHENTICATE_REQUESTS_SINCE = 1


def _sasl_handshake(
    broker: BrokerApi, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    login = context.login
    if login is None:
        # The listener has no SASL, or the client is logged in.
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    code = ErrorCode.NONE
    has_requests = context.version >= AUTHENTICATE_REQUESTS_SINCE
    if not login.start(request.mechanism, has_requests=has_requests):
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        context.close_reason = f"unsupported SASL mechanism {request.mechanism[:100]!r}"
    return SaslHandshakeResponse(error_code=code, mechanisms=list(login.mechanisms))


SASL_HANDSHAKE = ServedApi(
    messages=SASL_HANDSHAKE_MESSAGES, versions=(0, 1), answer=_sasl_handshake
)


def _sasl_authenticate(
    broker: BrokerApi, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """Handle a SaslAuthenticate request; a client that can't log in is disconnected."""
    login = context.login
    if login is None:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    try:
        answer = login.evaluate(request.auth_bytes)
    except LoginFailedError as error:
        context.close_reason = f"login failed: {error}"
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
            error_message=truncate_message(str(error)),
        )
    return SaslAuthenticateResponse(
        error_message=None,
        auth_bytes=answer,
        session_lifetime_ms=login.session_lifetime_ms,
    )


SASL_AUTHENTICATE = ServedApi(
    messages=SASL_AUTHENTICATE_MESSAGES,
    versions=(0, 2),
    answer=_sasl_authenticate,
)
