"""Compaction of a log in a test, and keyed batches for it."""

from __future__ import annotations

from collections.abc import Sequence

from purgatory_broker.log.batch import TRANSACTIONAL
from purgatory_broker.log.compaction import Compaction
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.record import build_batch
from tests.broker.log.batches import NOW
from tests.broker.log.transactions import stable_offset

#: A key and a value; None is a tombstone.
Pair = tuple[bytes | None, bytes | None]


def compaction(
    log: PartitionLog, *, now_ms: int = NOW, limit_offset: int | None = None
) -> Compaction:
    """Return a pass over the closed segments, up to the last stable offset or another one."""
    if limit_offset is None:
        limit_offset = stable_offset(log, log.end_offset)
    return Compaction(log, log.settings, now_ms, limit_offset)


def compact(log: PartitionLog, *, now_ms: int = NOW, limit_offset: int | None = None) -> Compaction:
    """Close the active segment, and compact the whole log."""
    log.roll()
    done = compaction(log, now_ms=now_ms, limit_offset=limit_offset)
    for _ in done.run():
        pass
    log.check()
    return done


def put(
    log: PartitionLog,
    *pairs: Pair,
    now_ms: int = NOW,
    epoch: int = 1,
    producer: tuple[int, int, int] = (-1, -1, -1),
    transactional: bool = False,
) -> int:
    """Append a batch of pairs, and return its base offset."""
    producer_id, producer_epoch, sequence = producer
    guard = None
    if transactional:
        guard = log.producers.start_verification(*producer, now_ms, adds=False)
    data = build_batch(
        pairs,
        now_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=sequence,
        attributes=TRANSACTIONAL if transactional else 0,
    )
    return log.append_as_leader(data, epoch, now_ms, guard=guard).base_offset


def left(log: PartitionLog, offset: int = 0) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return (offset, key, value) of all records."""
    return [(each.offset, each.key, each.value) for each in log.records(offset)]


def table(pairs: Sequence[Pair]) -> dict[bytes | None, bytes]:
    """Return the latest value of each key that was not deleted."""
    latest: dict[bytes | None, bytes | None] = dict(pairs)
    return {key: value for key, value in latest.items() if value is not None}
