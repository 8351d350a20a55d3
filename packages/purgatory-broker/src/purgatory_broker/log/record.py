"""The records inside a batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import HEADER_BYTES, UNSET, BatchHeader, Buffer, new_batch
from purgatory_broker.log.compression import decompress
from purgatory_broker.log.log_errors import RecordError


class Record(NamedTuple):
    """A record with its offset and its timestamp in milliseconds since 1970, without headers."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int


#: Where a record's parts are in the decompressed records of its batch: (timestamp delta, offset
#: delta, key position, key size, value position, value size). The size of a null is below 0. A
#: plain tuple, because one is made for each record of every append.
RecordLayout: TypeAlias = tuple[int, int, int, int, int, int]
#: The names and values of a record's headers.
RecordHeaders: TypeAlias = tuple[tuple[str, bytes | None], ...]


def decompress_records(header: BatchHeader, batch: Buffer) -> bytes | None:
    """None if the codec's library is not installed, or the records are too large to inspect."""
    return decompress(header.codec, bytes(memoryview(batch)[HEADER_BYTES:]))


def record_layouts(records: Buffer, count: int, position: int = 0) -> list[RecordLayout]:
    """Parse without copies; INVALID_RECORD if the bytes are not exactly `count` records.

    The records begin at `position`.
    """
    layouts: list[RecordLayout] = []
    try:
        position = _parse_records(records, count, layouts, position)
    except (ValueError, IndexError) as error:
        cause = "the batch ends inside it" if isinstance(error, IndexError) else str(error)
        raise RecordError(
            ErrorCode.INVALID_RECORD, f"record {len(layouts)} of {count} is invalid: {cause}"
        ) from error
    if position != len(records):
        raise RecordError(
            ErrorCode.INVALID_RECORD,
            f"{len(records) - position} bytes are left after {count} records",
        )
    return layouts


def _parse_records(records: Buffer, count: int, layouts: list[RecordLayout], position: int) -> int:
    """Append the layouts of `count` records to `layouts`, up to the first invalid record.

    Every append runs this loop for each record. Varints that mostly have one byte are therefore
    decoded inline: a call costs as much as the rest of the field. Returns the position after the
    records; raises IndexError or ValueError for an invalid one.
    """
    total = len(records)
    for _ in range(count):
        size, position = read_varint(records, position)
        end = position + size
        if size < 0 or end > total:
            raise ValueError(f"its size is {size}, {total - position} bytes are left")
        # The record's attributes are one byte, which is unused.
        byte = records[position + 1]
        if byte < 0x80:
            timestamp_delta = (byte >> 1) ^ -(byte & 1)
            position += 2
        else:
            timestamp_delta, position = read_varint(records, position + 1)
        byte = records[position]
        if byte < 0x80:
            offset_delta = (byte >> 1) ^ -(byte & 1)
            position += 1
        else:
            offset_delta, position = read_varint(records, position)
        byte = records[position]
        if byte < 0x80:
            key_size = (byte >> 1) ^ -(byte & 1)
            key_at = position + 1
        else:
            key_size, key_at = read_varint(records, position)
        value_size, value_at = read_varint(records, key_at + key_size if key_size > 0 else key_at)
        position = value_at + value_size if value_size > 0 else value_at
        if records[position]:
            position = _skip_headers(records, position)
        else:
            position += 1
        if position != end:
            raise ValueError(f"its size is {size}, its fields need {size + position - end}")
        layouts.append((timestamp_delta, offset_delta, key_at, key_size, value_at, value_size))
    return position


def _skip_headers(records: Buffer, position: int) -> int:
    count, position = read_varint(records, position)
    if count < 0:
        raise ValueError(f"it has {count} headers")
    for _ in range(count):
        name_size, position = read_varint(records, position)
        if name_size < 0:
            raise ValueError(f"a header's name has {name_size} bytes")
        size, position = read_varint(records, position + name_size)
        position += max(size, 0)
    return position


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the zigzag-encoded integer at `position`, and the position after it."""
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
    raise ValueError(f"the integer at {position} has more than 10 bytes")


def read_records(header: BatchHeader, batch: Buffer) -> Iterator[Record]:
    return (record for record, _ in read_records_with_headers(header, batch))


def read_records_with_headers(
    header: BatchHeader, batch: Buffer
) -> Iterator[tuple[Record, RecordHeaders]]:
    """Read the records of a batch; UNSUPPORTED_COMPRESSION_TYPE if it can't be decompressed."""
    records = decompress_records(header, batch)
    if records is None:
        raise RecordError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"the batch at offset {header.base_offset} can't be decompressed: "
            f"codec {header.codec}, {header.size} bytes",
        )
    for layout in record_layouts(records, header.record_count):
        *_, value_at, value_size = layout
        yield _record(header, records, layout), _headers(records, value_at + max(value_size, 0))


def _record(header: BatchHeader, records: bytes, layout: RecordLayout) -> Record:
    delta, offset_delta, key_at, key_size, value_at, value_size = layout
    return Record(
        header.base_offset + offset_delta,
        None if key_size < 0 else records[key_at : key_at + key_size],
        None if value_size < 0 else records[value_at : value_at + value_size],
        header.timestamp(delta),
    )


def _headers(records: bytes, position: int) -> RecordHeaders:
    """Return the headers at `position` of records whose layouts are valid."""
    count, position = read_varint(records, position)
    headers = []
    for _ in range(count):
        size, name_at = read_varint(records, position)
        # Clients write text; what is none is shown, not refused, as the broker has stored it.
        name = records[name_at : name_at + size].decode(errors="backslashreplace")
        size, value_at = read_varint(records, name_at + size)
        headers.append((name, None if size < 0 else records[value_at : value_at + size]))
        position = value_at + max(size, 0)
    return tuple(headers)


def first_at_or_after(
    header: BatchHeader, batch: Buffer, timestamp_ms: int, offset: int = 0
) -> tuple[int, int] | None:
    """Return (timestamp, offset), the batch's first if it can't be decompressed, or None."""
    if header.max_timestamp < timestamp_ms:
        return None
    records = decompress_records(header, batch)
    if records is None:
        # A consumer that starts there reads some earlier records of the batch, and misses none.
        return header.timestamp(0), max(header.base_offset, offset)
    for delta, offset_delta, *_ in record_layouts(records, header.record_count):
        at = header.base_offset + offset_delta
        timestamp = header.timestamp(delta)
        if timestamp >= timestamp_ms and at >= offset:
            return timestamp, at
    return None


def build_batch(
    records: Iterable[tuple[bytes | None, bytes | None]],
    now_ms: int,
    *,
    producer_id: int = UNSET,
    producer_epoch: int = UNSET,
    base_sequence: int = UNSET,
    attributes: int = 0,
) -> bytes:
    """Build an uncompressed batch of (key, value) pairs with timestamp `now_ms`.

    `attributes` may be TRANSACTIONAL, for the batch of a producer's transaction.
    """
    encoded = bytearray()
    count = 0
    for key, value in records:
        record = bytearray(2)  # No attributes, and the batch's timestamp.
        write_varint(record, count)
        for part in (key, value):
            write_varint(record, -1 if part is None else len(part))
            record += part or b""
        record.append(0)  # No headers.
        write_varint(encoded, len(record))
        encoded += record
        count += 1
    producer = producer_id, producer_epoch, base_sequence
    return new_batch(encoded, count, now_ms, attributes=attributes, producer=producer)


def write_varint(out: bytearray, value: int) -> None:
    """Append a zigzag-encoded integer."""
    value = value << 1 ^ value >> 63
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
