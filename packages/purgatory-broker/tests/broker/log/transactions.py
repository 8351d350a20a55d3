"""Transactional batches and markers, and what a read_committed consumer makes of a log."""

from __future__ import annotations

from purgatory_broker.log.batch import TRANSACTIONAL, split_batches
from purgatory_broker.log.control_batch import marker_batch, read_end_marker
from purgatory_broker.log.log import AppendInfo, PartitionLog
from purgatory_broker.log.record import build_batch, read_records
from purgatory_broker.log.transaction_marker import TransactionMarker
from tests.broker.log.batches import NOW


def transactional(
    *values: bytes, producer_id: int = 7, epoch: int = 0, sequence: int = 0, flags: int = 0
) -> bytes:
    """Build a batch of a transaction."""
    return build_batch(
        [(b"key", value) for value in values or (b"value",)],
        NOW,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL | flags,
    )


def write(
    log: PartitionLog,
    *values: bytes,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    adds: bool = False,
) -> AppendInfo:
    """Append a batch of a transaction, after its verification if it needs one."""
    guard = log.producers.start_verification(producer_id, epoch, sequence, NOW, adds=adds)
    data = transactional(*values, producer_id=producer_id, epoch=epoch, sequence=sequence)
    return log.append_as_leader(data, 1, NOW, guard=guard)


def end(
    log: PartitionLog,
    *,
    commit: bool,
    producer_id: int = 7,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    leader_epoch: int = 1,
) -> int:
    """Append the marker of a transaction, and return its offset."""
    marker = TransactionMarker(producer_id, epoch, commit, coordinator_epoch)
    data = marker_batch(marker, NOW)
    return log.append_as_leader(data, leader_epoch, NOW, internal=True).base_offset


def commit(log: PartitionLog, **arguments: int) -> int:
    """Append a commit marker."""
    return end(log, commit=True, **arguments)


def abort(log: PartitionLog, **arguments: int) -> int:
    """Append an abort marker."""
    return end(log, commit=False, **arguments)


def stable_offset(log: PartitionLog, high_watermark: int) -> int:
    """Return the last stable offset with a high watermark."""
    unstable = log.first_unstable_offset
    return high_watermark if unstable is None else min(unstable, high_watermark)


def aborted(log: PartitionLog, offset: int, size: int) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of a read's aborted transactions."""
    end = log.end_of_read(offset, size)
    return [each[:2] for each in log.aborted_transactions(offset, end)]


def read_committed(
    log: PartitionLog, high_watermark: int, *, offset: int = 0, max_bytes: int = 1
) -> list[tuple[int, bytes | None]]:
    """Return (offset, value) of what a consumer reads, as Kafka's consumer does.

    It skips the batches of a producer from the first offset of its aborted transaction to the abort
    marker.
    """
    read: list[tuple[int, bytes | None]] = []
    limit = stable_offset(log, high_watermark)
    offset = max(offset, log.log_start_offset)
    while offset < limit:
        data = log.read(offset, max_bytes, limit, at_least_one=True)
        end = log.end_of_read(offset, len(data))
        waiting = sorted(log.aborted_transactions(offset, end), key=lambda each: each[1])
        aborting: set[int] = set()
        assert data, "the limit is inside of a batch"
        for header, batch in split_batches(data):
            while waiting and waiting[0].first_offset <= header.last_offset:
                aborting.add(waiting.pop(0).producer_id)
            if header.is_control:
                marker = read_end_marker(header, batch)
                if marker is not None and not marker.is_commit:
                    aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                read += [
                    (record.offset, record.value)
                    for record in read_records(header, batch)
                    if record.offset >= offset
                ]
            next_offset = header.next_offset
        offset = next_offset
    return read
