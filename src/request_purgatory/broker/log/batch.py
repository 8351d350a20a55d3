"""A record batch as bytes: Kafka's format of magic 2.

A batch is kept as its producer sent it. A leader writes two fields, the base offset and its epoch,
and both lie outside what the checksum covers, so the checksum stays as it is; only where a topic's
timestamps say otherwise is it made anew.

    offset  bytes                                      offset  bytes
         0      8  base offset                             27      8  base timestamp
         8      4  length of what follows it               35      8  max timestamp
        12      4  leader epoch                            43      8  producer id
        16      1  magic                                   51      2  producer epoch
        17      4  CRC32C of all that follows it           53      4  base sequence
        21      2  attributes                              57      4  record count
        23      4  last offset delta                       61         records
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from request_purgatory.broker.log.errors import NoBatchError, RecordError
from request_purgatory.broker.wire.error_code import ErrorCode

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20

#: Where a field is not set: a record's timestamp, a batch's producer id, epoch or sequence.
UNSET = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
_STAMP = struct.Struct(">qii")
#: Up to the magic, which tells how to read the rest; older formats have their magic in the same
#: place.
_PREFIX = struct.Struct(">qiib")
_CRC_AT, _ATTRIBUTES_AT, _MAX_TIMESTAMP_AT = 17, 21, 35
_LENGTH_BYTES = 12
#: The least that Kafka's reader of any format takes for a batch.
_LEAST_LENGTH = 14


class BatchHeader(NamedTuple):
    """What a batch says of itself. Timestamps are whole milliseconds since 1970."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.length + _LENGTH_BYTES

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the next batch begins."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; after 2^31 - 1 comes 0.

        UNSET for a batch without them.
        """
        if self.base_sequence == UNSET:
            return UNSET
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """How the records are compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def has_log_append_time(self) -> bool:
        """True if the max timestamp is the broker's, and that of every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """True if the records are Kafka's own markers, not a client's."""
        return bool(self.attributes & CONTROL)


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header of the batch at `position`.

    Raises:
        RecordError: CORRUPT_MESSAGE where no batch of any format can be; INVALID_RECORD for the
            formats before Kafka 0.11.
    """
    remaining = len(buffer) - position
    if remaining >= HEADER_BYTES:
        header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
        if header.magic == MAGIC and header.length >= HEADER_BYTES - _LENGTH_BYTES:
            return header
    if remaining < _PREFIX.size:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch has at least {HEADER_BYTES} bytes, got {remaining} at {position}",
        )
    _, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if length < _LEAST_LENGTH or not 0 <= magic <= MAGIC:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"no batch has length {length} and magic {magic}, at {position}",
        )
    if magic != MAGIC:
        raise NoBatchError(
            ErrorCode.INVALID_RECORD,
            f"only batches of magic {MAGIC} are taken, got {magic} at {position}",
        )
    size = min(remaining, length + _LENGTH_BYTES)
    raise RecordError(
        ErrorCode.CORRUPT_MESSAGE,
        f"a batch has at least {HEADER_BYTES} bytes, got {size} at {position}",
    )


def split(records: Buffer, *, torn_tail: bool = False) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The batches of `records`, one after the other; their checksums are not looked at.

    A fetch may cut the last batch anywhere: `torn_tail` leaves it out, otherwise it is refused.

    Raises:
        RecordError: as `read_header`; CORRUPT_MESSAGE for a batch that is longer than what is
            there.
    """
    view = memoryview(records)
    position = 0
    while position < len(view):
        remaining = len(view) - position
        if torn_tail and (
            remaining < _PREFIX.size
            or remaining
            < _LENGTH_BYTES + int.from_bytes(view[position + 8 : position + 12], signed=True)
        ):
            return
        header = read_header(view, position)
        size = header.length + _LENGTH_BYTES
        if size > remaining:
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch of {size} bytes is cut to {remaining} at {position}",
            )
        yield header, view[position : position + size]
        position += size


def verify(header: BatchHeader, batch: Buffer) -> None:
    """Compare the checksum.

    Raises:
        RecordError: CORRUPT_MESSAGE if it is another.
    """
    crc = crc32c(memoryview(batch)[_ATTRIBUTES_AT:])
    if crc != header.crc:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch at offset {header.base_offset} has CRC32C {crc:#010x}, and says {header.crc:#010x}",
        )


def stamped(header: BatchHeader, batch: Buffer, base_offset: int, leader_epoch: int) -> bytes:
    """The batch with its place in the log; the checksum covers neither field."""
    return b"".join(
        (_STAMP.pack(base_offset, header.length, leader_epoch), memoryview(batch)[_STAMP.size :])
    )


def retimed(batch: Buffer, attributes: int, max_timestamp: int) -> bytearray:
    """The batch with other attributes and max timestamp, and the checksum that goes with them."""
    changed = bytearray(batch)
    struct.pack_into(">h", changed, _ATTRIBUTES_AT, attributes)
    struct.pack_into(">q", changed, _MAX_TIMESTAMP_AT, max_timestamp)
    struct.pack_into(">I", changed, _CRC_AT, crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
    return changed
