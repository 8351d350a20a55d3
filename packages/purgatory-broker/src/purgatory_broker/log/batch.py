"""A record batch as bytes, in Kafka's format of magic 2.

A batch is kept as the producer sent it. A leader sets two fields, the base offset and the leader
epoch. The checksum covers neither and stays valid. A batch is rewritten, with a new checksum, only
where the topic's timestamp settings require it.

    offset  bytes                                      offset  bytes
         0      8  base offset                             27      8  base timestamp
         8      4  length of all that follows              35      8  max timestamp
        12      4  leader epoch                            43      8  producer id
        16      1  magic                                   51      2  producer epoch
        17      4  CRC32C of all that follows              53      4  base sequence
        21      2  attributes                              57      4  record count
        23      4  last offset delta                       61         records
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from crc32c import crc32c

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log_errors import BatchFormatError, RecordError

Buffer: TypeAlias = bytes | bytearray | memoryview

HEADER_BYTES = 61
MAGIC = 2

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
#: The base timestamp is the time from which on tombstones and markers may be removed (KIP-534).
DELETE_HORIZON = 0x40

#: The value of a field that is not set: a timestamp, a producer id, epoch or sequence.
UNSET = -1

_HEADER = struct.Struct(">qiibIhiqqqhii")
#: The fields that a leader sets, with the length between them.
_OFFSET_AND_EPOCH = struct.Struct(">qii")
#: The fields up to the magic, which older formats have at the same position.
_PREFIX = struct.Struct(">qiib")
_PRODUCER = struct.Struct(">qhi")
_MAGIC_POSITION, _CRC_POSITION, _ATTRIBUTES_POSITION = 16, 17, 21
_MAX_TIMESTAMP_POSITION, _PRODUCER_POSITION = 35, 43
LENGTH_BYTES = 12
#: The least length of a batch of any format: `LegacyRecord.RECORD_OVERHEAD_V0` in Kafka.
_MIN_LENGTH = 14


class BatchHeader(NamedTuple):
    """The header of a batch. Timestamps are whole milliseconds since 1970."""

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
        return self.length + LENGTH_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record, or UNSET; 0 follows 2^31 - 1."""
        if self.base_sequence == UNSET:
            return UNSET
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def codec(self) -> int:
        """The codec of the records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def has_log_append_time(self) -> bool:
        """Whether the max timestamp is the broker's, and that of every record."""
        return bool(self.attributes & LOG_APPEND_TIME)

    def timestamp(self, delta: int) -> int:
        """Return the timestamp of a record with a timestamp delta."""
        return self.max_timestamp if self.has_log_append_time else self.base_timestamp + delta

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time from which on compaction may remove tombstones; None if it is not set yet."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def hidden_offsets(self) -> int:
        """The number of offsets of which consumers see no record."""
        visible = 0 if self.attributes & CONTROL else self.record_count
        return self.last_offset_delta + 1 - visible

    @property
    def has_producer(self) -> bool:
        """Whether the batch counts for the state of its producer, as a marker also does."""
        return self.producer_id > UNSET


def new_batch(
    records: Buffer,
    count: int,
    timestamp_ms: int,
    *,
    attributes: int = 0,
    producer: tuple[int, int, int] = (UNSET, UNSET, UNSET),
) -> bytes:
    """Return the batch of encoded records of one timestamp.

    `producer` is the producer's id and epoch, and the sequence number of the first record.
    """
    length = HEADER_BYTES - LENGTH_BYTES + len(records)
    times = timestamp_ms, timestamp_ms
    batch = bytearray(
        _HEADER.pack(0, length, 0, MAGIC, 0, attributes, count - 1, *times, *producer, count)
    )
    batch += records
    crc = crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:])
    struct.pack_into(">I", batch, _CRC_POSITION, crc)
    return bytes(batch)


def rebuilt_batch(header: BatchHeader, records: Buffer) -> bytes:
    """Return a batch with a header and other records, with their length and checksum."""
    length = HEADER_BYTES - LENGTH_BYTES + len(records)
    batch = bytearray(_HEADER.pack(*header._replace(length=length)))
    batch += records
    crc = crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:])
    struct.pack_into(">I", batch, _CRC_POSITION, crc)
    return bytes(batch)


def in_transaction(records: Buffer) -> bool:
    """Return whether records begin with a whole header whose batch is part of a transaction."""
    return (
        len(records) >= HEADER_BYTES
        and records[_ATTRIBUTES_POSITION + 1] & TRANSACTIONAL != 0
        and records[_MAGIC_POSITION] == MAGIC
    )


def producer_of(records: Buffer) -> tuple[int, int, int]:
    """Return the producer's id and epoch, and the first sequence, of a batch with a header."""
    producer: tuple[int, int, int] = _PRODUCER.unpack_from(records, _PRODUCER_POSITION)
    return producer


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position`.

    The error is CORRUPT_MESSAGE if no batch of any format can be there, and INVALID_RECORD for the
    formats before Kafka 0.11.
    """
    remaining = len(buffer) - position
    if remaining >= HEADER_BYTES:
        # As `BatchHeader._make`, without its calls: each append reads a header.
        header = tuple.__new__(BatchHeader, _HEADER.unpack_from(buffer, position))
        if header.magic == MAGIC and header.length >= HEADER_BYTES - LENGTH_BYTES:
            return header
    if remaining < _PREFIX.size:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"a batch has at least {HEADER_BYTES} bytes, got {remaining} at {position}",
        )
    _, length, _, magic = _PREFIX.unpack_from(buffer, position)
    if length < _MIN_LENGTH or not 0 <= magic <= MAGIC:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"no batch has length {length} and magic {magic}, at {position}",
        )
    if magic != MAGIC:
        raise BatchFormatError(
            ErrorCode.INVALID_RECORD, f"batches must have magic {MAGIC}, got {magic} at {position}"
        )
    size = min(remaining, length + LENGTH_BYTES)
    raise RecordError(
        ErrorCode.CORRUPT_MESSAGE,
        f"a batch has at least {HEADER_BYTES} bytes, got {size} at {position}",
    )


def split_batches(
    records: Buffer, *, torn_tail: bool = False
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """`torn_tail` skips a last batch that is incomplete, as in the response to a fetch."""
    view = memoryview(records)
    position = 0
    while position < len(view):
        remaining = len(view) - position
        if torn_tail and (
            remaining < _PREFIX.size
            or remaining
            < LENGTH_BYTES + int.from_bytes(view[position + 8 : position + 12], signed=True)
        ):
            return
        header = read_header(view, position)
        size = header.length + LENGTH_BYTES
        if size > remaining:
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"a batch of {size} bytes is cut to {remaining} at {position}",
            )
        yield header, view[position : position + size]
        position += size


def verify_checksum(header: BatchHeader, batch: Buffer) -> None:
    crc = crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:])
    if crc != header.crc:
        raise RecordError(
            ErrorCode.CORRUPT_MESSAGE,
            f"the batch at offset {header.base_offset} has CRC32C {crc:#010x}, "
            f"its header has {header.crc:#010x}",
        )


def with_offset_and_epoch(
    header: BatchHeader, batch: Buffer, base_offset: int, leader_epoch: int
) -> bytes:
    """Return a batch with another base offset and leader epoch; the checksum covers neither."""
    prefix = _OFFSET_AND_EPOCH.pack(base_offset, header.length, leader_epoch)
    return b"".join((prefix, memoryview(batch)[_OFFSET_AND_EPOCH.size :]))


def with_max_timestamp(batch: Buffer, attributes: int, max_timestamp: int) -> bytearray:
    changed = bytearray(batch)
    struct.pack_into(">h", changed, _ATTRIBUTES_POSITION, attributes)
    struct.pack_into(">q", changed, _MAX_TIMESTAMP_POSITION, max_timestamp)
    crc = crc32c(memoryview(changed)[_ATTRIBUTES_POSITION:])
    struct.pack_into(">I", changed, _CRC_POSITION, crc)
    return changed
