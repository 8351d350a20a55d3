"""Frames.

What a connection's bytes are divided into, each a size of four bytes and so many more.
"""

from __future__ import annotations

import struct

from request_purgatory.broker.wire.errors import WireError

_SIZE = struct.Struct(">i")
SIZE_BYTES = _SIZE.size


def frame_size(buffer: bytes | bytearray, limit: int) -> int:
    """The size that a frame's first four bytes announce, without these four.

    Raises:
        WireError: negative, or above `limit`.
    """
    (size,) = _SIZE.unpack_from(buffer)
    if size < 0:
        raise WireError(f"a frame of {size} bytes")
    if size > limit:
        raise WireError(f"a frame of {size:,} bytes, where {limit:,} are allowed")
    return int(size)
