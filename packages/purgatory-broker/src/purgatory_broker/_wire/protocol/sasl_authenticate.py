"""The messages of SaslAuthenticate.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_Q = struct.Struct(">q")


class SaslAuthenticateRequest(MessageStruct):
    """SaslAuthenticateRequest of Kafka."""

    __slots__ = ("auth_bytes",)
    auth_bytes: bytes
    hidden_fields = ("auth_bytes",)

    def __init__(self, auth_bytes: bytes = b"") -> None:
        self.auth_bytes = auth_bytes


class SaslAuthenticateResponse(MessageStruct):
    """SaslAuthenticateResponse of Kafka."""

    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    error_code: int
    error_message: str | None
    auth_bytes: bytes
    session_lifetime_ms: int
    hidden_fields = ("auth_bytes",)

    def __init__(
        self,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.auth_bytes = auth_bytes
        self.session_lifetime_ms = session_lifetime_ms


def _read_sasl_authenticate_request(reader: Reader, version: int) -> SaslAuthenticateRequest:
    auth_bytes = reader.blob("auth_bytes")
    if version >= 2:
        reader.skip_tagged_fields()
    return SaslAuthenticateRequest(auth_bytes)


def _read_sasl_authenticate_response(reader: Reader, version: int) -> SaslAuthenticateResponse:
    session_lifetime_ms: int = 0
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    error_message = reader.nullable_string("error_message")
    auth_bytes = reader.blob("auth_bytes")
    if version >= 1:
        (session_lifetime_ms,) = _Q.unpack_from(reader.frame, reader.position)
        reader.position += 8
    if version >= 2:
        reader.skip_tagged_fields()
    return SaslAuthenticateResponse(error_code, error_message, auth_bytes, session_lifetime_ms)


def _write_sasl_authenticate_response(
    out: Writer, data: SaslAuthenticateResponse, version: int
) -> None:
    out += _H.pack(data.error_code)
    out.nullable_string(data.error_message)
    out.blob(data.auth_bytes)
    if version >= 1:
        out += _Q.pack(data.session_lifetime_ms)
    if version >= 2:
        out.append(0)


def _error_response(request: SaslAuthenticateRequest, code: int) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=code, error_message=None)


SASL_AUTHENTICATE_MESSAGES = ApiMessages(
    key=36,
    name="SaslAuthenticate",
    versions=(0, 2),
    flexible_since=2,
    request=SaslAuthenticateRequest,
    response=SaslAuthenticateResponse,
    read_request=_read_sasl_authenticate_request,
    read_response=_read_sasl_authenticate_response,
    write_response=_write_sasl_authenticate_response,
    error_response=_error_response,
    fields={SaslAuthenticateResponse: {"session_lifetime_ms": (1, 2)}},
    secrets=frozenset({"auth_bytes"}),
)
