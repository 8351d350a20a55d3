"""Reads and writes the parts of messages: lengths, strings, topic ids and tagged fields.

From some version on, a message is flexible (KIP-482): lengths are variable-length integers, and
every struct ends with tagged fields.

A reader takes a frame and a position, and returns a value and the position after it. It raises
WireError, struct.error, IndexError or ValueError for invalid bytes. A string that exceeds the frame
is returned short, with a position after the frame's end: the caller has to compare the last
position with the frame's size.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from purgatory_broker._wire.limits import MAX_ELEMENTS, MAX_TEXT_BYTES, read_uvarint
from purgatory_broker._wire.wire_error import WireError

#: Reads a value of any type.
Reader: TypeAlias = Callable[[bytes, int], tuple[Any, int]]
#: The known tagged fields of a struct: the name and the reader of each, by tag.
TaggedFields: TypeAlias = Mapping[int, tuple[str, Reader]]

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_UUID_BYTES = 16
_NO_ID = bytes(_UUID_BYTES)

# -- lengths


def _read_length(frame: bytes, position: int) -> tuple[int, int]:
    """Return the length of an array or of bytes, below 0 for null, and the position after it."""
    return _INT32.unpack_from(frame, position)[0], position + 4


def _read_compact_length(frame: bytes, position: int) -> tuple[int, int]:
    """Return a length in a flexible message, -1 for null, and the position after it."""
    length = frame[position]
    if length < 0x80:
        return length - 1, position + 1
    length, position = read_uvarint(frame, position)
    return length - 1, position


def add_elements(elements: int, length: int, field: str) -> int:
    """Return the number of elements of a request's arrays, including one more array.

    An array with a length below -1 is empty, as kafka-python has it.
    """
    if length == -1:
        raise WireError(f"{field} must not be null")
    if length > 0:
        elements += length
        if elements > MAX_ELEMENTS:
            raise WireError(f"its arrays have more than {MAX_ELEMENTS:,} elements")
    return elements


def _write_length(out: bytearray, length: int) -> None:
    """Write the length of an array or of bytes; -1 for null."""
    out += _INT32.pack(length)


def write_compact_length(out: bytearray, length: int) -> None:
    """Write the length of an array, of bytes or of a string in a flexible message; -1 for null."""
    _write_uvarint(out, length + 1)


def _write_uvarint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


# -- strings


def _read_string(frame: bytes, position: int) -> tuple[str | None, int]:
    """Return a string, None for null, and the position after it."""
    (length,) = _INT16.unpack_from(frame, position)
    position += 2
    if length < 0:
        return None, position
    end = position + length
    return frame[position:end].decode(), end


def read_compact_string(frame: bytes, position: int) -> tuple[str | None, int]:
    """Return a string of a flexible message, None for null, and the position after it."""
    length, position = _read_compact_length(frame, position)
    if length < 0:
        return None, position
    if length > MAX_TEXT_BYTES:
        raise WireError(f"a string of {length:,} bytes exceeds the limit of {MAX_TEXT_BYTES:,}")
    end = position + length
    return frame[position:end].decode(), end


def required(text: str | None, field: str) -> str:
    if text is None:
        raise WireError(f"{field} must not be null")
    return text


def _write_string(out: bytearray, text: str | None) -> None:
    if text is None:
        out += _INT16.pack(-1)
        return
    raw = text.encode()
    out += _INT16.pack(len(raw))
    out += raw


def write_compact_string(out: bytearray, text: str | None) -> None:
    """Write a string of a flexible message, or null."""
    if text is None:
        out.append(0)
        return
    raw = text.encode()
    _write_uvarint(out, len(raw) + 1)
    out += raw


# -- topic ids


def read_topic_id(frame: bytes, position: int) -> tuple[UUID | None, int]:
    """Return a topic id, None for zeros, and the position after it."""
    end = position + _UUID_BYTES
    return _topic_id(frame[position:end]), end


@lru_cache(1_024)
def _topic_id(raw: bytes) -> UUID | None:
    return None if raw == _NO_ID else UUID(bytes=raw)


def topic_id_bytes(topic_id: UUID | None) -> bytes:
    return _NO_ID if topic_id is None else topic_id.bytes


# -- flexible messages and others


class _Readers(NamedTuple):
    length: Callable[[bytes, int], tuple[int, int]]
    string: Callable[[bytes, int], tuple[str | None, int]]


class _Writers(NamedTuple):
    length: Callable[[bytearray, int], None]
    string: Callable[[bytearray, str | None], None]


_READERS = _Readers(_read_length, _read_string)
_COMPACT_READERS = _Readers(_read_compact_length, read_compact_string)
_WRITERS = _Writers(_write_length, _write_string)
_COMPACT_WRITERS = _Writers(write_compact_length, write_compact_string)


def readers(*, flexible: bool) -> _Readers:
    return _COMPACT_READERS if flexible else _READERS


def writers(*, flexible: bool) -> _Writers:
    return _COMPACT_WRITERS if flexible else _WRITERS


# -- tagged fields


def skip_tagged_fields(frame: bytes, position: int, elements: int) -> tuple[int, int]:
    """Return what `read_tagged_fields` does for a struct without known tagged fields."""
    return read_tagged_fields(frame, position, elements, None, {})


def read_tagged_fields(
    frame: bytes, position: int, elements: int, message: object, known: TaggedFields
) -> tuple[int, int]:
    """Read the tagged fields of a struct; skip those that are unknown."""
    if not frame[position]:  # The usual case: no fields.
        return position + 1, elements
    count, position = read_uvarint(frame, position)
    elements = add_elements(elements, count, "tagged fields")
    for _ in range(count):
        tag, position = read_uvarint(frame, position)
        size, position = read_uvarint(frame, position)
        field = known.get(tag)
        if field is None:
            position += size
        else:
            # As in Kafka and kafka-python, the end follows from the type and not from the size.
            name, read = field
            value, position = read(frame, position)
            setattr(message, name, value)
    return position, elements


def end_of_tagged_struct(frame: bytes, position: int) -> int:
    """Return the position after the tagged fields of a struct that is a tagged field itself."""
    count, position = read_uvarint(frame, position)
    if count:
        raise WireError(f"a tagged struct has {count} tagged fields, and none are defined")
    return position


def write_tagged_fields(out: bytearray, fields: list[tuple[int, bytes | bytearray]]) -> None:
    """Write tagged fields: the tag and the value of each, in the order of the tags."""
    _write_uvarint(out, len(fields))
    for tag, value in fields:
        _write_uvarint(out, tag)
        _write_uvarint(out, len(value))
        out += value
