"""Decodes requests and encodes responses, in frames.

A connection's bytes are a sequence of frames, each preceded by its size in four bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from purgatory_broker._wire.apis import Api, ApiTable
from purgatory_broker._wire.reader import MAX_ELEMENTS, FlexibleReader, Reader, read_uvarint
from purgatory_broker._wire.wire_error import WireError
from purgatory_broker._wire.writer import (
    FlexibleRecordsWriter,
    FlexibleWriter,
    RecordsWriter,
    Writer,
)

#: API key, version, correlation id, and the length of the client id.
_HEADER = struct.Struct(">hhih")
_SIZE_AND_CORRELATION = struct.Struct(">ii")
_SIZE = struct.Struct(">i")
SIZE_BYTES = _SIZE.size
_MAX_CAUSE_CHARACTERS = 200


def with_size(content: bytes) -> bytes:
    return _SIZE.pack(len(content)) + content


def frame_size(buffer: bytes | bytearray, limit: int) -> int:
    """Return the size of the frame that `buffer` begins with, in bytes, without the size field."""
    (size,) = _SIZE.unpack_from(buffer)
    if size < 0:
        raise WireError(f"a frame's size must not be negative, got {size}")
    if size > limit:
        raise WireError(f"a frame of {size:,} bytes exceeds the limit of {limit:,}")
    return int(size)


@dataclass(slots=True)
class Header:
    api: Api
    version: int
    correlation_id: int
    client_id: str | None
    #: The position in the frame after the header.
    body_offset: int
    #: False for ApiVersions of an unsupported version, the only unsupported request that is
    #: answered; see `Api.answers_unsupported_versions`.
    is_supported: bool


def read_header(frame: bytes, apis: ApiTable) -> Header:
    try:
        key, version, correlation_id, length = _HEADER.unpack_from(frame)
        position = _HEADER.size
        api = apis.get(key)
        if api is None:
            raise WireError(f"API {key}, version {version}, is not supported")
        client_id = None
        if length >= 0:
            client_id = frame[position : position + length].decode()
            if len(frame) < position + length:
                raise WireError(
                    f"a client id of {length} bytes does not fit into a frame of {len(frame)}"
                )
            position += length
        if not api.supports(version):
            if not api.answers_unsupported_versions:
                raise WireError(
                    f"{api.name} version {version} is not supported; supported: "
                    f"{api.min_version} to {api.max_version}"
                )
            return Header(api, version, correlation_id, client_id, len(frame), is_supported=False)
        if api.is_flexible(version):
            position = _skip_tagged_fields(frame, position)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise WireError(f"a frame of {len(frame)} bytes has no valid header: {error}") from error
    return Header(api, version, correlation_id, client_id, position, is_supported=True)


def _skip_tagged_fields(frame: bytes, position: int) -> int:
    """Return the position after a header's tagged fields, none of which is in use."""
    count, position = read_uvarint(frame, position)
    if count > MAX_ELEMENTS:
        raise WireError(
            f"a header with {count:,} tagged fields exceeds the limit of {MAX_ELEMENTS:,}"
        )
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        position += size
        if position > len(frame):
            raise WireError(
                f"a tagged field of {size} bytes does not fit into a frame of {len(frame)}"
            )
    return position


def read_request(frame: bytes, header: Header) -> Any:
    api = header.api
    if api.max_request_bytes is not None and len(frame) > api.max_request_bytes:
        raise WireError(
            f"{_name(header)}: {len(frame):,} bytes exceed the limit of {api.max_request_bytes:,}"
        )
    version = header.version
    kind = FlexibleReader if version >= api.flexible_since else Reader
    try:
        return api.messages.read_request(kind(frame, header.body_offset), version)
    except WireError as error:
        raise WireError(f"{_name(header)}: {error}") from error
    except (struct.error, IndexError, ValueError) as error:
        cause = f"{type(error).__name__}: {str(error)[:_MAX_CAUSE_CHARACTERS]}"
        raise WireError(f"{_name(header)}: {len(frame)} bytes can't be decoded: {cause}") from error


def _name(header: Header) -> str:
    return f"{header.api.name} request of version {header.version}"


def encode_response(header: Header, response: Any) -> bytearray:
    """Return the frame of a response: its size, the correlation id and the message."""
    api = header.api
    # A client that sent an unsupported version can only be expected to read version 0.
    version = header.version if header.is_supported else 0
    # The header of a flexible response ends with an empty list of tagged fields, a zero byte.
    header_bytes = _SIZE_AND_CORRELATION.size
    kind = RecordsWriter if api.holds_records else Writer
    if version >= api.flexible_since:
        kind = FlexibleRecordsWriter if api.holds_records else FlexibleWriter
        header_bytes += api.has_tagged_header
    frame = kind(header_bytes)
    api.messages.write_response(frame, response, version)
    _SIZE_AND_CORRELATION.pack_into(frame, 0, len(frame) - SIZE_BYTES, header.correlation_id)
    return frame
