"""Frames: a connection's bytes are a sequence of them, each preceded by its size in four bytes."""

from __future__ import annotations

import struct

from purgatory_broker._wire.wire_error import WireError

_SIZE = struct.Struct(">i")
SIZE_BYTES = _SIZE.size


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
