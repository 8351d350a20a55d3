"""The records that consumers of a partition can read, by their isolation level."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter

from purgatory_broker.cluster.snapshots import TopicRecord
from purgatory_broker.log.aborted_transactions import AbortedTransaction
from purgatory_broker.log.batch import BatchHeader
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.log.record import read_records_with_headers
from purgatory_broker.replication.replica import Replica

_first_offset = itemgetter(0)


class _Hidden:
    """The batches that hold no record for a consumer: markers, and those of aborted transactions.

    With read_committed, every transaction before the end of what is read is decided.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        #: (first offset, marker's offset) of each producer's aborted transactions, ascending.
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for transaction in aborted:
            span = transaction.first_offset, transaction.last_offset
            self._spans.setdefault(transaction.producer_id, []).append(span)

    def __contains__(self, header: BatchHeader) -> bool:
        if header.is_control or not header.is_transactional:
            return header.is_control
        spans = self._spans.get(header.producer_id, [])
        index = bisect_right(spans, header.base_offset, key=_first_offset) - 1
        return index >= 0 and header.base_offset < spans[index][1]


def readable_records(
    replica: Replica, partition: int, offset: int = 0, *, read_committed: bool = False
) -> Iterator[TopicRecord]:
    """Iterate; a negative `offset` counts records back from the end of what can be read."""
    log = replica.log
    limit, hidden = replica.high_watermark, _Hidden()
    if read_committed:
        limit = replica.last_stable_offset
        hidden = _Hidden(log.aborted_transactions(log.log_start_offset, limit))
    skipped = 0
    if offset < 0:
        offset, skipped = _newest(log, limit, -offset, hidden)
    return islice(_records(log, partition, offset, limit, hidden), skipped, None)


def _newest(log: PartitionLog, limit: int, count: int, hidden: _Hidden) -> tuple[int, int]:
    """Return where to begin for the newest records, and how many of them to skip."""
    span = count
    while True:
        start = max(limit - span, log.log_start_offset)
        found = _count(log, start, limit, hidden)
        if found >= count or start == log.log_start_offset:
            return start, max(found - count, 0)
        span *= 2


def _count(log: PartitionLog, offset: int, limit: int, hidden: _Hidden) -> int:
    count = 0
    for header, _ in log.batches(offset):
        if header.base_offset >= limit:
            break
        if header not in hidden:
            count += min(header.next_offset, limit) - max(header.base_offset, offset)
    return count


def _records(
    log: PartitionLog, partition: int, offset: int, limit: int, hidden: _Hidden
) -> Iterator[TopicRecord]:
    start = position = max(log.log_start_offset, offset)
    while position < limit:
        # The log is asked for one batch at a time: it may change while the caller gives way.
        first = next(log.batches(position), None)
        if first is None or first[0].base_offset >= limit:
            return
        header, batch = first[0], bytes(first[1])
        del first
        position = header.last_offset + 1
        if header in hidden:
            continue
        for record, headers in read_records_with_headers(header, batch):
            if start <= record.offset < limit:
                yield TopicRecord(
                    partition,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    headers,
                    header.producer_id,
                )


@dataclass(slots=True)
class _Counted:
    start: int
    until: int
    count: int = 0


@dataclass(slots=True)
class CommittedCounts:
    """Counts the committed records of replicas, again only after what has been counted."""

    _counted: dict[Replica, _Counted] = field(default_factory=dict)

    def count(self, replica: Replica) -> int:
        log, limit = replica.log, replica.last_stable_offset
        counted = self._counted.get(replica)
        if counted is None or counted.start != log.log_start_offset or counted.until > limit:
            counted = _Counted(log.log_start_offset, log.log_start_offset)
            self._counted[replica] = counted
        hidden = _Hidden(log.aborted_transactions(counted.until, limit))
        counted.count += _count(log, counted.until, limit, hidden)
        counted.until = limit
        return counted.count
