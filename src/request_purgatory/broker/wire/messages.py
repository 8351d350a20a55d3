"""Requests out of bytes, and responses into bytes."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from request_purgatory.broker.wire.apis import API_VERSIONS, APIS, PRODUCE, Api
from request_purgatory.broker.wire.errors import WireError
from request_purgatory.broker.wire.limits import MAX_PLAIN_REQUEST_BYTES, require_few_partitions

_HEADER = struct.Struct(">hhi")
_LENGTH = struct.Struct(">h")
_CORRELATION = struct.Struct(">i")
_FRAMED_CORRELATION = struct.Struct(">ii")


@dataclass(slots=True)
class Header:
    """What every request begins with."""

    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    #: Where the request's own fields begin.
    body: int
    #: ApiVersions of a version that is not served is answered, by an error that names those that are.
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
                raise WireError(f"{api.name} version {version} is not served: {api.min_version} to {api.max_version} are")
            return Header(api, version, correlation_id, client_id, len(frame), is_served=False)
        if api.is_flexible(version):
            position = _after_tagged_fields(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"{len(frame)} bytes are no request's header: {error}") from error
    return Header(api, version, correlation_id, client_id, position, is_served=True)


def _after_tagged_fields(frame: bytes, position: int) -> int:
    """Where the tagged fields end that begin at `position`; a header has none that is known."""
    count, position = _unsigned(frame, position)
    for _ in range(count):
        _, position = _unsigned(frame, position)
        size, position = _unsigned(frame, position)
        position += size
        if position > len(frame):
            raise WireError(f"a tagged field of {size} bytes in a frame of {len(frame)}")
    return position


def _unsigned(frame: bytes, position: int) -> tuple[int, int]:
    """A number of variable length and where it ends."""
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 28:
            raise WireError("a number of more than five bytes")


def read_request(frame: bytes, header: Header) -> Any:
    """The request that follows a header, of kafka-python's class for it.

    Raises:
        WireError: bytes that are no such request, or one of more parts than any client sends.
    """
    api = header.api
    if api is PRODUCE:
        require_few_partitions(frame, header)
    elif len(frame) > MAX_PLAIN_REQUEST_BYTES:
        raise WireError(f"{api.name} of {len(frame):,} bytes, where {MAX_PLAIN_REQUEST_BYTES:,} are allowed")
    flexible = api.is_flexible(header.version)
    # What `decode` does, but for where it ends: a text that is longer than the frame is cut there without a word.
    decode = api.request._struct.compiled_decode_from(header.version, compact=flexible, tagged=flexible, data_class=api.request)
    try:
        request, end = decode(memoryview(frame), header.body)
    except Exception as error:
        # The library tells of bad bytes by whatever error they led to: struct's, a look-up's, a decoder's.
        raise WireError(f"{len(frame)} bytes are no {api.name} request of version {header.version}: {error!r}") from error
    if end > len(frame):
        raise WireError(f"{api.name} request of version {header.version}: {end} bytes are announced, {len(frame)} came")
    return request


def response_frame(header: Header, response: Any) -> bytes:
    """A response as it is sent: size, correlation id, and the message."""
    api = header.api
    # Who asks for versions that this broker does not have, can only read the answer of the first version.
    version = header.version if header.is_served else 0
    payload: bytes = response.encode(version=version)
    if api.is_flexible(version) and api is not API_VERSIONS:
        return _FRAMED_CORRELATION.pack(len(payload) + 5, header.correlation_id) + b"\0" + payload
    return _FRAMED_CORRELATION.pack(len(payload) + 4, header.correlation_id) + payload
