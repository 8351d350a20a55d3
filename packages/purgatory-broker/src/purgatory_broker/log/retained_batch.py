"""A batch with the records that compaction keeps of it.

Base and last offset, sequence numbers, epochs and flags stay, since the state of producers and the
leader epochs are read from them.
"""

from __future__ import annotations

from collections.abc import Callable

from purgatory_broker.log.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    UNSET,
    BatchHeader,
    rebuilt_batch,
)
from purgatory_broker.log.compression import compress
from purgatory_broker.log.record import RecordLayout, read_varint, record_layouts, write_varint


def retained_batch(
    header: BatchHeader,
    batch: bytes,
    records: bytes,
    is_kept: Callable[[bytes | None, int, bool], bool],
    new_horizon_ms: int | None,
) -> bytes | None:
    """Return a batch with some of its records; the same object if all stay, None if none does.

    `records` are the decompressed ones. `is_kept` is called with a record's key and offset, and
    whether it is a tombstone. `new_horizon_ms` is the time from which on the tombstones that are
    kept may be removed, unless the batch has such a time already.

    Source: Kafka's `MemoryRecords.filterTo`.
    """
    layouts = record_layouts(records, header.record_count)
    kept: list[tuple[RecordLayout, int, int]] = []
    has_tombstone = False
    end = 0
    for layout in layouts:
        size, start = read_varint(records, end)
        end = start + size
        _, delta, key_at, key_size, _, value_size = layout
        key = records[key_at : key_at + key_size] if key_size >= 0 else None
        if is_kept(key, header.base_offset + delta, value_size < 0):
            kept.append((layout, start, end))
            has_tombstone = has_tombstone or value_size < 0
    if not kept:
        return None
    if not has_tombstone or header.delete_horizon_ms is not None:
        new_horizon_ms = None
    if len(kept) == len(layouts) and new_horizon_ms is None:
        return batch
    return _encoded(header, records, kept, new_horizon_ms)


def with_delete_horizon(header: BatchHeader, records: bytes, horizon_ms: int) -> bytes:
    """Return a marker's batch with the time from which on it may be removed."""
    size, start = read_varint(records, 0)
    (layout,) = record_layouts(records, 1)
    return _encoded(header, records, [(layout, start, start + size)], horizon_ms)


def empty_batch(header: BatchHeader) -> bytes:
    """Return a batch without records, which keeps what its header says."""
    attributes = header.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    return rebuilt_batch(
        header._replace(attributes=attributes, base_timestamp=UNSET, record_count=0), b""
    )


def _encoded(
    header: BatchHeader,
    records: bytes,
    kept: list[tuple[RecordLayout, int, int]],
    horizon_ms: int | None,
) -> bytes:
    encoded = bytearray()
    latest = UNSET
    for layout, start, end in kept:
        timestamp = header.timestamp(layout[0])
        latest = max(latest, timestamp)
        # The attributes, and the rest after the timestamp delta.
        record = bytearray(records[start : start + 1])
        rest = read_varint(records, start + 1)[1]
        write_varint(record, layout[0] if horizon_ms is None else timestamp - horizon_ms)
        record += records[rest:end]
        write_varint(encoded, len(record))
        encoded += record
    changed = header._replace(max_timestamp=latest, record_count=len(kept))
    if horizon_ms is not None:
        changed = changed._replace(
            attributes=header.attributes | DELETE_HORIZON, base_timestamp=horizon_ms
        )
    return rebuilt_batch(changed, compress(header.attributes & CODEC_MASK, bytes(encoded)))
