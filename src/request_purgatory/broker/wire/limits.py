"""Limits on what a request may make of its bytes: an element of an array can cost a byte on the wire and hundreds in memory."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from request_purgatory.broker.wire.errors import WireError

if TYPE_CHECKING:
    from request_purgatory.broker.wire.messages import Header

#: Of any request but Produce, whose bytes are mostly records. In memory it may be some seventy times that while it is handled.
MAX_PLAIN_REQUEST_BYTES = 4 * 2**20
#: Topics and partitions in one Produce request.
MAX_PRODUCE_PARTS = 100_000

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


class _Walk:
    """A position in a frame, and the few types that Produce is made of."""

    __slots__ = ("flexible", "frame", "position")

    def __init__(self, frame: bytes, position: int, *, flexible: bool) -> None:
        self.frame = frame
        self.position = position
        self.flexible = flexible

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.frame[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80 or shift > 28:
                return value
            shift += 7

    def length(self, fixed: struct.Struct) -> int:
        """Of a string, of bytes or of an array; null counts as 0."""
        if self.flexible:
            return max(self.unsigned() - 1, 0)
        (value,) = fixed.unpack_from(self.frame, self.position)
        self.position += fixed.size
        return max(int(value), 0)

    def skip(self, fixed: struct.Struct) -> None:
        self.position += self.length(fixed)

    def tagged_fields(self) -> None:
        if self.flexible:
            for _ in range(self.unsigned()):
                self.unsigned()
                self.position += self.unsigned()


def require_few_partitions(frame: bytes, header: Header) -> None:
    """Refuse a Produce request of so many topics and partitions that they, not its records, would fill the memory.

    Raises:
        WireError: there are more than MAX_PRODUCE_PARTS, or bytes that are no such request.
    """
    if len(frame) <= MAX_PLAIN_REQUEST_BYTES:
        return
    walk = _Walk(frame, header.body, flexible=header.api.is_flexible(header.version))
    try:
        walk.skip(_INT16)  # The transactional id.
        walk.position += _INT16.size + _INT32.size  # acks and the timeout
        topics = walk.length(_INT32)
        parts = topics
        for _ in range(topics):
            walk.skip(_INT16)
            partitions = walk.length(_INT32)
            parts += partitions
            if parts > MAX_PRODUCE_PARTS:
                raise WireError(f"Produce with more than {MAX_PRODUCE_PARTS:,} topics and partitions")
            for _ in range(partitions):
                walk.position += _INT32.size
                walk.skip(_INT32)
                walk.tagged_fields()
            walk.tagged_fields()
    except (struct.error, IndexError) as error:
        raise WireError(f"{len(frame):,} bytes are no Produce request: {error}") from error
