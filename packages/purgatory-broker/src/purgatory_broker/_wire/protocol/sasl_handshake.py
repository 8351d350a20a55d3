"""The messages of SaslHandshake.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct

from purgatory_broker._wire.api_messages import NEW_LIST, ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")


class SaslHandshakeRequest(MessageStruct):
    """SaslHandshakeRequest of Kafka."""

    __slots__ = ("mechanism",)
    mechanism: str

    def __init__(self, mechanism: str = "") -> None:
        self.mechanism = mechanism


class SaslHandshakeResponse(MessageStruct):
    """SaslHandshakeResponse of Kafka."""

    __slots__ = ("error_code", "mechanisms")
    error_code: int
    mechanisms: list[str]

    def __init__(self, error_code: int = 0, mechanisms: list[str] = NEW_LIST) -> None:
        self.error_code = error_code
        self.mechanisms = [] if mechanisms is NEW_LIST else mechanisms


def _read_sasl_handshake_request(reader: Reader, version: int) -> SaslHandshakeRequest:
    mechanism = reader.string("mechanism")
    return SaslHandshakeRequest(mechanism)


def _read_sasl_handshake_response(reader: Reader, version: int) -> SaslHandshakeResponse:
    (error_code,) = _H.unpack_from(reader.frame, reader.position)
    reader.position += 2
    mechanisms = reader.strings("mechanisms")
    return SaslHandshakeResponse(error_code, mechanisms)


def _write_sasl_handshake_response(out: Writer, data: SaslHandshakeResponse, version: int) -> None:
    out += _H.pack(data.error_code)
    out.strings(data.mechanisms)


def _error_response(request: SaslHandshakeRequest, code: int) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code)


SASL_HANDSHAKE_MESSAGES = ApiMessages(
    key=17,
    name="SaslHandshake",
    versions=(0, 1),
    flexible_since=None,
    request=SaslHandshakeRequest,
    response=SaslHandshakeResponse,
    read_request=_read_sasl_handshake_request,
    read_response=_read_sasl_handshake_response,
    write_response=_write_sasl_handshake_response,
    error_response=_error_response,
    fields={},
)
