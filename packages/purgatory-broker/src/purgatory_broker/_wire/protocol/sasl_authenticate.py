"""The messages of SaslAuthenticate.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")
_Q = struct.Struct(">q")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class SaslAuthenticateRequest(MessageStruct):
    """SaslAuthenticateRequest of Kafka."""

    auth_bytes: bytes = field(default=b"", repr=False)


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class SaslAuthenticateResponse(MessageStruct):
    """SaslAuthenticateResponse of Kafka."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = field(default=b"", repr=False)
    session_lifetime_ms: int = 0


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
