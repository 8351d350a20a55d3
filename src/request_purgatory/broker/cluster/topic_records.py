"""The records of a topic, as a test looks at them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from request_purgatory.broker.log import PartitionLog
from request_purgatory.broker.log.record import read_records_with_headers


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record that consumers can read.

    Attributes:
        partition: the number of its partition.
        offset: its offset in the partition.
        timestamp_ms: milliseconds since 1970.
        key: its key; None if it has none.
        value: its value; None if it has none.
        headers: names and values, in the producer's order.
        producer_id: the id of the idempotent producer; -1 if the producer has none.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int


def readable_records(
    log: PartitionLog, partition: int, high_watermark: int
) -> Iterator[TopicRecord]:
    """Iterate over the records of a partition that consumers can read.

    Args:
        log: the partition's log.
        partition: the partition's number.
        high_watermark: the offset of the first record that they can't read.

    Yields:
        The records in the order of their offsets.

    Raises:
        RecordError: a batch can't be read or decompressed.
    """
    start = log.log_start_offset
    for header, batch in log.batches(start):
        if header.base_offset >= high_watermark:
            return
        if header.is_control:
            continue
        for record, headers in read_records_with_headers(header, batch):
            if start <= record.offset < high_watermark:
                yield TopicRecord(
                    partition,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    headers,
                    header.producer_id,
                )
