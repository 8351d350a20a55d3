"""Requests out of bytes, and responses into bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from kafka.protocol.schemas.fields.codecs import EncodeBuffer

from request_purgatory.broker.wire.apis import API_VERSIONS, APIS, FETCH, PRODUCE, Api
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.limits import (
    MAX_ELEMENTS,
    MAX_PLAIN_REQUEST_BYTES,
    require_bounds,
    unsigned,
)
from request_purgatory.broker.wire.nullability import require_no_nulls

#: Of any response but Fetch's, which has a limit of its own in its request and another in the
#: settings. Clients take no more from a broker by themselves: librdkafka's
#: `receive.message.max.bytes` is 100 MB.
MAX_PLAIN_RESPONSE_BYTES = 100 * 2**20

_HEADER = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_FRAMED_CORRELATION = struct.Struct(">ii")
_SIZE_BYTES = 4
_WHY_CHARACTERS = 200


@dataclass(slots=True)
class Header:
    """What every request begins with."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    #: Where the request's own fields begin.
    body: int
    #: ApiVersions of a version that is not served is answered, by an error that names those that
    #: are.
    is_served: bool


def read_header(frame: bytes) -> Header:
    """The header of a request.

    Raises:
        WireError: bytes that are no header, or an API or a version that is not served.
    """
    try:
        key, version, correlation_id = _HEADER.unpack_from(frame)
        (length,) = _LENGTH.unpack_from(frame, _HEADER.size)
        position = _HEADER.size + _LENGTH.size
        api = APIS.get(key)
        if api is None:
            raise WireError(f"API {key} version {version} is not served")
        client_id = None
        if length >= 0:
            client_id = frame[position : position + length].decode()
            if len(frame) < position + length:
                raise WireError(f"a client id of {length} bytes in a frame of {len(frame)}")
            position += length
        if not api.serves(version):
            if api is not API_VERSIONS:
                raise WireError(
                    f"{api.name} version {version} is not served: {api.min_version} to {api.max_version} are"
                )
            return Header(api, version, correlation_id, client_id, len(frame), is_served=False)
        if api.is_flexible(version):
            position = _after_tagged_fields(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"{len(frame)} bytes are no request's header: {error}") from error
    return Header(api, version, correlation_id, client_id, position, is_served=True)


def _after_tagged_fields(frame: bytes, position: int) -> int:
    """Where the tagged fields end that begin at `position`; a header has none that is known."""
    count, position = unsigned(frame, position)
    if count > MAX_ELEMENTS:
        raise WireError(
            f"a header with {count:,} tagged fields, where {MAX_ELEMENTS:,} are allowed"
        )
    for _ in range(count):
        _, position = unsigned(frame, position)
        size, position = unsigned(frame, position)
        position += size
        if position > len(frame):
            raise WireError(f"a tagged field of {size} bytes in a frame of {len(frame)}")
    return position


def read_request(frame: bytes, header: Header) -> Any:
    """The request that follows a header, of kafka-python's class for it.

    Raises:
        WireError: bytes that are no such request, or one of more parts than any client sends.
    """
    api = header.api
    if api is not PRODUCE and len(frame) > MAX_PLAIN_REQUEST_BYTES:
        raise WireError(
            f"{api.name} of {len(frame):,} bytes, where {MAX_PLAIN_REQUEST_BYTES:,} are allowed"
        )
    require_bounds(frame, header.body, api, header.version)
    flexible = api.is_flexible(header.version)
    # What `decode` does, but for where it ends: a text that is longer than the frame is cut there
    # without a word.
    decode = api.request._struct.compiled_decode_from(
        header.version, compact=flexible, tagged=flexible, data_class=api.request
    )
    try:
        request, end = decode(memoryview(frame), header.body)
    except Exception as error:
        # The library tells of bad bytes by whatever error they led to: struct's, a look-up's, a
        # decoder's.
        why = f"{type(error).__name__}: {str(error)[:_WHY_CHARACTERS]}"
        raise WireError(
            f"{len(frame)} bytes are no {api.name} request of version {header.version}: {why}"
        ) from error
    if end > len(frame):
        raise WireError(
            f"{api.name} request of version {header.version}: {end} bytes are announced, {len(frame)} came"
        )
    require_no_nulls(api, request, header.version)
    return request


class _Answer(EncodeBuffer):  # type: ignore[misc]
    """A buffer that a response is written to.

    Not larger than it may be, and gone with it, unlike the library's own.
    """

    def __init__(self, size: int, limit_bytes: int | None) -> None:
        super().__init__(size)
        self.limit_bytes = limit_bytes

    def ensure(self, needed: int) -> None:
        if self.limit_bytes is not None and self.pos + needed > self.limit_bytes:
            raise WireError(f"an answer of more than {self.limit_bytes:,} bytes")
        super().ensure(needed)


def response_frame(header: Header, response: Any) -> bytes:
    """A response as it is sent: size, correlation id, and the message.

    Raises:
        WireError: it is larger than MAX_PLAIN_RESPONSE_BYTES.
    """
    api = header.api
    # Who asks for versions that this broker does not have, can only read the answer of the first
    # version.
    version = header.version if header.is_served else 0
    flexible = api.is_flexible(version)
    answer = _Answer(1_024, None if api is FETCH else MAX_PLAIN_RESPONSE_BYTES)
    # No tagged fields of the header's; that of ApiVersions has no room for them.
    answer.pos = _FRAMED_CORRELATION.size + (flexible and api is not API_VERSIONS)
    encode = api.response._struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
    encode(response, answer)
    _FRAMED_CORRELATION.pack_into(answer.buf, 0, answer.pos - _SIZE_BYTES, header.correlation_id)
    return bytes(memoryview(answer.buf)[: answer.pos])
