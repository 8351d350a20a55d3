"""The messages of SaslHandshake.

Made from Kafka 4.1.1's schemas: do not edit.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from purgatory_broker._wire.api_messages import ApiMessages, MessageStruct
from purgatory_broker._wire.reader import Reader
from purgatory_broker._wire.writer import Writer

_H = struct.Struct(">h")


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class SaslHandshakeRequest(MessageStruct):
    """SaslHandshakeRequest of Kafka."""

    mechanism: str = ""


@dataclass(slots=True, eq=False, repr=False, match_args=False)
class SaslHandshakeResponse(MessageStruct):
    """SaslHandshakeResponse of Kafka."""

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)


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
