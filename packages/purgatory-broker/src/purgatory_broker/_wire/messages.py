"""Decodes requests and encodes responses, in frames.

A connection's bytes are a sequence of frames, each preceded by its size in four bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from kafka.protocol.schemas.fields.codecs import EncodeBuffer

from purgatory_broker._wire.apis import Api, ApiTable
from purgatory_broker._wire.limits import MAX_ELEMENTS, check_limits, read_uvarint
from purgatory_broker._wire.wire_error import WireError

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
    read = api.read
    try:
        if read is None:
            request, end = _read_by_schema(frame, header)
        else:
            request, end = read(frame, header.body_offset, header.version)
    except WireError as error:
        raise WireError(f"{_name(header)}: {error}") from error
    except Exception as error:
        # kafka-python raises whatever the bytes lead to: struct.error, a failed look-up, a codec's
        # error.
        cause = f"{type(error).__name__}: {str(error)[:_MAX_CAUSE_CHARACTERS]}"
        raise WireError(f"{_name(header)}: {len(frame)} bytes can't be decoded: {cause}") from error
    if end > len(frame):
        # A string that exceeds the frame is read up to the frame's end.
        raise WireError(f"{_name(header)}: its fields need {end} bytes, the frame has {len(frame)}")
    return request


def _read_by_schema(frame: bytes, header: Header) -> tuple[Any, int]:
    """Return a request that is read by kafka-python's schema, and the position after it."""
    api, version = header.api, header.version
    check_limits(frame, header.body_offset, api, version)
    request, end = api.request_decoder(version)(memoryview(frame), header.body_offset)
    check_nullability(api, request, version)
    return request, end


def _name(header: Header) -> str:
    return f"{header.api.name} request of version {header.version}"


# -- nulls that the protocol does not allow, which kafka-python decodes as None


class _Field(NamedTuple):
    name: str
    nullable: bool
    #: An array of strings or numbers, whose elements must not be null even if the array may.
    is_plain_array: bool
    element: tuple[_Field, ...]


def check_nullability(api: Api, request: Any, version: int) -> None:
    """Refuse a request with a null array, string or bytes where `version` allows none."""
    _check(request, _request_fields(api, version))


@cache
def _request_fields(api: Api, version: int) -> tuple[_Field, ...]:
    return _fields(api.request.fields.values(), version)


def _fields(fields: Iterable[Any], version: int) -> tuple[_Field, ...]:
    checked = []
    for field in fields:
        if not field.for_version_q(version) or field.tagged_field_q(version):
            continue
        nullable = bool(field.nullable_for_version_q(version))
        is_struct_array = field.is_struct_array()
        element = _fields(field.fields.values(), version) if is_struct_array else ()
        is_plain_array = field.is_array() and not is_struct_array
        # Numbers are never null. A topic id of zeros, which is decoded as None, means no id.
        can_be_null = field.is_array() or field.type_str in ("string", "bytes", "records")
        if can_be_null and (not nullable or element or is_plain_array):
            checked.append(_Field(field.name, nullable, is_plain_array, element))
    return tuple(checked)


def _check(data: Any, fields: tuple[_Field, ...]) -> None:
    for name, nullable, is_plain_array, element in fields:
        value = getattr(data, name)
        if value is None:
            if not nullable:
                raise WireError(f"{name} must not be null")
        elif element:
            for item in value:
                _check(item, element)
        elif is_plain_array and None in value:
            raise WireError(f"an element of {name} must not be null")


# -- responses


class _ResponseBuffer(EncodeBuffer):  # type: ignore[misc]
    """A buffer for one response, with a limit.

    kafka-python's own buffers have no limit, and are kept for the next message.
    """

    def __init__(self, size: int, limit_bytes: int | None) -> None:
        super().__init__(size)
        self.limit_bytes = limit_bytes

    def ensure(self, needed: int) -> None:
        if self.limit_bytes is not None and self.pos + needed > self.limit_bytes:
            raise WireError(f"a response exceeds the limit of {self.limit_bytes:,} bytes")
        super().ensure(needed)


def encode_response(header: Header, response: Any) -> bytes | bytearray:
    """Return the frame of a response: its size, the correlation id and the message."""
    api = header.api
    # A client that sent an unsupported version can only be expected to read version 0.
    version = header.version if header.is_supported else 0
    # The header of a flexible response ends with an empty list of tagged fields, a zero byte.
    header_bytes = _SIZE_AND_CORRELATION.size
    if api.has_tagged_header and api.is_flexible(version):
        header_bytes += 1
    write = api.write
    if write is None:
        frame = _write_by_schema(api, version, response, header_bytes)
    else:
        frame = bytearray(header_bytes)
        write(frame, response, version)
    _SIZE_AND_CORRELATION.pack_into(frame, 0, len(frame) - SIZE_BYTES, header.correlation_id)
    return frame


def _write_by_schema(api: Api, version: int, response: Any, header_bytes: int) -> bytearray:
    """Return a response written by kafka-python's schema, with zeros in place of its header."""
    buffer = _ResponseBuffer(1_024, api.max_response_bytes)
    buffer.pos = header_bytes
    api.response_encoder(version)(response, buffer)
    frame: bytearray = buffer.buf
    del frame[buffer.pos :]
    return frame
