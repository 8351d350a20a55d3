"""Decompresses the records of a batch, and compresses those that compaction has left.

gzip is part of Python. snappy, lz4 and zstd need an optional library, the same as for kafka-python.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import RecordError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

#: The most that a batch is decompressed to: a gigabyte of zeros compresses to a megabyte.
MAX_DECOMPRESSED_BYTES = 67_108_864

#: The header of the block format that Java's snappy library and Kafka's clients use.
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_BYTES = 16
_XERIAL_BLOCK_BYTES = 32_768


def decompress(codec: int, data: bytes, limit: int = MAX_DECOMPRESSED_BYTES) -> bytes | None:
    """Return None without the codec's library, or if there are more than `limit` bytes."""
    if codec == NONE:
        return data
    if codec not in _DECOMPRESSORS:
        raise RecordError(ErrorCode.UNKNOWN_SERVER_ERROR, f"unknown codec {codec}")
    module, decompressor = _DECOMPRESSORS[codec]
    try:
        library = import_module(module)
    except ImportError:
        return None
    try:
        decompressed = decompressor(library, data, limit)
    except MemoryError:
        raise
    except Exception as error:
        # Each library has its own errors, some of them plain RuntimeError.
        raise RecordError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{len(data)} bytes are not valid {CODEC_NAMES[codec]}: "
            f"{type(error).__name__}: {error}",
        ) from error
    return None if decompressed is None or len(decompressed) > limit else decompressed


def compress(codec: int, data: bytes) -> bytes:
    """Compress with a codec whose library has decompressed other records of the batch."""
    if codec == NONE:
        return data
    module, compressor = _COMPRESSORS[codec]
    return compressor(import_module(module), data)


def _gzip(library: ModuleType, data: bytes) -> bytes:
    compressed: bytes = library.compress(data, mtime=0)
    return compressed


def _snappy(library: ModuleType, data: bytes) -> bytes:
    blocks = [_XERIAL, struct.pack(">ii", 1, 1)]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = library.compress(data[start : start + _XERIAL_BLOCK_BYTES])
        blocks += [struct.pack(">i", len(block)), block]
    return b"".join(blocks)


def _lz4(library: ModuleType, data: bytes) -> bytes:
    # Kafka's Java clients refuse linked blocks.
    compressed: bytes = library.compress(data, block_linked=False)
    return compressed


def _zstd(library: ModuleType, data: bytes) -> bytes:
    compressed: bytes = library.ZstdCompressor().compress(data)
    return compressed


#: The module and the function of each codec.
_COMPRESSORS: dict[int, tuple[str, Callable[[ModuleType, bytes], bytes]]] = {
    GZIP: ("gzip", _gzip),
    SNAPPY: ("snappy", _snappy),
    LZ4: ("lz4.frame", _lz4),
    ZSTD: ("zstandard", _zstd),
}


def _gunzip(library: ModuleType, data: bytes, limit: int) -> bytes:
    stream = library.decompressobj(wbits=31)
    decompressed: bytes = stream.decompress(data, limit + 1)
    if not stream.eof and len(decompressed) <= limit:
        raise EOFError(f"the stream ends after {len(decompressed)} bytes")
    return decompressed


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
    # A block begins with its decompressed size.
    if sum(_uvarint(block) for block in blocks) > limit:
        return None
    return b"".join(library.decompress(block) for block in blocks)


def _uvarint(block: bytes) -> int:
    value = 0
    for index, byte in enumerate(block[:5]):
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value
    raise EOFError("a block has no decompressed size")


def _unlz4(library: ModuleType, data: bytes, limit: int) -> bytes:
    stream = library.LZ4FrameDecompressor()
    decompressed: bytes = stream.decompress(data, max_length=limit + 1)
    if not stream.eof and len(decompressed) <= limit:
        raise EOFError(f"the frame ends after {len(decompressed)} bytes")
    return decompressed


def _unzstd(library: ModuleType, data: bytes, limit: int) -> bytes:
    with library.ZstdDecompressor().stream_reader(data, read_across_frames=True) as stream:
        decompressed: bytes = stream.read(limit + 1)
    return decompressed


#: The module and the function of each codec.
_DECOMPRESSORS: dict[int, tuple[str, Callable[[ModuleType, bytes, int], bytes | None]]] = {
    GZIP: ("zlib", _gunzip),
    SNAPPY: ("snappy", _unsnappy),
    LZ4: ("lz4.frame", _unlz4),
    ZSTD: ("zstandard", _unzstd),
}
