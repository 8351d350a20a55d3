"""Compaction: a pass over a log that keeps the last record of each key.

Source: Kafka's `Cleaner` and `CleanedTransactionMetadata`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.aborted_transactions import AbortedTransaction
from purgatory_broker.log.batch import UNSET, BatchHeader, read_header, verify_checksum
from purgatory_broker.log.compactable_log import CompactableLog
from purgatory_broker.log.control_batch import read_end_marker
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.record import decompress_records, record_layouts
from purgatory_broker.log.retained_batch import empty_batch, retained_batch, with_delete_horizon
from purgatory_broker.log.segment import BatchEntry, Segment

#: The work between two turns of others on the event loop, in records: some 2 ms.
RECORDS_PER_SLICE = 500
#: What a batch costs beside its records, in records.
_BATCH_COST = 8
#: The keys' memory after which a pass begins no further segment: Kafka's default for their hashes.
MAX_KEY_BYTES = 134_217_728
#: What a key costs in a dict, beside its own bytes.
_KEY_OVERHEAD = 150
#: The bytes that are written at a time.
_WRITE_BYTES = 262_144

_last_offset = attrgetter("last_offset")


class CompactionAbortedError(Exception):
    """The log has lost some of the segments that are being compacted."""


@dataclass(slots=True)
class CompactionStats:
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    #: Records without a key, from before the topic was compacted.
    keyless_records: int = 0


@dataclass(slots=True)
class _Transactions:
    """What was met of the transactions whose markers are still to come, by producer id."""

    #: The aborted ones that begin before the end of the pass, by producer id, in their order.
    aborted: dict[int, list[AbortedTransaction]]
    #: Those with a batch so far.
    met: set[int] = field(default_factory=set)
    #: The base offset of the first batch that stays.
    kept: dict[int, int] = field(default_factory=dict)

    def is_aborted(self, header: BatchHeader) -> bool:
        if not header.is_transactional:
            return False
        found = self._at_or_after(header)
        return found is not None and found.first_offset <= header.base_offset

    def ended_by(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the aborted transaction of a marker."""
        found = self._at_or_after(header)
        is_its_own = found is not None and found.last_offset == header.base_offset
        return found if is_its_own else None

    def _at_or_after(self, header: BatchHeader) -> AbortedTransaction | None:
        """Return the producer's first aborted transaction that ends at a batch or after it."""
        transactions = self.aborted.get(header.producer_id, ())
        index = bisect_left(transactions, header.base_offset, key=_last_offset)
        return transactions[index] if index < len(transactions) else None


class _Output:
    """What is copied into a segment, written in large parts."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.records = 0
        self._data = bytearray()
        self._entries: list[BatchEntry] = []

    @property
    def size(self) -> int:
        return self.segment.size + len(self._data)

    def add(self, batch: bytes) -> None:
        header = read_header(batch)
        self.records += 0 if header.is_control else header.record_count
        self._entries.append(BatchEntry.of(header))
        self._data += batch
        if len(self._data) >= _WRITE_BYTES:
            self.write()

    def write(self) -> None:
        self.segment.append(self._data, self._entries)
        self.segment.store.flush()
        self._data, self._entries = bytearray(), []


class Compaction:
    """One pass over a log, in slices, while others append to it and read it.

    1. Read the segments that are new since the last pass, and note the last offset of each key. If
       there are too many keys, the pass ends where they are, and is partial.
    2. Copy the segments from the log's first on, some small ones together, without the records
       that have a later one of their key.
    3. Put each copy in the place of what it was made of.

    The active segment is left alone, and so is what has a record at `limit_offset` or later: the
    high watermark, or the last stable offset. So every transaction that is met has ended.

    A tombstone, which is a record without a value, is kept for `delete_retention_ms` after the
    first pass, so that consumers learn of the deletion. Records of aborted transactions are
    removed. Markers have no key: one is kept while a batch of its transaction is left, and then as
    long as a tombstone.

    Some batches stay without records: the last ones of each known producer and the first of each
    leader epoch, since opening a log reads their states from its batches, and the last one of a
    segment, so that the next segment begins where it ends. Kafka, which has files for these states,
    keeps a producer's last batch and the last one of a pass.

    What can't be decompressed here is kept as it is.
    """

    def __init__(
        self, log: CompactableLog, settings: LogSettings, now_ms: int, limit_offset: int
    ) -> None:
        self._log = log
        self._settings = settings
        self._now_ms = now_ms
        self._segments = log.closed_segments(limit_offset)
        self.start_offset = log.cleaned_offset
        self.end_offset = self._segments[-1].next_offset if self._segments else self.start_offset
        self._sizes = {segment: segment.size for segment in self._segments}
        self.stats = CompactionStats()
        #: Another pass has to go on at `end_offset`.
        self.is_partial = False
        self._last_offsets: dict[bytes, int] = {}
        self._cost = 0
        #: The leader epoch of the last batch that was copied.
        self._epoch = UNSET

    def run(self) -> Iterator[None]:
        """Do one slice of the work with each step; see the errors of `Segments` and `FileStore`.

        Raises:
            CompactionAbortedError: The log was truncated or deleted from, or closed.
            RecordError: A batch is damaged, or the disk has failed. What was put in place stays.
        """
        if not self._segments:
            return
        self._require(self._segments)
        first_offset = self._segments[0].base_offset
        aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in self._log.aborted_transactions(first_offset, self.end_offset):
            aborted.setdefault(transaction.producer_id, []).append(transaction)
        transactions = _Transactions(aborted)
        yield from self._note_keys(transactions)
        done = 0
        while done < len(self._segments):
            done += yield from self._clean(self._segments[done:], transactions)
        self._log.note_cleaned(self.end_offset)

    def _take_turn(self, records: int, bound: list[Segment]) -> Iterator[None]:
        """Let others have their turn after each slice; `bound` are the segments in use."""
        self._cost += records + _BATCH_COST
        if self._cost >= RECORDS_PER_SLICE:
            self._cost = 0
            yield
            self._require(bound)

    def _require(self, segments: list[Segment]) -> None:
        is_unchanged = all(segment.size == self._sizes[segment] for segment in segments)
        if not (is_unchanged and self._log.has_segments(segments)):
            raise CompactionAbortedError(self._log.name)

    # -- keys

    def _note_keys(self, transactions: _Transactions) -> Iterator[None]:
        last_offsets = self._last_offsets
        num_bytes = 0
        for position, segment in enumerate(self._segments):
            if segment.next_offset <= self.start_offset:
                continue
            if num_bytes > MAX_KEY_BYTES:
                self.is_partial = True
                del self._segments[position:]
                self.end_offset = self._segments[-1].next_offset
                return
            for index in range(len(segment)):
                header, batch = self._read(segment, index)
                yield from self._take_turn(header.record_count, self._segments)
                if header.is_control or transactions.is_aborted(header):
                    continue
                records = decompress_records(header, batch)
                if records is None:
                    continue
                base_offset = header.base_offset
                for _, delta, key_at, key_size, *_ in record_layouts(records, header.record_count):
                    if key_size >= 0 and base_offset + delta >= self.start_offset:
                        num_keys = len(last_offsets)
                        last_offsets[records[key_at : key_at + key_size]] = base_offset + delta
                        if len(last_offsets) > num_keys:
                            num_bytes += key_size + _KEY_OVERHEAD

    def _read(self, segment: Segment, index: int) -> tuple[BatchHeader, bytes]:
        batch = segment.batch(index)
        header = read_header(batch)
        if header.base_offset != segment.base_offset_at(index):
            raise RecordError(
                ErrorCode.CORRUPT_MESSAGE,
                f"{self._log.name} has a damaged batch at offset {segment.base_offset_at(index)}",
            )
        # A batch that is rewritten gets another checksum, which would hide the damage.
        verify_checksum(header, batch)
        return header, batch

    # -- segments

    def _clean(
        self, segments: list[Segment], transactions: _Transactions
    ) -> Generator[None, None, int]:
        """Compact the first segments into one, and return their number.

        They are as many as fit together into a segment. One without records gets the next one, too:
        a consumer that fetches only empty batches returns nothing to its caller, who may take that
        for the end.
        """
        output = _Output(self._log.new_cleaned_segment(segments[0].base_offset))
        group: list[Segment] = []
        dropped: BatchHeader | None = None
        is_replaced = False
        try:
            for segment in segments:
                is_full = output.size + segment.size > self._settings.segment_bytes
                if group and output.records and is_full:
                    break
                group.append(segment)
                for index in range(len(segment)):
                    header, batch = self._read(segment, index)
                    yield from self._take_turn(header.record_count, group)
                    kept = self._kept(header, batch, transactions, output.segment)
                    self._count(header, batch, kept)
                    dropped = header if kept is None else None
                    if kept is not None:
                        output.add(kept)
            if dropped is not None:
                # The next segment begins where this one ends.
                output.add(self._emptied(dropped, transactions))
            output.write()
            self._log.replace_segments(group, output.segment)
            is_replaced = True
        finally:
            if not is_replaced:
                output.segment.delete()
        return len(group)

    def _count(self, header: BatchHeader, batch: bytes, kept: bytes | None) -> None:
        self.stats.bytes_read += len(batch)
        self.stats.records_read += header.record_count
        if kept is not None:
            self.stats.bytes_written += len(kept)
            self.stats.records_written += read_header(kept).record_count

    def _kept(
        self, header: BatchHeader, batch: bytes, transactions: _Transactions, cleaned: Segment
    ) -> bytes | None:
        """Return what stays of a batch, None for nothing; note aborted transactions."""
        begins_epoch = header.leader_epoch != self._epoch
        self._epoch = header.leader_epoch
        if header.is_control:
            kept = self._kept_marker(header, batch, transactions, cleaned)
        else:
            if header.is_transactional:
                transactions.met.add(header.producer_id)
            kept = None
            if not transactions.is_aborted(header):
                kept = self._kept_records(header, batch)
        if kept is None:
            if begins_epoch or self._is_last_of_producer(header):
                return self._emptied(header, transactions)
        elif header.is_transactional and not header.is_control:
            transactions.kept.setdefault(header.producer_id, header.base_offset)
        return kept

    def _emptied(self, header: BatchHeader, transactions: _Transactions) -> bytes:
        if header.is_transactional and not header.is_control:
            transactions.kept.setdefault(header.producer_id, header.base_offset)
        return empty_batch(header)

    def _kept_records(self, header: BatchHeader, batch: bytes) -> bytes | None:
        records = decompress_records(header, batch)
        if records is None:
            return batch
        horizon_ms = header.delete_horizon_ms
        keeps_tombstones = horizon_ms is None or self._now_ms < horizon_ms
        last_offsets = self._last_offsets

        def is_kept(key: bytes | None, offset: int, is_tombstone: bool) -> bool:
            if key is None:
                self.stats.keyless_records += 1
                return False
            return offset >= last_offsets.get(key, UNSET) and (keeps_tombstones or not is_tombstone)

        new_horizon_ms = self._now_ms + self._settings.delete_retention_ms
        return retained_batch(header, batch, records, is_kept, new_horizon_ms)

    def _kept_marker(
        self, header: BatchHeader, batch: bytes, transactions: _Transactions, cleaned: Segment
    ) -> bytes | None:
        marker = read_end_marker(header, batch)
        if marker is None:
            # It is empty, or of another kind, which says nothing of a transaction.
            return batch if header.record_count else None
        producer_id = header.producer_id
        first_kept = transactions.kept.pop(producer_id, None)
        aborted = transactions.ended_by(header)
        if aborted is not None and first_kept is not None:
            cleaned.aborted.add(aborted._replace(first_offset=first_kept))
        is_met = producer_id in transactions.met
        transactions.met.discard(producer_id)
        if is_met:
            return batch
        if header.delete_horizon_ms is None:
            records = decompress_records(header, batch)
            assert records is not None, header
            return with_delete_horizon(
                header, records, self._now_ms + self._settings.delete_retention_ms
            )
        if self._now_ms < header.delete_horizon_ms or self._is_last_of_producer(header):
            return batch
        return None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Return whether a batch has a known producer's sequence numbers, or a marker its epoch."""
        producer = self._log.producers.get(header.producer_id)
        if producer is None or not header.has_producer:
            return False
        if header.is_control:
            return not producer.batches and producer.last_offset == header.last_offset
        return any(each.base_offset == header.base_offset for each in producer.batches)
