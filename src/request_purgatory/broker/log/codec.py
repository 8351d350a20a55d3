"""The codecs that record batches are compressed with.

gzip is Python's own; snappy, lz4 and zstd are there where their library is, by the names that
kafka-python uses them by.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from request_purgatory.broker.log.errors import RecordError
from request_purgatory.broker.wire.error_code import ErrorCode

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

#: What a batch may grow to when it is looked into: a megabyte of nothing but zeros packs a
#: gigabyte.
MAX_UNPACKED_BYTES = 67_108_864

#: Before the blocks of the framing that Java's snappy and all of Kafka's clients use.
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_BYTES = 16


def unpack(codec: int, data: bytes, limit: int = MAX_UNPACKED_BYTES) -> bytes | None:
    """What `data` was before it was compressed; None if its library is not installed, or if it is more than `limit` bytes.

    Raises:
        RecordError: UNKNOWN_SERVER_ERROR, which is Kafka's answer, for a codec that does not exist
            and for data that it can't have made.
    """
    if codec == NONE:
        return data
    if codec not in _UNPACKERS:
        raise RecordError(ErrorCode.UNKNOWN_SERVER_ERROR, f"there is no codec {codec}")
    module, unpacker = _UNPACKERS[codec]
    try:
        library = import_module(module)
    except ImportError:
        return None
    try:
        unpacked = unpacker(library, data, limit)
    except MemoryError:
        raise
    except (
        Exception
    ) as error:  # Each library has errors of its own, some of them plain RuntimeError.
        raise RecordError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{len(data)} bytes are not {NAMES[codec]}: {type(error).__name__}: {error}",
        ) from error
    return None if unpacked is None or len(unpacked) > limit else unpacked


def _gunzip(library: ModuleType, data: bytes, limit: int) -> bytes:
    stream = library.decompressobj(wbits=31)
    unpacked: bytes = stream.decompress(data, limit + 1)
    if not stream.eof and len(unpacked) <= limit:
        raise EOFError(f"the stream ends after {len(unpacked)} bytes")
    return unpacked


def _unsnappy(library: ModuleType, data: bytes, limit: int) -> bytes | None:
    blocks: list[bytes] = []
    if data.startswith(_XERIAL):
        position = _XERIAL_BYTES
        while position < len(data):
            (size,) = struct.unpack_from(">i", data, position)
            position += 4
            if not 0 <= size <= len(data) - position:
                raise EOFError(f"a block of {size} bytes at {position} of {len(data)}")
            blocks.append(data[position : position + size])
            position += size
    else:
        blocks.append(data)
    # Each block begins with how much it unpacks to.
    if sum(_uvarint(block) for block in blocks) > limit:
        return None
    return b"".join(library.decompress(block) for block in blocks)


def _uvarint(block: bytes) -> int:
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise EOFError("a block has no length")


def _unlz4(library: ModuleType, data: bytes, limit: int) -> bytes:
    stream = library.LZ4FrameDecompressor()
    unpacked: bytes = stream.decompress(data, max_length=limit + 1)
    if not stream.eof and len(unpacked) <= limit:
        raise EOFError(f"the frame ends after {len(unpacked)} bytes")
    return unpacked


def _unzstd(library: ModuleType, data: bytes, limit: int) -> bytes:
    with library.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
        unpacked: bytes = stream.read(limit + 1)
    return unpacked


_UNPACKERS: dict[int, tuple[str, Callable[[ModuleType, bytes, int], bytes | None]]] = {
    GZIP: ("zlib", _gunzip),
    SNAPPY: ("snappy", _unsnappy),
    LZ4: ("lz4.frame", _unlz4),
    ZSTD: ("zstandard", _unzstd),
}
