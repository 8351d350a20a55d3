"""SaslAuthenticate: exchange the tokens of a login."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse

from purgatory_broker.api.broker_api import BrokerApi
from purgatory_broker.api.served_api import ServedApi, no_subjects
from purgatory_broker.request_context import LoginFailedError, RequestContext
from purgatory_broker.wire.error_code import ErrorCode
from purgatory_broker.wire.limits import truncate_message


@dataclass(frozen=True, slots=True)
class _Token:
    token: bytes = field(repr=False)


def _decode(message: Any, context: RequestContext) -> _Token:
    return _Token(bytes(message.auth_bytes))


def _sasl_authenticate(broker: BrokerApi, context: RequestContext, request: _Token) -> None:
    """Handle a SaslAuthenticate request; a client that can't log in is disconnected."""
    login = context.login
    if login is None:
        context.reply(
            _failure(
                ErrorCode.ILLEGAL_SASL_STATE,
                "SaslAuthenticate request received after successful authentication",
            )
        )
        return
    try:
        answer = login.evaluate(request.token)
    except LoginFailedError as error:
        context.close_reason = f"login failed: {error}"
        context.reply(_failure(ErrorCode.SASL_AUTHENTICATION_FAILED, str(error)))
        return
    context.reply(
        SaslAuthenticateResponse(
            error_code=0, error_message=None, auth_bytes=answer, session_lifetime_ms=0
        )
    )


def _failure(code: ErrorCode, message: str | None) -> Any:
    return SaslAuthenticateResponse(
        error_code=int(code), error_message=truncate_message(message), auth_bytes=b""
    )


def _error_response(request: _Token, code: ErrorCode) -> Any:
    return _failure(code, None)


API = ServedApi(
    key=36,
    name="SaslAuthenticate",
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    min_version=0,
    max_version=2,
    decode=_decode,
    handle=_sasl_authenticate,
    error_response=_error_response,
    subjects=no_subjects,
    secrets=frozenset({"auth_bytes"}),
)
