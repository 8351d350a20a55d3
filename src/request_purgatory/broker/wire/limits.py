"""Limits on what a request may make of its bytes: an element of an array can cost a byte on the wire and hundreds in memory.

The library's decoder believes what it reads: numbers of variable length that never end, arrays of
millions of elements, tagged fields for each of which it copies the rest of the frame. So all but
small frames are walked over first, without making anything.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from request_purgatory.broker.wire.errors import WireError

if TYPE_CHECKING:
    from request_purgatory.broker.wire.apis import Api

#: Of any request but Produce, whose bytes are mostly records.
MAX_PLAIN_REQUEST_BYTES = 4 * 2**20
#: In all arrays of a request together. With its part in the answer an element may take up some two
#: kilobytes while it is handled, so that no request makes more than 100 MiB of its bytes, beyond
#: these and its records. (Kafka has no such limit; its clients do not come near it.)
MAX_ELEMENTS = 50_000
#: The longest text that every version can tell, and so the longest that is taken: as Kafka's.
MAX_TEXT_BYTES = 0x7FFF
#: Frames up to this size are not walked over: they can't have many elements.
SMALL_FRAME_BYTES = 4_096
#: What tagged fields may make the library copy while it decodes one request. Clients' requests have
#: none in their arrays.
MAX_COPIED_BYTES = 256 * 2**20

#: Of an error's message, which may repeat what a client sent.
MAX_MESSAGE_CHARACTERS = 1_000

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MAX_VARINT_BYTES = 5


class _Kind(IntEnum):
    FIXED = 0
    TEXT = 1
    BYTES = 2
    ARRAY = 3
    TAGS = 4


#: What a request, or an element of one of its arrays, is made of: so many bytes, a text, bytes, an
#: array of such, tagged fields.
_Step: TypeAlias = "tuple[_Kind, int, tuple[_Step, ...]]"


def require_bounds(frame: bytes, body: int, api: Api, version: int) -> None:
    """Refuse a request of more parts than any client sends, or whose texts and arrays are not in its frame.

    Args:
        body: where the request's own fields begin.

    Raises:
        WireError: with what there is too much of, or where the frame ends.
    """
    if len(frame) <= SMALL_FRAME_BYTES:
        return
    what = f"{api.name} request of version {version}"
    walk = _Walk(frame, body, what, flexible=api.is_flexible(version))
    try:
        walk.over(_steps_of(api, version))
    except (struct.error, IndexError) as error:
        raise WireError(f"{what}: {len(frame):,} bytes are none: {error}") from error
    if walk.position > len(frame):
        raise WireError(f"{what}: {walk.position:,} bytes are announced, {len(frame):,} came")


def unsigned(frame: bytes, position: int) -> tuple[int, int]:
    """A number of variable length, and where it ends; IndexError if the frame does before it.

    Raises:
        WireError: it has more bytes than any number of 32 bits.
    """
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = frame[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise WireError(f"a number of more than {_MAX_VARINT_BYTES} bytes at {position}")


def told(message: str | None) -> str | None:
    """An error's message as it goes into a response, of which every version can write it."""
    return (
        message
        if message is None or len(message) <= MAX_MESSAGE_CHARACTERS
        else f"{message[:MAX_MESSAGE_CHARACTERS]}..."
    )


@cache
def _steps_of(api: Api, version: int) -> tuple[_Step, ...]:
    return _steps(api.request._struct, version, flexible=api.is_flexible(version))


def _steps(part: Any, version: int, *, flexible: bool) -> tuple[_Step, ...]:
    found: list[_Step] = []
    for field in part.untagged_fields(version):
        step = _step(field, version, flexible=flexible)
        if step[0] is _Kind.FIXED and found and found[-1][0] is _Kind.FIXED:
            step = (_Kind.FIXED, found.pop()[1] + step[1], ())
        found.append(step)
    if flexible:
        found.append((_Kind.TAGS, 0, ()))
    return tuple(found)


def _step(field: Any, version: int, *, flexible: bool) -> _Step:
    if field.is_struct_array():
        return _Kind.ARRAY, 0, _steps(field, version, flexible=flexible)
    if field.is_array():
        return _Kind.ARRAY, 0, (_step(field.array_of, version, flexible=flexible),)
    if field._type_str == "string":
        return _Kind.TEXT, 0, ()
    if field._type_str in ("bytes", "records"):
        return _Kind.BYTES, 0, ()
    return _Kind.FIXED, field._type.size, ()


class _Walk:
    """A position in a frame, and what was met on the way to it."""

    __slots__ = ("_copied_bytes", "_elements", "_flexible", "_frame", "_what", "position")

    def __init__(self, frame: bytes, position: int, what: str, *, flexible: bool) -> None:
        self.position = position
        self._frame = frame
        self._what = what
        self._flexible = flexible
        self._elements = 0
        self._copied_bytes = 0

    def over(self, steps: Iterable[_Step]) -> None:
        for kind, size, inner in steps:
            if kind is _Kind.FIXED:
                self.position += size
            elif kind is _Kind.TEXT:
                length = self._length(_INT16)
                if length > MAX_TEXT_BYTES:
                    raise WireError(
                        f"{self._what}: a text of {length:,} bytes, where {MAX_TEXT_BYTES:,} are allowed"
                    )
                self.position += length
            elif kind is _Kind.BYTES:
                length = self._length(_INT32)
                self.position += length
            elif kind is _Kind.ARRAY:
                self._over_array(inner)
            else:
                self._over_tagged_fields()

    def _over_array(self, steps: tuple[_Step, ...]) -> None:
        count = self._length(_INT32)
        self._count(count)
        if len(steps) == 1 and steps[0][0] is _Kind.FIXED:
            self.position += count * steps[0][1]
            return
        for _ in range(count):
            self.over(steps)

    def _over_tagged_fields(self) -> None:
        count, self.position = unsigned(self._frame, self.position)
        if not count:
            return
        self._count(count)
        self._copied_bytes += len(self._frame) - self.position
        if self._copied_bytes > MAX_COPIED_BYTES:
            raise WireError(f"{self._what}: too many parts with tagged fields")
        for _ in range(count):
            _, self.position = unsigned(self._frame, self.position)
            size, self.position = unsigned(self._frame, self.position)
            self.position += size

    def _length(self, fixed: struct.Struct) -> int:
        """Of a text, of bytes or of an array; null counts as 0."""
        if self._flexible:
            length, self.position = unsigned(self._frame, self.position)
            return max(length - 1, 0)
        (length,) = fixed.unpack_from(self._frame, self.position)
        self.position += fixed.size
        return max(int(length), 0)

    def _count(self, elements: int) -> None:
        self._elements += elements
        if self._elements > MAX_ELEMENTS:
            raise WireError(f"{self._what}: arrays of more than {MAX_ELEMENTS:,} elements")
