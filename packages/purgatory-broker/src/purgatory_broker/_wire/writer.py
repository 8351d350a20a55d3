"""Writes the fields of messages; see `reader`."""

from __future__ import annotations

import struct
import sys
from collections.abc import Sequence
from typing import ClassVar, TypeVar
from uuid import UUID

from purgatory_broker._wire.reader import MAX_TEXT_BYTES
from purgatory_broker._wire.wire_error import WireError

#: The largest response of any API but Fetch, whose size is limited by the request and by
#: `fetch.max.bytes`. By default clients accept no more from a broker: librdkafka's
#: `receive.message.max.bytes` is 100 MB.
MAX_PLAIN_RESPONSE_BYTES = 100 * 2**20

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_NO_ID = bytes(16)

V = TypeVar("V")


def not_null(value: V | None, field: str) -> V:
    """Return the value of a field that the message's version does not allow to be null."""
    if value is None:
        raise WireError(f"{field} must not be null")
    return value


class Writer(bytearray):
    """The bytes of a message that is not flexible."""

    __slots__ = ()

    #: The most bytes; strings, arrays and bytes beyond it raise WireError.
    limit: ClassVar[int] = MAX_PLAIN_RESPONSE_BYTES

    def string(self, text: str) -> None:
        raw = text.encode()
        self += _INT16.pack(len(raw))
        self += raw
        if len(self) > self.limit:
            self._refuse()

    def nullable_string(self, text: str | None) -> None:
        if text is None:
            self += b"\xff\xff"
        else:
            self.string(text)

    def length(self, length: int) -> None:
        """Write the length of an array or of bytes; -1 for null."""
        self += _INT32.pack(length)
        if len(self) > self.limit:
            self._refuse()

    def blob(self, value: bytes) -> None:
        """Write bytes or records."""
        self.length(len(value))
        self += value

    def nullable_blob(self, value: bytes | None) -> None:
        if value is None:
            self.length(-1)
        else:
            self.blob(value)

    def topic_id(self, topic_id: UUID | None) -> None:
        self += _NO_ID if topic_id is None else topic_id.bytes

    def numbers(self, values: Sequence[int], code: str) -> None:
        """Write an array of numbers; `code` is the one of the struct module."""
        self.length(len(values))
        self += struct.pack(f">{len(values)}{code}", *values)

    def strings(self, values: Sequence[str]) -> None:
        self.length(len(values))
        for text in values:
            self.string(text)

    def value(self) -> FlexibleWriter:
        """Return where the value of a tagged field is to be written."""
        return FlexibleWriter()

    def uvarint(self, value: int) -> None:
        while value >= 0x80:
            self.append(value & 0x7F | 0x80)
            value >>= 7
        self.append(value)

    def tagged_fields(self, fields: list[tuple[int, bytes | bytearray]]) -> None:
        """Write tagged fields: the tag and the value of each, in the order of the tags."""
        self.uvarint(len(fields))
        for tag, value in fields:
            self.uvarint(tag)
            self.uvarint(len(value))
            self += value
        if len(self) > self.limit:
            self._refuse()

    def _refuse(self) -> None:
        raise WireError(f"a response exceeds the limit of {self.limit:,} bytes")


class FlexibleWriter(Writer):
    """The bytes of a message that is flexible."""

    __slots__ = ()

    def string(self, text: str) -> None:
        raw = text.encode()
        size = len(raw) + 1
        if size < 0x80:
            self.append(size)
        elif size > MAX_TEXT_BYTES + 1:
            # The length has room for it, but clients refuse it.
            raise WireError(f"a string of {size - 1:,} bytes exceeds {MAX_TEXT_BYTES:,}")
        else:
            self.uvarint(size)
        self += raw
        if len(self) > self.limit:
            self._refuse()

    def nullable_string(self, text: str | None) -> None:
        if text is None:
            self.append(0)
        else:
            self.string(text)

    def length(self, length: int) -> None:
        if length < 0x7F:
            self.append(length + 1)
        else:
            self.uvarint(length + 1)
        if len(self) > self.limit:
            self._refuse()


class RecordsWriter(Writer):
    """The bytes of a response with records, whose size is limited otherwise."""

    __slots__ = ()

    limit: ClassVar[int] = sys.maxsize


class FlexibleRecordsWriter(FlexibleWriter):
    """The bytes of a flexible response with records."""

    __slots__ = ()

    limit: ClassVar[int] = sys.maxsize
