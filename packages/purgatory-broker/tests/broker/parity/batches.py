"""Record batches, valid and invalid."""

from __future__ import annotations

import struct
from typing import Any

import crc32c
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder

#: The timestamp of the first record; each further one is a second later.
TIMESTAMP = 1_700_000_000_000

NONE, GZIP = 0, 1
TRANSACTIONAL, CONTROL = 0x10, 0x20

# The fields of a batch: their positions and struct formats.
_FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}
_CRC, _CHECKED = 17, 21


def batch(
    *values: bytes | None,
    key: bytes | None = b"key",
    headers: list[tuple[str, bytes]] | None = None,
    codec: int = NONE,
    timestamp: int = TIMESTAMP,
    magic: int = 2,
    producer: tuple[int, int, int] | None = None,
) -> bytes:
    """Return a batch of records; `producer` is (id, epoch, first sequence number)."""
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    idempotence = (
        {"producer_id": producer_id, "producer_epoch": epoch, "base_sequence": sequence}
        if magic == 2
        else {}
    )
    builder = MemoryRecordsBuilder(
        magic=magic, compression_type=codec, batch_size=1 << 30, **idempotence
    )
    for number, value in enumerate(values):
        builder.append(timestamp + 1000 * number, key, value, headers)
    builder.close()
    return bytes(builder.buffer())


def changed(raw: bytes, *, keep_crc: bool = False, **fields: int) -> bytes:
    """Return a batch with changed header fields, and the new checksum unless `keep_crc`."""
    patched = bytearray(raw)
    for name, value in fields.items():
        position, form = _FIELDS[name]
        struct.pack_into(form, patched, position, value)
    if not keep_crc and "crc" not in fields:
        struct.pack_into(">I", patched, _CRC, crc32c.crc32c(bytes(patched[_CHECKED:])))
    return bytes(patched)


def shown(raw: bytes | None) -> list[dict[str, Any]] | None:
    """Return the content of a response's batches as JSON values."""
    if raw is None:
        return None
    found = []
    records = MemoryRecords(raw)
    while (each := records.next_batch()) is not None:
        assert each.validate_crc()
        contents = [
            [
                record.offset,
                record.timestamp,
                _text(record.key),
                _text(record.value),
                *([name, _text(value)] for name, value in record.headers),
            ]
            for record in each
        ]
        header = {
            "base_offset": each.base_offset,
            "epoch": each.leader_epoch,
            "attributes": each.attributes,
        }
        found.append(
            header
            | {
                "max_timestamp": each.max_timestamp,
                "sequence": each.base_sequence,
                "contents": contents,
            }
        )
    if records.valid_bytes() < len(raw):
        found.append({"torn": True})
    return found


def _text(raw: bytes | None) -> str | None:
    if raw is None or len(raw) <= 100:
        return None if raw is None else raw.decode(errors="backslashreplace")
    return f"{len(raw)} bytes"
