"""A partition's log."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from request_purgatory.broker.log.batch import (
    UNSET,
    BatchHeader,
    Buffer,
    split,
    stamped,
    verify,
)
from request_purgatory.broker.log.checkpoint import OffsetCheckpoint, flush_folder
from request_purgatory.broker.log.epochs import LeaderEpochs
from request_purgatory.broker.log.errors import RecordError, storage_error
from request_purgatory.broker.log.producers import Producers
from request_purgatory.broker.log.record import Record, read_records
from request_purgatory.broker.log.recovery import Recovered, recover, segment_name
from request_purgatory.broker.log.segment import Placed, Segment
from request_purgatory.broker.log.segments import Segments
from request_purgatory.broker.log.settings import LogSettings
from request_purgatory.broker.log.store import FileStore, MemoryStore, OpenFiles
from request_purgatory.broker.log.validation import accepted
from request_purgatory.broker.wire.error_code import ErrorCode

logger = logging.getLogger(__name__)

_CHUNK_BYTES = 1_048_576
_START_OFFSET_FILE = "log-start-offset"


class Appended(NamedTuple):
    """Where a leader put a batch."""

    base_offset: int
    last_offset: int
    #: UNSET with the producer's timestamps - but for a duplicate, which Kafka tells the first
    #: append's timestamp of.
    log_append_time_ms: int
    #: The batch was there already: the offsets are those of its first append, and nothing was
    #: written.
    duplicate: bool
    max_timestamp: int


class PartitionLog:
    """Record batches one behind the other, in segments; offsets count the records, and have no gaps.

    Records are between `log_start_offset` and `end_offset`. The first may lie inside a batch, which
    is then kept and read as a whole; all else begins and ends with batches. How far records are
    replicated is not the log's concern. A log belongs to one event loop. Whatever raises
    RecordError leaves it as it was.

    >>> from request_purgatory.broker.log import LogSettings, build
    >>> log = PartitionLog.in_memory("orders-0", LogSettings())
    >>> log.append_as_leader(build([(b"key", b"value")], 1_000), leader_epoch=1, now_ms=1_000).base_offset
    0
    >>> [record.value for record in log.records()], log.end_offset
    ([b'value'], 1)
    """

    def __init__(
        self,
        name: str,
        settings: LogSettings,
        make_segment: Callable[[int], Segment],
        recovered: Recovered,
        folder: Path | None = None,
    ) -> None:
        """Use `in_memory` or `open`."""
        self.name = name
        #: May be replaced at any time.
        self.settings = settings
        self._folder = folder
        segments, self._start_offset, self._epochs, self._producers = recovered
        self._segments = Segments(make_segment, segments)
        #: All before it has been forced to the disk, by this log.
        self._flushed_offset = self._segments.first_offset
        self._folder_flushed = False
        self._closed = False

    @classmethod
    def in_memory(cls, name: str, settings: LogSettings) -> PartitionLog:
        """An empty log, which ends with the process."""
        recovered = Recovered([Segment(0, MemoryStore())], 0, LeaderEpochs(name), Producers())
        return cls(
            name, settings, lambda base_offset: Segment(base_offset, MemoryStore()), recovered
        )

    @classmethod
    def open(
        cls, name: str, folder: Path, settings: LogSettings, *, files: OpenFiles | None = None
    ) -> PartitionLog:
        """The log in a folder, which is made if it is not there; what a crash tore is cut off (see `recovery`).

        Args:
            files: shared with other logs of the event loop, so that all of them together have not
                too many open files.

        Raises:
            RecordError: KAFKA_STORAGE_ERROR, with what the system said.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(f"making {folder}", error) from error
        shared = files if files is not None else OpenFiles(8)

        def make_segment(base_offset: int) -> Segment:
            return Segment(base_offset, FileStore(folder / segment_name(base_offset), shared))

        start_offset = OffsetCheckpoint(folder / _START_OFFSET_FILE).read()
        return cls(
            name, settings, make_segment, recover(name, folder, make_segment, start_offset), folder
        )

    # -- where it stands

    @property
    def log_start_offset(self) -> int:
        """The first offset that can be read, if there is any."""
        return self._start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record."""
        return self._segments.active.next_offset

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last batch, or a later one that has begun.

        -1 if there is none.
        """
        return self._epochs.latest

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self._segments.size

    @property
    def producers(self) -> Producers:
        """The idempotent producers that the log knows."""
        return self._producers

    def epoch_start(self, epoch: int) -> int:
        """Where a leader epoch begins; the log's end if it has not begun."""
        start = self._epochs.start_of(epoch)
        return self.end_offset if start is None else start

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest leader epoch that is not larger than `epoch`, and the offset where it ends: OffsetForLeaderEpoch.

        (epoch, start of the next known) where all before that is gone; (-1, -1) for an epoch after
        the last.
        """
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        """The leader epoch that a record was appended in; -1 if that is not known."""
        return self._epochs.epoch_at(offset)

    # -- writing

    def begin_epoch(self, epoch: int) -> None:
        """This log's replica becomes the leader.

        Its epoch begins at the log's end, though nothing has been appended yet.
        """
        self._epochs.assign(epoch, self.end_offset)

    def append_as_leader(
        self, records: Buffer, leader_epoch: int, now_ms: int, *, internal: bool = False
    ) -> Appended:
        """Check a client's batch, give it its offsets and the leader's epoch, and append it.

        Args:
            records: the one batch, with base offset 0.
            now_ms: whole milliseconds since 1970: timestamps are compared with it.
            internal: the broker's own batch, which is not refused what is refused to clients.

        Raises:
            RecordError: with the code that Kafka answers; see `validation` and `Producers.check`;
                KAFKA_STORAGE_ERROR.
        """
        self._require_open()
        header, batch, max_timestamp = accepted(records, self.settings, now_ms, internal=internal)
        idempotent = header.producer_id > UNSET and not header.is_control
        if idempotent:
            earlier = None if internal else self._producers.duplicate(header)
            if earlier is not None:
                return Appended(
                    earlier.base_offset,
                    earlier.last_offset,
                    earlier.timestamp,
                    True,
                    earlier.timestamp,
                )
            self._producers.check(header, internal=internal)
        base_offset = self._segments.active.next_offset
        next_offset = base_offset + header.last_offset_delta + 1
        data = stamped(header, batch, base_offset, leader_epoch)
        self._write(data, [Placed(base_offset, next_offset, len(data), max_timestamp)])
        self._epochs.assign(leader_epoch, base_offset)
        if idempotent:
            self._producers.add(header, base_offset, max_timestamp)
        log_append_time_ms = max_timestamp if self.settings.log_append_time else UNSET
        return Appended(base_offset, next_offset - 1, log_append_time_ms, False, max_timestamp)

    def append_as_follower(self, records: Buffer, *, max_epoch: int | None = None) -> None:
        """Append the leader's batches as they are; a torn last one is left out.

        Args:
            max_epoch: a batch of a later epoch, and all behind it, are left out: the answer to a
                fetch may be overtaken by the next election.

        Raises:
            RecordError: CORRUPT_MESSAGE for a wrong checksum; OFFSET_OUT_OF_RANGE for batches that
                do not begin at `end_offset`; KAFKA_STORAGE_ERROR, where those that fitted into
                earlier segments stay.
        """
        self._require_open()
        view = memoryview(records)
        headers: list[BatchHeader] = []
        for header, batch in split(view, torn_tail=True):
            if max_epoch is not None and header.leader_epoch > max_epoch:
                break
            expected = headers[-1].next_offset if headers else self.end_offset
            if header.base_offset != expected or header.last_offset_delta < 0:
                # DeleteRecords may have moved the leader's start, where an empty follower begins,
                # into this batch.
                inside = header.base_offset < expected <= header.last_offset
                if headers or not inside or self._start_offset != expected:
                    raise RecordError(
                        ErrorCode.OFFSET_OUT_OF_RANGE,
                        f"{self.name} goes on at offset {expected}, got {header.base_offset} to {header.last_offset}",
                    )
            verify(header, batch)
            headers.append(header)
        if headers and headers[0].base_offset < self.end_offset:
            self._restart(headers[0].base_offset)
        position = 0
        try:
            while headers:
                count, size = self._fitting(headers)
                self._append_as_is(headers[:count], bytes(view[position : position + size]))
                del headers[:count]
                position += size
        finally:
            if self.end_offset < self._start_offset:
                self._restart(self._start_offset)

    def _append_as_is(self, headers: list[BatchHeader], data: bytes) -> None:
        self._write(
            data,
            [
                Placed(each.base_offset, each.next_offset, each.size, each.max_timestamp)
                for each in headers
            ],
        )
        for header in headers:
            self._epochs.assign(header.leader_epoch, max(header.base_offset, self._start_offset))
            if header.producer_id > UNSET and not header.is_control:
                self._producers.add(header, header.base_offset, header.max_timestamp)

    def _fitting(self, headers: list[BatchHeader]) -> tuple[int, int]:
        """How many batches go into one segment, the active one or a new one, and their bytes."""
        limit = self.settings.segment_bytes
        room = limit - self._segments.active.size
        if headers[0].size > room:
            room = max(limit, headers[0].size)
        size = count = 0
        for header in headers:
            if size + header.size > room:
                break
            size += header.size
            count += 1
        return count, size

    def _write(self, data: bytes, batches: list[Placed]) -> None:
        segment = self._segments.active
        if segment.size and segment.size + len(data) > self.settings.segment_bytes:
            segment = self._roll()
        segment.append(data, batches)
        every = self.settings.flush_messages
        if every is not None and segment.next_offset - self._flushed_offset >= every:
            try:
                self.flush()
            except RecordError:
                segment.truncate(batches[0].base_offset)
                raise

    def _roll(self) -> Segment:
        self._segments.roll()
        self._folder_flushed = False
        return self._segments.active

    # -- reading

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool) -> bytes:
        """Whole batches, from the one with `offset` on, of one segment.

        Args:
            max_bytes: at most; but `at_least_one` gives the first batch however large it is.
            limit_offset: no batch that goes beyond it, which is the high watermark for consumers.

        Raises:
            RecordError: OFFSET_OUT_OF_RANGE for an offset before the log's start or after its end;
                KAFKA_STORAGE_ERROR.
        """
        self._require_open()
        end_offset = self._segments.active.next_offset
        if not self._start_offset <= offset <= end_offset:
            raise RecordError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} has offsets {self._start_offset} to {end_offset}, wanted {offset}",
            )
        if offset >= limit_offset or offset == end_offset:
            return b""
        return self._segments.at(offset).read(offset, max_bytes, limit_offset, at_least_one)

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """Bytes of the whole batches from the one with `offset` to `limit_offset`, over all segments: what can be fetched."""
        return self._segments.bytes_between(offset, limit_offset) if offset < limit_offset else 0

    def batches(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """All batches, from the one with `from_offset` on."""
        offset = max(from_offset, self._start_offset)
        while offset < self.end_offset:
            for header, batch in split(
                self.read(offset, _CHUNK_BYTES, self.end_offset, at_least_one=True)
            ):
                yield header, batch
                offset = header.next_offset

    def records(self, from_offset: int = 0) -> Iterator[Record]:
        """All records but Kafka's markers, from `from_offset` on.

        Raises:
            RecordError: as `read_records`.
        """
        from_offset = max(from_offset, self._start_offset)
        for header, batch in self.batches(from_offset):
            if not header.is_control:
                yield from (
                    record for record in read_records(header, batch) if record.offset >= from_offset
                )

    def offset_at_time(self, timestamp_ms: int, limit_offset: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record not older than `timestamp_ms`; None if it is not below `limit_offset`.

        Of a batch that can't be unpacked, for want of its codec's library, it is the base timestamp
        and the base offset.
        """
        self._require_open()
        found = self._segments.first_at_or_after(timestamp_ms, self._start_offset)
        return None if found is None or found[1] >= limit_offset else found

    def max_timestamp_offset(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the first of the records with the latest timestamp.

        None if no record has one.
        """
        self._require_open()
        return self._segments.latest()

    # -- cutting

    def truncate_to(self, offset: int) -> None:
        """Cut off `offset` and all behind it, and the whole of the batch that it lies in.

        Always to be called when a leader says where this log's epoch ends, even at or after
        `end_offset`: an epoch that has begun and has no records is cut off too.
        """
        self._require_open()
        if offset < self.end_offset:
            base_offset = (
                offset if offset < self._start_offset else self._segments.at(offset).base_of(offset)
            )
            if base_offset <= self._start_offset:
                self.truncate_fully(min(offset, self._start_offset))
                return
            self._segments.cut(base_offset)
            self._flushed_offset = min(self._flushed_offset, base_offset)
            self._restore_producers(self._producers.cut(base_offset))
        self._epochs.truncate_end(self.end_offset)

    def _restore_producers(self, producer_ids: set[int]) -> None:
        """Find what is left of some producers, from the end of the log on, since that is where most of them are."""
        for segment in reversed(list(self._segments)):
            for header in segment.headers_backwards():
                if not producer_ids:
                    return
                if (
                    header.producer_id in producer_ids
                    and not header.is_control
                    and self._producers.restore(header)
                ):
                    producer_ids.discard(header.producer_id)

    def truncate_fully(self, start_offset: int) -> None:
        """Drop all records, epochs and producers; the log goes on, empty, at `start_offset`."""
        self._require_open()
        # First: if the process dies in between, what is left is before this offset and dropped, or
        # is a log of its own.
        self._save_start_offset(start_offset)
        self._restart(start_offset)
        self._start_offset = start_offset

    def _restart(self, base_offset: int) -> None:
        self._segments.restart(base_offset)
        self._flushed_offset = base_offset
        self._folder_flushed = False
        self._epochs.clear()
        self._producers.clear()

    def advance_start(self, offset: int) -> None:
        """Records before `offset` are gone, as DeleteRecords has it; their segments too, where all of it is before `offset`.

        Does nothing for an offset before the start.

        Raises:
            RecordError: OFFSET_OUT_OF_RANGE for an offset after the end.
        """
        self._require_open()
        if offset > self.end_offset:
            raise RecordError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} ends at offset {self.end_offset}, and can't start at {offset}",
            )
        if offset > self._start_offset:
            self._save_start_offset(offset)
            self._start_at(offset)

    def delete_old(self, now_ms: int, high_watermark: int) -> int:
        """Delete the segments at the log's beginning that are beyond `retention_bytes` or `retention_ms`, or before the start.

        Returns how many. A segment's age is that of its latest timestamp; one whose records have
        none does not age. No segment goes that reaches beyond `high_watermark`; the last one may.
        Producers that have been away for long are forgotten too.
        """
        self._require_open()
        self._producers.expire(now_ms)
        settings = self.settings
        before_start = self._segments.drop_before(self._start_offset)
        surplus = (
            UNSET
            if settings.retention_bytes is None
            else self.size_bytes - settings.retention_bytes
        )
        oldest = UNSET if settings.retention_ms is None else now_ms - settings.retention_ms
        old = 0
        start_offset = self._start_offset
        for segment in self._segments:
            if segment.next_offset > high_watermark or not segment.size:
                break
            if surplus < segment.size and not UNSET < segment.max_timestamp < oldest:
                break
            surplus -= segment.size
            start_offset = segment.next_offset
            old += 1
        if old:
            logger.info(
                "%s: retention deletes %d segments, up to offset %d", self.name, old, start_offset
            )
            if old == len(self._segments):
                self._roll()
            self._start_at(max(self._start_offset, start_offset))
        return before_start + old

    def _start_at(self, offset: int) -> None:
        self._start_offset = offset
        self._epochs.truncate_start(offset)
        self._segments.drop_before(offset)

    def _save_start_offset(self, offset: int) -> None:
        if self._folder is not None:
            OffsetCheckpoint(self._folder / _START_OFFSET_FILE).write(offset)

    # -- its life

    def flush(self) -> None:
        """Force all to the disk.

        Raises:
            RecordError: KAFKA_STORAGE_ERROR.
        """
        self._require_open()
        self._segments.flush_from(self._flushed_offset)
        if not self._folder_flushed and self._folder is not None:
            try:
                flush_folder(self._folder)
            except OSError as error:
                raise storage_error(f"forcing {self._folder} to the disk", error) from error
            self._folder_flushed = True
        self._flushed_offset = self.end_offset

    def close(self) -> None:
        """Close its files; with `flush_messages`, after having forced them to the disk.

        Closing it again does nothing.
        """
        if self._closed:
            return
        try:
            if self.settings.flush_messages is not None:
                self.flush()
        finally:
            self._closed = True
            self._segments.close()

    def delete(self) -> None:
        """Close it and remove all of it.

        Raises RecordError, KAFKA_STORAGE_ERROR, where something is left.
        """
        self._closed = True
        self._segments.delete()
        if self._folder is not None:
            try:
                shutil.rmtree(self._folder)
            except FileNotFoundError:
                pass
            except OSError as error:
                raise storage_error(f"deleting {self._folder}", error) from error

    def _require_open(self) -> None:
        if self._closed:
            raise RecordError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self.name} is closed")

    def check(self) -> None:
        """Assert every invariant; reads all of it."""
        self._segments.check()
        first_offset = self._segments.first_offset
        assert first_offset <= self._start_offset <= self.end_offset, (
            first_offset,
            self._start_offset,
            self.end_offset,
        )
        second = next(iter(list(self._segments)[1:]), None)
        assert second is None or self._start_offset <= second.base_offset, (
            self._start_offset,
            second,
        )
        headers = []
        for header, batch in self.batches():
            verify(header, batch)
            assert (
                self._epochs.epoch_at(max(header.base_offset, self._start_offset))
                == header.leader_epoch
            ), header
            headers.append(header)
        self._epochs.check(first_offset, self.end_offset)
        self._producers.check_invariants(headers)
        assert self._flushed_offset <= self.end_offset, (self._flushed_offset, self.end_offset)
        assert self.bytes_between(self._start_offset, self.end_offset) == sum(
            header.size for header in headers
        )
