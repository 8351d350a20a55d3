"""Batches built by kafka-python's producer code, and changes that make them invalid."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from purgatory_broker.log.batch import BatchHeader
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.log_settings import LogSettings

#: The time of the tests' appends, in whole milliseconds since 1970.
NOW = 1_700_000_000_000

SETTINGS = LogSettings()

FIELDS = {
    "base_offset": (0, ">q"),
    "length": (8, ">i"),
    "leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def batch(
    *values: bytes | None,
    key: bytes | None = b"key",
    timestamps: Sequence[int] | None = None,
    headers: Sequence[tuple[str, bytes | None]] = (),
    codec: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
) -> bytes:
    """Build a batch of records with these values; `producer` is (id, epoch, first sequence)."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=producer[2],
        batch_size=2**31 - 1,
    )
    for index, value in enumerate(values or (b"value",)):
        timestamp = NOW if timestamps is None else timestamps[index]
        builder.append(index, timestamp, key, value, list(headers))
    return bytes(builder.build())


def with_fields(data: bytes, *, crc: int | None = None, **fields: int) -> bytes:
    """Return the batch with other header fields and a valid checksum, or the checksum `crc`."""
    copy = bytearray(data)
    for name, value in fields.items():
        position, layout = FIELDS[name]
        struct.pack_into(layout, copy, position, value)
    return (
        with_checksum(copy)
        if crc is None
        else bytes(copy[:17] + struct.pack(">I", crc) + copy[21:])
    )


def with_checksum(data: bytes | bytearray) -> bytes:
    """Return the batch with a valid checksum."""
    return bytes(data[:17]) + struct.pack(">I", crc32c(bytes(data[21:]))) + bytes(data[21:])


def values(data: bytes) -> list[bytes]:
    """Return the values of one batch, read by kafka-python."""
    return [record.value for record in DefaultRecordBatch(data)]


def append(log: PartitionLog, *contents: bytes, epoch: int = 1, now_ms: int = NOW) -> int:
    """Append a batch as the leader, and return its base offset."""
    return log.append_as_leader(
        batch(*contents, timestamps=[now_ms] * max(len(contents), 1)), epoch, now_ms
    ).base_offset


def replicate(leader: PartitionLog, follower: PartitionLog) -> None:
    """Append to the follower what the leader's log has more."""
    while follower.end_offset < leader.end_offset:
        follower.append_as_follower(
            leader.read(follower.end_offset, 300, leader.end_offset, at_least_one=True)
        )


def contents(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of all records of a log."""
    return [(record.offset, record.value) for record in log.records()]


def headers_of(log: PartitionLog) -> Iterable[BatchHeader]:
    """Return the headers of all batches of a log."""
    return [header for header, _ in log.batches()]
