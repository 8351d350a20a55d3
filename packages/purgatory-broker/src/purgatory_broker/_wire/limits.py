"""Limits on what decoding a request may cost.

An array element can be one byte on the wire and hundreds in memory. kafka-python's decoder trusts
what it reads: variable-length integers without an end, arrays of millions of elements, tagged
fields for each of which it copies the rest of the frame. Every frame but a small one is therefore
scanned first, without building any object.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from typing import Any, TypeAlias

from purgatory_broker._wire.apis import Api
from purgatory_broker._wire.wire_error import WireError

#: The most elements in all arrays of a request together. An element takes up some two kilobytes
#: while it is handled, its part of the response included, so a request costs at most 100 MiB beside
#: its own bytes and records. (Kafka has no such limit; its clients stay far below it.)
MAX_ELEMENTS = 50_000
#: The longest string, as in Kafka: every version of a message can encode this length.
MAX_TEXT_BYTES = 0x7FFF
#: Frames up to this size are not scanned: they can't have many elements.
SMALL_FRAME_BYTES = 4_096
#: The most bytes that tagged fields may make kafka-python copy while it decodes one request.
#: Clients send no tagged fields inside arrays.
MAX_COPIED_BYTES = 256 * 2**20

#: The longest error message in a response; a message may repeat what a client sent.
MAX_MESSAGE_CHARACTERS = 1_000

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MAX_VARINT_BYTES = 5


class _Kind(IntEnum):
    """How the bytes of a part of a request are scanned."""

    FIXED = 0
    STRING = 1
    BYTES = 2
    ARRAY = 3
    TAGGED_FIELDS = 4


#: A part of a request or of an array element: its kind, its size in bytes (FIXED only), and the
#: parts of its elements (ARRAY only).
_Part: TypeAlias = "tuple[_Kind, int, tuple[_Part, ...]]"


def check_limits(frame: bytes, body_offset: int, api: Api, version: int) -> None:
    """Refuse a request that exceeds a limit, or whose fields are not within its frame."""
    if len(frame) <= SMALL_FRAME_BYTES:
        return
    scan = _Scan(frame, body_offset, flexible=api.is_flexible(version))
    try:
        scan.parts(_request_parts(api, version))
    except (struct.error, IndexError) as error:
        raise WireError(f"the frame of {len(frame):,} bytes ends early: {error}") from error
    if scan.position > len(frame):
        raise WireError(f"its fields need {scan.position:,} bytes, the frame has {len(frame):,}")


def read_uvarint(frame: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned variable-length integer at `position`, and the position after it."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = frame[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise WireError(f"the integer at {position} has more than {_MAX_VARINT_BYTES} bytes")


def truncate_message(message: str | None) -> str | None:
    """Return `message`, cut to MAX_MESSAGE_CHARACTERS so that every version can encode it."""
    if message is None or len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return f"{message[:MAX_MESSAGE_CHARACTERS]}..."


@cache
def _request_parts(api: Api, version: int) -> tuple[_Part, ...]:
    return _parts(api.request.fields.values(), version, flexible=api.is_flexible(version))


def _parts(fields: Iterable[Any], version: int, *, flexible: bool) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    for field in fields:
        if not field.for_version_q(version) or field.tagged_field_q(version):
            continue
        part = _part(field, version, flexible=flexible)
        if part[0] is _Kind.FIXED and parts and parts[-1][0] is _Kind.FIXED:
            part = (_Kind.FIXED, parts.pop()[1] + part[1], ())
        parts.append(part)
    if flexible:
        parts.append((_Kind.TAGGED_FIELDS, 0, ()))
    return tuple(parts)


def _part(field: Any, version: int, *, flexible: bool) -> _Part:
    if field.is_struct_array():
        return _Kind.ARRAY, 0, _parts(field.fields.values(), version, flexible=flexible)
    if field.is_array():
        return _Kind.ARRAY, 0, (_part(field.array_of, version, flexible=flexible),)
    if field.type_str == "string":
        return _Kind.STRING, 0, ()
    if field.type_str in ("bytes", "records"):
        return _Kind.BYTES, 0, ()
    return _Kind.FIXED, field.TYPES[field.type_str].size, ()


class _Scan:
    """A position in a frame, with the elements and copied bytes counted up to it."""

    __slots__ = ("_copied_bytes", "_elements", "_flexible", "_frame", "position")

    def __init__(self, frame: bytes, position: int, *, flexible: bool) -> None:
        self.position = position
        self._frame = frame
        self._flexible = flexible
        self._elements = 0
        self._copied_bytes = 0

    def parts(self, parts: Iterable[_Part]) -> None:
        for kind, size, element in parts:
            if kind is _Kind.FIXED:
                self.position += size
            elif kind is _Kind.STRING:
                length = self._length(_INT16)
                if length > MAX_TEXT_BYTES:
                    raise WireError(
                        f"a string of {length:,} bytes exceeds the limit of {MAX_TEXT_BYTES:,}"
                    )
                self.position += length
            elif kind is _Kind.BYTES:
                length = self._length(_INT32)
                self.position += length
            elif kind is _Kind.ARRAY:
                self._array(element)
            else:
                self._tagged_fields()

    def _array(self, element: tuple[_Part, ...]) -> None:
        count = self._length(_INT32)
        self._count(count)
        if len(element) == 1 and element[0][0] is _Kind.FIXED:
            self.position += count * element[0][1]
            return
        for _ in range(count):
            self.parts(element)

    def _tagged_fields(self) -> None:
        count, self.position = read_uvarint(self._frame, self.position)
        if not count:
            return
        self._count(count)
        self._copied_bytes += len(self._frame) - self.position
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise WireError("too many array elements have tagged fields")
        for _ in range(count):
            _, self.position = read_uvarint(self._frame, self.position)
            size, self.position = read_uvarint(self._frame, self.position)
            self.position += size

    def _length(self, fixed: struct.Struct) -> int:
        """Return the length of the string, bytes or array at the position; that of a null is 0."""
        if self._flexible:
            length, self.position = read_uvarint(self._frame, self.position)
            return max(length - 1, 0)
        (length,) = fixed.unpack_from(self._frame, self.position)
        self.position += fixed.size
        return max(int(length), 0)

    def _count(self, elements: int) -> None:
        self._elements += elements
        if self._elements > MAX_ELEMENTS:
            raise WireError(f"its arrays have more than {MAX_ELEMENTS:,} elements")
