"""The records inside a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from kafka.record.default_records import DefaultRecordBatchBuilder

from request_purgatory.broker.log.batch import HEADER_BYTES, UNSET, BatchHeader, Buffer
from request_purgatory.broker.log.codec import unpack
from request_purgatory.broker.log.errors import RecordError
from request_purgatory.broker.wire.error_code import ErrorCode


class Record(NamedTuple):
    """A record with its place and time; its headers are left out."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


#: A record's timestamp delta and offset delta, and where its key and value lie in the unpacked body
#: of its batch: position and size of each; a size below 0 is that of a null.
Layout: TypeAlias = tuple[int, int, int, int, int, int]


def body(header: BatchHeader, batch: Buffer) -> bytes | None:
    """The records of a batch, unpacked; None if its codec's library is not installed, or if they are too large to look into.

    Raises:
        RecordError: as `codec.unpack`.
    """
    return unpack(header.codec, bytes(memoryview(batch)[HEADER_BYTES:]))


def layouts(records: bytes, count: int) -> list[Layout]:
    """Where the parts of each of `count` records are; nothing may be left after them.

    Raises:
        RecordError: INVALID_RECORD if the bytes are no such records.
    """
    found: list[Layout] = []
    position = 0
    total = len(records)
    # Every append comes by here for each record, so that what is mostly one byte is read in place:
    # a call costs as much as the rest of the field.
    try:
        while len(found) < count:
            size, position = _varint(records, position)
            end = position + size
            if size < 0 or end > total:
                raise ValueError(f"it has {size} bytes of {total - position}")
            # A byte of attributes, of which none is in use.
            timestamp_delta, position = _varint(records, position + 1)
            byte = records[position]
            if byte < 0x80:
                offset_delta = (byte >> 1) ^ -(byte & 1)
                position += 1
            else:
                offset_delta, position = _varint(records, position)
            byte = records[position]
            if byte < 0x80:
                key_size = (byte >> 1) ^ -(byte & 1)
                key_at = position + 1
            else:
                key_size, key_at = _varint(records, position)
            value_size, value_at = _varint(records, key_at + key_size if key_size > 0 else key_at)
            position = value_at + value_size if value_size > 0 else value_at
            if records[position]:
                position = _after_headers(records, position)
            else:
                position += 1
            if position != end:
                raise ValueError(f"it is {size + position - end} bytes long, and says {size}")
            found.append((timestamp_delta, offset_delta, key_at, key_size, value_at, value_size))
    except (ValueError, IndexError) as error:
        what = "the batch ends in it" if isinstance(error, IndexError) else str(error)
        raise RecordError(
            ErrorCode.INVALID_RECORD, f"record {len(found)} of {count} can't be read: {what}"
        ) from error
    if position != total:
        raise RecordError(
            ErrorCode.INVALID_RECORD, f"{total - position} bytes are left after {count} records"
        )
    return found


def _after_headers(records: bytes, position: int) -> int:
    count, position = _varint(records, position)
    if count < 0:
        raise ValueError(f"it has {count} headers")
    for _ in range(count):
        name_size, position = _varint(records, position)
        if name_size < 0:
            raise ValueError(f"a header's name has {name_size} bytes")
        size, position = _varint(records, position + name_size)
        position += max(size, 0)
    return position


def _varint(buffer: bytes, position: int) -> tuple[int, int]:
    """The zigzag number at `position`, and where it ends."""
    byte = buffer[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    second = buffer[position + 1]
    value = byte & 0x7F | (second & 0x7F) << 7
    if second < 0x80:
        return (value >> 1) ^ -(value & 1), position + 2
    for at in range(position + 2, position + 10):
        byte = buffer[at]
        value |= (byte & 0x7F) << 7 * (at - position)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + 1
    raise ValueError(f"a number at {position} has more than 10 bytes")


def read_records(header: BatchHeader, batch: Buffer) -> Iterator[Record]:
    """The records of a batch in the order of their offsets.

    Raises:
        RecordError: UNSUPPORTED_COMPRESSION_TYPE if the batch can't be looked into, INVALID_RECORD
            if it is none.
    """
    records = body(header, batch)
    if records is None:
        raise RecordError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"the batch at offset {header.base_offset} can't be unpacked: codec {header.codec}, {header.size} bytes",
        )
    for delta, offset_delta, key_at, key_size, value_at, value_size in layouts(
        records, header.record_count
    ):
        yield Record(
            header.base_offset + offset_delta,
            None if key_size < 0 else records[key_at : key_at + key_size],
            None if value_size < 0 else records[value_at : value_at + value_size],
            header.max_timestamp if header.has_log_append_time else header.base_timestamp + delta,
        )


def first_at_or_after(
    header: BatchHeader, batch: Buffer, timestamp_ms: int, offset: int = 0
) -> tuple[int, int] | None:
    """(timestamp, offset) of the batch's first record that is not older than `timestamp_ms`, nor below `offset`; None if none is.

    For a batch that can't be unpacked it is the batch's base timestamp and offset: too early by
    less than a batch, so that nobody who starts there misses a record.
    """
    if header.max_timestamp < timestamp_ms:
        return None
    records = body(header, batch)
    if records is None:
        first = header.max_timestamp if header.has_log_append_time else header.base_timestamp
        return first, max(header.base_offset, offset)
    for delta, offset_delta, *_ in layouts(records, header.record_count):
        at = header.base_offset + offset_delta
        timestamp = (
            header.max_timestamp if header.has_log_append_time else header.base_timestamp + delta
        )
        if timestamp >= timestamp_ms and at >= offset:
            return timestamp, at
    return None


def build(records: Iterable[tuple[bytes | None, bytes | None]], now_ms: int) -> bytes:
    """A batch of the broker's own, of (key, value) pairs, uncompressed."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=UNSET,
        producer_epoch=UNSET,
        base_sequence=UNSET,
        batch_size=2**31 - 1,
    )
    for index, (key, value) in enumerate(records):
        builder.append(index, now_ms, key, value, [])
    return bytes(builder.build())
