"""Reads the fields of messages from a frame.

From some version on, a message is flexible (KIP-482): lengths are variable-length integers, and
every struct ends with tagged fields.

An array element can be one byte on the wire and hundreds in memory. A reader therefore compares
each count with the bytes that are left, and limits the elements of all arrays of a message, before
anything is allocated.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Any
from uuid import UUID

from purgatory_broker._wire.wire_error import WireError

#: The most elements in all arrays of a message together. An element takes up some two kilobytes
#: while it is handled, its part of the response included, so a request costs at most 100 MiB beside
#: its own bytes and records. (Kafka has no such limit; its clients stay far below it.)
MAX_ELEMENTS = 50_000
#: The longest string, as in Kafka: every version of a message can encode this length.
MAX_TEXT_BYTES = 0x7FFF

_INT8 = struct.Struct(">b")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MAX_VARINT_BYTES = 5
_UUID_BYTES = 16
_NO_ID = bytes(_UUID_BYTES)


def read_uvarint(frame: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned variable-length integer at `position`, and the position after it."""
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        byte = frame[position + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, position + index + 1
    raise WireError(f"the integer at {position} has more than {_MAX_VARINT_BYTES} bytes")


class Reader:
    """A position in a frame, whose message is not flexible.

    Methods return the value at the position and move it behind the value. They raise WireError,
    struct.error, IndexError or ValueError for invalid bytes. `field` is a name for the errors.
    """

    __slots__ = ("_elements", "_end", "_size", "frame", "position")

    def __init__(self, frame: bytes, position: int, max_elements: int = MAX_ELEMENTS) -> None:
        self.frame = frame
        self.position = position
        self._end = len(frame)
        #: The size of the tagged field at the position, in bytes.
        self._size = 0
        #: How many more elements arrays may have.
        self._elements = max_elements

    # The next methods are called for each message, and therefore call no others.

    def unpack(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Return fields of fixed sizes."""
        values = fields.unpack_from(self.frame, self.position)
        self.position += fields.size
        return values

    def string(self, field: str) -> str:
        frame, position = self.frame, self.position
        (length,) = _INT16.unpack_from(frame, position)
        position += 2
        self.position = end = position + length
        if length < 0 or end > self._end:
            raise self._refusal(field, length)
        return frame[position:end].decode()

    def nullable_blob(self, field: str) -> bytes | None:
        """Return bytes or records; None for null."""
        (length,) = _INT32.unpack_from(self.frame, self.position)
        position = self.position + 4
        if length < 0:
            self.position = position
            return None
        self.position = end = position + length
        if end > self._end:
            raise self._refusal(field, length)
        return self.frame[position:end]

    def count(self, field: str, element_bytes: int) -> int:
        """Return the number of elements of an array; each has `element_bytes` or more."""
        (count,) = _INT32.unpack_from(self.frame, self.position)
        self.position += 4
        if count < 0 or count * element_bytes > self._end - self.position:
            raise self._refused_count(field, count)
        self._elements -= count
        if self._elements < 0:
            raise _too_many()
        return int(count)

    def skip_tagged_fields(self) -> None:
        if not self.frame[self.position]:  # The usual case.
            self.position += 1
            return
        for _ in range(self.tagged_fields()):
            self.tag()
            self.skip_value()

    def topic_id(self, field: str) -> UUID | None:
        """Return an id; None for zeros."""
        position = self.position
        self.position = end = position + _UUID_BYTES
        if end > self._end:
            raise self._refusal(field, _UUID_BYTES)
        return _uuid(self.frame[position:end])

    def nullable_string(self, field: str) -> str | None:
        if self.frame[self.position] < 0x80:
            return self.string(field)
        self.position += 2
        if self.position > self._end:
            raise self._refusal(field, 2)
        return None

    # -- what is less frequent

    def blob(self, field: str) -> bytes:
        """Return bytes."""
        value = self.nullable_blob(field)
        if value is None:
            raise self._refusal(field, -1)
        return value

    def is_present(self) -> bool:
        """Return whether a struct, which may be null, follows."""
        (mark,) = self.unpack(_INT8)
        return int(mark) >= 0

    def nullable_count(self, field: str, element_bytes: int) -> int:
        """Return the number of elements of an array as `count`; below 0 for null."""
        (count,) = _INT32.unpack_from(self.frame, self.position)
        if count >= 0:
            return self.count(field, element_bytes)
        self.position += 4
        return -1

    def numbers(self, field: str, code: str, size: int) -> list[Any]:
        """Return an array of numbers; `code` is the one of the struct module, `size` in bytes."""
        return self._numbers(self.count(field, size), code, size)

    def nullable_numbers(self, field: str, code: str, size: int) -> list[Any] | None:
        count = self.nullable_count(field, size)
        return None if count < 0 else self._numbers(count, code, size)

    def _numbers(self, count: int, code: str, size: int) -> list[Any]:
        values = struct.unpack_from(f">{count}{code}", self.frame, self.position)
        self.position += count * size
        return list(values)

    def strings(self, field: str) -> list[str]:
        element = f"an element of {field}"
        return [self.string(element) for _ in range(self.count(field, 1))]

    def nullable_strings(self, field: str) -> list[str] | None:
        count = self.nullable_count(field, 1)
        element = f"an element of {field}"
        return None if count < 0 else [self.string(element) for _ in range(count)]

    def tagged_fields(self) -> int:
        """Return the number of tagged fields of a struct."""
        frame, position = self.frame, self.position
        if not frame[position]:  # The usual case.
            self.position = position + 1
            return 0
        count, self.position = read_uvarint(frame, position)
        self._elements -= count
        if self._elements < 0:
            raise _too_many()
        return count

    def tag(self) -> int:
        """Return the tag of a tagged field, whose value is at the position then."""
        tag, position = read_uvarint(self.frame, self.position)
        self._size, self.position = read_uvarint(self.frame, position)
        return tag

    def skip_value(self) -> None:
        """Skip the value of a tagged field."""
        self.position += self._size
        if self.position > self._end:
            raise self._refusal("a tagged field", self._size)

    def _refusal(self, field: str, length: int) -> WireError:
        """Return the error for a length of a string or of bytes that the frame does not have."""
        if length < 0:
            return WireError(f"{field} must not be null")
        return WireError(f"{field} of {length:,} bytes exceeds the frame of {self._end:,}")

    def _refused_count(self, field: str, count: int) -> WireError:
        if count < 0:
            return WireError(f"{field} must not be null")
        left = self._end - self.position
        return WireError(f"{field} has {count:,} elements, and {left:,} bytes are left")


class FlexibleReader(Reader):
    """A position in a frame, whose message is flexible."""

    __slots__ = ()

    def string(self, field: str) -> str:
        frame, position = self.frame, self.position
        length = frame[position]
        if length < 0x80:
            position += 1
        else:
            length, position = read_uvarint(frame, position)
            if length > MAX_TEXT_BYTES + 1:
                raise WireError(
                    f"a string of {length - 1:,} bytes exceeds the limit of {MAX_TEXT_BYTES:,}"
                )
        self.position = end = position + length - 1
        if not length or end > self._end:
            raise self._refusal(field, length - 1)
        return frame[position:end].decode()

    def nullable_string(self, field: str) -> str | None:
        if self.frame[self.position]:
            return self.string(field)
        self.position += 1
        return None

    def nullable_blob(self, field: str) -> bytes | None:
        frame, position = self.frame, self.position
        length = frame[position]
        if length < 0x80:
            position += 1
        else:
            length, position = read_uvarint(frame, position)
        if not length:
            self.position = position
            return None
        self.position = end = position + length - 1
        if end > self._end:
            raise self._refusal(field, length - 1)
        return frame[position:end]

    def count(self, field: str, element_bytes: int) -> int:
        count, position = self.frame[self.position], self.position + 1
        if count >= 0x80:
            count, position = read_uvarint(self.frame, self.position)
        self.position = position
        count -= 1
        if count < 0 or count * element_bytes > self._end - position:
            raise self._refused_count(field, count)
        self._elements -= count
        if self._elements < 0:
            raise _too_many()
        return count

    def nullable_count(self, field: str, element_bytes: int) -> int:
        if self.frame[self.position]:
            return self.count(field, element_bytes)
        self.position += 1
        return -1


def refused_tag(tag: int, version: int) -> WireError:
    """Return the error for a tagged field that other versions of the message have."""
    return WireError(f"version {version} has no tagged field {tag}")


def _too_many() -> WireError:
    return WireError(f"its arrays have more than {MAX_ELEMENTS:,} elements")


@lru_cache(1_024)
def _uuid(raw: bytes) -> UUID | None:
    return None if raw == _NO_ID else UUID(bytes=raw)
