"""A partition's log."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.batch import CONTROL, UNSET, BatchHeader, Buffer, with_offset_and_epoch
from purgatory_broker.log.compactable_log import CompactableLog
from purgatory_broker.log.leader_epochs import LeaderEpochs
from purgatory_broker.log.log_errors import RecordError
from purgatory_broker.log.log_folder import LogFolder
from purgatory_broker.log.log_settings import LogSettings
from purgatory_broker.log.producer_restoration import truncate_producers
from purgatory_broker.log.producer_states import ProducerStates
from purgatory_broker.log.recovery import RecoveredLog, recover
from purgatory_broker.log.retention import expired_segments
from purgatory_broker.log.segment import BatchEntry, Segment
from purgatory_broker.log.segments import Segments
from purgatory_broker.log.store import MemoryStore, OpenFiles
from purgatory_broker.log.validation import (
    batches_that_fit,
    has_gaps,
    validate_batch,
    validate_leader_batches,
)
from purgatory_broker.log.verification import VerificationGuard

logger = logging.getLogger(__name__)


class AppendInfo(NamedTuple):
    base_offset: int
    last_offset: int
    #: UNSET with CreateTime. For a duplicate, as in Kafka, the timestamp of the first append.
    log_append_time_ms: int
    #: The batch had been appended before. The offsets are those of the first append, and nothing
    #: was written.
    duplicate: bool
    max_timestamp: int


class PartitionLog(CompactableLog):
    """Consecutive record batches in segments; offsets count the records.

    Compaction leaves gaps in the offsets (see `Compaction`). The records are those from
    `log_start_offset` to `end_offset`. The log start offset may be inside a batch, which is then
    kept and read as a whole. The log does not know how far its records are replicated. It must be
    used by one event loop only. A method that raises RecordError leaves the log unchanged, except
    where its documentation says otherwise.

    >>> from purgatory_broker.log.log_settings import LogSettings
    >>> from purgatory_broker.log.record import build_batch
    >>> log = PartitionLog.in_memory("orders-0", LogSettings())
    >>> batch = build_batch([(b"key", b"value")], 1_000)
    >>> log.append_as_leader(batch, leader_epoch=1, now_ms=1_000).base_offset
    0
    >>> [record.value for record in log.records()], log.end_offset
    ([b'value'], 1)
    """

    def __init__(
        self,
        name: str,
        settings: LogSettings,
        new_segment: Callable[[int], Segment],
        recovered: RecoveredLog,
        folder: LogFolder | None = None,
        cleaned_offset: int | None = None,
    ) -> None:
        """Create a log from its recovered state; use `in_memory` or `open` instead."""
        segments = Segments(new_segment, recovered.segments)
        super().__init__(name, segments, recovered, folder, cleaned_offset)
        #: May be replaced at any time.
        self.settings = settings
        #: This log has flushed all earlier records to the disk.
        self._flushed_offset = self._segments.first_offset

    @classmethod
    def in_memory(cls, name: str, settings: LogSettings) -> PartitionLog:
        def new_segment(base_offset: int) -> Segment:
            return Segment(base_offset, MemoryStore())

        recovered = RecoveredLog([new_segment(0)], 0, LeaderEpochs(name), ProducerStates())
        return cls(name, settings, new_segment, recovered)

    @classmethod
    def open(
        cls, name: str, folder: Path, settings: LogSettings, *, files: OpenFiles | None = None
    ) -> PartitionLog:
        """Open or create; what a crash left incomplete is truncated, see `recover`."""
        opened = LogFolder(folder, files if files is not None else OpenFiles(8))
        cleaned_offset = opened.cleaned_offset.read()
        recovered = recover(
            name,
            folder,
            opened.segment,
            opened.start_offset.read(),
            has_gaps=cleaned_offset is not None,
        )
        return cls(name, settings, opened.segment, recovered, opened, cleaned_offset)

    # -- writing

    def begin_epoch(self, epoch: int) -> None:
        """Start a leader epoch at the log's end, when this log's replica becomes the leader."""
        self._epochs.assign(epoch, self.end_offset)

    def append_as_leader(
        self,
        records: Buffer,
        leader_epoch: int,
        now_ms: int,
        *,
        internal: bool = False,
        guard: VerificationGuard | None = None,
    ) -> AppendInfo:
        """Validate a client's batch, assign its offsets and leader epoch, and append it.

        A batch that an idempotent producer has sent before is not appended again. `internal` is a
        batch of the broker's own, exempt from the checks of clients' batches. The first batch of a
        transaction needs the `guard` of its verification.
        """
        if self._closed:
            self._require_open()
        settings = self.settings
        header, batch, max_timestamp = validate_batch(records, settings, now_ms, internal=internal)
        has_producer = header.producer_id > UNSET
        if has_producer:
            first = None if internal else self._producers.find_duplicate(header)
            if first is not None:
                return AppendInfo(
                    first.base_offset, first.last_offset, first.timestamp, True, first.timestamp
                )
            self._check_producer(header, batch, guard, internal=internal)
        base_offset = self._segments.active.next_offset
        next_offset = base_offset + header.last_offset_delta + 1
        data = with_offset_and_epoch(header, batch, base_offset, leader_epoch)
        # A leader's batches have a record for each offset; that of a marker is not seen.
        hidden = int(header.attributes & CONTROL != 0)
        entry = BatchEntry(base_offset, next_offset, len(data), max_timestamp, hidden)
        self._write(data, [entry])
        self._epochs.assign(leader_epoch, base_offset)
        if has_producer:
            aborted = self._segments.active.aborted
            self._producers.add(header, data, base_offset, max_timestamp, aborted)
        log_append_time_ms = max_timestamp if settings.log_append_time else UNSET
        return AppendInfo(base_offset, next_offset - 1, log_append_time_ms, False, max_timestamp)

    def _check_producer(
        self,
        header: BatchHeader,
        batch: Buffer,
        guard: VerificationGuard | None,
        *,
        internal: bool,
    ) -> None:
        if header.is_control:
            self._producers.check_marker(header, batch)
            return
        if header.is_transactional:
            self._producers.check_verified(header, guard)
        self._producers.check(header, internal=internal)

    def append_as_follower(self, records: Buffer, *, max_epoch: int | None = None) -> None:
        """Append a leader's batches, with the offsets and epochs that they have.

        Example: the leader's log start offset is 7, inside a batch with offsets 5 to 9, and this
        log is empty at 7. The leader sends the batches 5-9 and 10-12. The empty segment at 7 is
        replaced by one at 5, both batches are appended, and the log start offset stays 7.

        A batch of a later epoch than `max_epoch` is ignored, with all after it: an election may
        take place between a fetch and its response. After KAFKA_STORAGE_ERROR, batches in earlier
        segments stay.
        """
        self._require_open()
        headers = validate_leader_batches(
            self.name, records, self._start_offset, self.end_offset, max_epoch
        )
        if headers and headers[0].base_offset < self.end_offset:
            self._clear_and_start_at(headers[0].base_offset)
        if has_gaps(self.end_offset, headers):
            self._allow_gaps()
        try:
            self._append_by_segment(headers, memoryview(records))
        finally:
            # The batch that contains the log start offset could not be appended.
            if self.end_offset < self._start_offset:
                self._clear_and_start_at(self._start_offset)

    def _append_by_segment(self, headers: list[BatchHeader], records: memoryview) -> None:
        """Append validated batches, with one write for each segment."""
        position = 0
        while headers:
            count, size = batches_that_fit(
                headers, self._segments.active.size, self.settings.segment_bytes
            )
            data = bytes(records[position : position + size])
            self._write(data, [BatchEntry.of(header) for header in headers[:count]])
            at = 0
            for header in headers[:count]:
                start_offset = max(header.base_offset, self._start_offset)
                self._epochs.assign(header.leader_epoch, start_offset)
                if header.has_producer:
                    batch = data[at : at + header.size] if header.is_control else b""
                    base_offset, timestamp = header.base_offset, header.max_timestamp
                    aborted = self._segments.active.aborted
                    self._producers.add(header, batch, base_offset, timestamp, aborted)
                at += header.size
            headers = headers[count:]
            position += size

    def _write(self, data: bytes, batches: list[BatchEntry]) -> None:
        segment = self._segments.active
        settings = self.settings
        segment_ms, size = settings.segment_ms, segment.store.size
        if size and (
            size + len(data) > settings.segment_bytes
            or (segment_ms is not None and segment.is_older(batches[-1].max_timestamp, segment_ms))
        ):
            self._segments.roll()
            segment = self._segments.active
        segment.append(data, batches)
        flush_messages = settings.flush_messages
        if (
            flush_messages is not None
            and segment.next_offset - self._flushed_offset >= flush_messages
        ):
            try:
                self.flush()
            except RecordError:
                segment.truncate_to(batches[0].base_offset)
                raise

    # -- truncating and deleting

    def truncate_to(self, offset: int) -> None:
        """Remove the batch that contains `offset`, and all later ones.

        Must also be called for an offset at or after `end_offset`, whenever a leader reports where
        this log's epoch ends: epochs without records at the end of the log are removed too.
        """
        self._require_open()
        if offset < self.end_offset:
            base_offset = offset
            if offset >= self._start_offset:
                base_offset = self._segments.at(offset).batch_start(offset)
            if base_offset <= self._start_offset:
                self.truncate_fully_and_start_at(min(offset, self._start_offset))
                return
            self._segments.truncate_to(base_offset)
            self._flushed_offset = min(self._flushed_offset, self.end_offset)
            truncate_producers(self._producers, self._segments, self.end_offset)
            self._limit_cleaned_offset()
        self._epochs.truncate_from_end(self.end_offset)

    def truncate_fully_and_start_at(self, start_offset: int) -> None:
        """Remove all records, epochs and producers; the empty log starts at `start_offset`."""
        self._require_open()
        # The checkpoint first: if the process dies in between, recovery either deletes the old
        # records, because they precede this offset, or finds a valid log.
        self._save_start_offset(start_offset)
        self._clear_and_start_at(start_offset)
        self._start_offset = start_offset

    def _clear_and_start_at(self, base_offset: int) -> None:
        self._segments.truncate_fully_and_start_at(base_offset)
        self._flushed_offset = base_offset
        if self._folder is not None:
            self._folder.is_flushed = False
        self._epochs.clear()
        self._producers.clear()
        self._limit_cleaned_offset()

    def advance_log_start_offset(self, offset: int) -> None:
        """Delete records and whole segments before `offset`; no-op below the log's start."""
        self._require_open()
        if offset > self.end_offset:
            raise RecordError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} can't start at offset {offset}, it ends at {self.end_offset}",
            )
        if offset > self._start_offset:
            self._save_start_offset(offset)
            self._start_at(offset)

    def delete_old_segments(self, now_ms: int, high_watermark: int) -> int:
        """Delete the segments before the log start offset, and those of `expired_segments`.

        The active segment may be deleted too; an empty one replaces it. Producers that have been
        inactive for `producer_id_expiration_ms` are forgotten.
        """
        self._require_open()
        self._producers.expire(now_ms, self.settings.producer_id_expiration_ms)
        before_start = self._segments.delete_before(self._start_offset)
        expired = expired_segments(self._segments, self.settings, now_ms, high_watermark)
        if expired:
            start_offset = expired[-1].next_offset
            logger.info(
                "%s: retention deletes %d segments, up to offset %d",
                self.name,
                len(expired),
                start_offset,
            )
            if len(expired) == len(self._segments):
                self._segments.roll()
            self._start_at(max(self._start_offset, start_offset))
        return before_start + len(expired)

    def _start_at(self, offset: int) -> None:
        self._start_offset = offset
        self.transactions.replicated(offset)
        self._epochs.truncate_from_start(offset)
        self._segments.delete_before(offset)

    def _save_start_offset(self, offset: int) -> None:
        if self._folder is not None:
            self._folder.start_offset.write(offset)

    # -- files

    def flush(self) -> None:
        self._require_open()
        self._segments.flush_from(self._flushed_offset)
        if self._folder is not None:
            self._folder.flush()
        self._flushed_offset = self.end_offset

    def close(self, *, clean: bool = False) -> None:
        """Close the log's files, with `flush_messages` after a flush; no-op if closed.

        `clean` flushes in any case, and notes in a file that the log is complete: `open` then keeps
        all of it. The files are closed even if the disk fails.
        """
        if self._closed:
            return
        try:
            if clean or self.settings.flush_messages is not None:
                self.flush()
            if clean and self._folder is not None:
                self._folder.note_clean_shutdown(self.end_offset, self.size_bytes)
        finally:
            self._closed = True
            self._segments.close()

    def delete(self) -> None:
        self._closed = True
        self._segments.delete()
        if self._folder is not None:
            self._folder.delete()

    def check(self) -> None:
        super().check()
        assert self._flushed_offset <= self.end_offset, (self._flushed_offset, self.end_offset)
