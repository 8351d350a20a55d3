"""What can be read of a log."""

from __future__ import annotations

from collections.abc import Iterator

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.aborted_transactions import AbortedTransaction
from purgatory_broker.log.batch import BatchHeader, split_batches, verify_checksum
from purgatory_broker.log.leader_epochs import LeaderEpochs
from purgatory_broker.log.log_errors import RecordError, StorageError
from purgatory_broker.log.producer_states import ProducerStates
from purgatory_broker.log.record import Record, read_records
from purgatory_broker.log.segments import Segments

_CHUNK_BYTES = 1_048_576


class ReadableLog:
    def __init__(
        self,
        name: str,
        segments: Segments,
        start_offset: int,
        epochs: LeaderEpochs,
        producers: ProducerStates,
    ) -> None:
        self.name = name
        self._segments = segments
        self._start_offset = start_offset
        self._epochs = epochs
        self._producers = producers
        self.transactions = producers.transactions
        self._closed = False

    # -- offsets and epochs

    @property
    def log_start_offset(self) -> int:
        return self._start_offset

    @property
    def end_offset(self) -> int:
        return self._segments.active.next_offset

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch, even if it has no batch yet; -1 if there is none."""
        return self._epochs.latest

    @property
    def size_bytes(self) -> int:
        return self._segments.size

    @property
    def producers(self) -> ProducerStates:
        return self._producers

    @property
    def first_unstable_offset(self) -> int | None:
        """The first offset of a transaction that is open, or whose marker is not replicated."""
        first = self.transactions.first_offset
        return None if first is None else max(first, self._start_offset)

    def replicated(self, high_watermark: int) -> None:
        """Note the high watermark: transactions with a marker below are stable."""
        self.transactions.replicated(high_watermark)

    def epoch_start_offset(self, epoch: int) -> int:
        """Return the start offset of a leader epoch, or the end offset if the epoch is unknown."""
        start = self._epochs.start_offset_of(epoch)
        return self.end_offset if start is None else start

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Answer OffsetForLeaderEpoch; see `LeaderEpochs.end_offset_for`."""
        return self._epochs.end_offset_for(epoch, self.end_offset)

    def epoch_at(self, offset: int) -> int:
        return self._epochs.epoch_at(offset)

    # -- reading

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, at_least_one: bool) -> bytes:
        """Read whole batches of one segment, from the one that contains `offset`.

        The last batch ends at `limit_offset` or before: for consumers the high watermark.
        `at_least_one` reads the first batch even if it is larger than `max_bytes`.
        """
        self._require_open()
        end_offset = self._segments.active.next_offset
        if not self._start_offset <= offset <= end_offset:
            raise RecordError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self.name} has offsets {self._start_offset} to {end_offset}, got {offset}",
            )
        if offset >= limit_offset or offset == end_offset:
            return b""
        return self._segments.at(offset).read(offset, max_bytes, limit_offset, at_least_one)

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """Return the size of the whole batches from `offset` to `limit_offset`, in bytes."""
        return self._segments.bytes_between(offset, limit_offset) if offset < limit_offset else 0

    def aborted_transactions(self, offset: int, limit_offset: int) -> list[AbortedTransaction]:
        """Return those with records from `offset` to `limit_offset`, in the order of their ends."""
        if offset >= limit_offset:
            return []
        return self._segments.aborted_transactions(offset, limit_offset)

    def end_of_read(self, offset: int, size: int) -> int:
        """Return the offset after the `size` bytes that `read` has returned for `offset`."""
        return self._segments.at(offset).offset_after(offset, size) if size else offset

    def record_count(self, offset: int, limit_offset: int) -> int:
        """Return the number of records from `offset` to `limit_offset`; markers do not count.

        Neither do records that compaction has removed.
        """
        offset = max(offset, self._start_offset)
        if offset >= limit_offset:
            return 0
        # Of a bound in a gap, the batch after it.
        first = self._segments.at(offset).batch_start(offset)
        limit_offset = max(limit_offset, self._segments.at(limit_offset).batch_start(limit_offset))
        hidden = self._segments.hidden_between(first, limit_offset)
        if not hidden or first >= offset:
            return limit_offset - max(first, offset) - hidden
        # Some offsets of the batch with `offset` may be hidden: its records are counted.
        header, batch = next(self.batches(offset))
        count = 0
        if not header.is_control:
            count = sum(record.offset >= offset for record in read_records(header, batch))
        return count + self.record_count(header.next_offset, limit_offset)

    def batches(self, from_offset: int = 0) -> Iterator[tuple[BatchHeader, memoryview]]:
        """Read from the batch at `from_offset`; CORRUPT_MESSAGE if damaged while closed."""
        offset = max(from_offset, self._start_offset)
        while offset < self.end_offset:
            data = self.read(offset, _CHUNK_BYTES, self.end_offset, at_least_one=True)
            base_offsets = self._segments.at(offset).base_offsets(offset, len(data))
            offset = self.end_of_read(offset, len(data))
            for (header, batch), base_offset in zip(
                split_batches(data), base_offsets, strict=False
            ):
                if header.base_offset != base_offset:
                    raise RecordError(
                        ErrorCode.CORRUPT_MESSAGE,
                        f"{self.name} has a batch with base offset {header.base_offset} at offset "
                        f"{base_offset}",
                    )
                yield header, batch

    def records(self, from_offset: int = 0) -> Iterator[Record]:
        from_offset = max(from_offset, self._start_offset)
        for header, batch in self.batches(from_offset):
            if not header.is_control:
                yield from (
                    record for record in read_records(header, batch) if record.offset >= from_offset
                )

    def offset_for_timestamp(self, timestamp_ms: int, limit_offset: int) -> tuple[int, int] | None:
        """Return (timestamp, offset); a batch's base ones if its codec is missing; or None."""
        self._require_open()
        first = self._segments.first_at_or_after(timestamp_ms, self._start_offset)
        return None if first is None or first[1] >= limit_offset else first

    def max_timestamp_offset(self) -> tuple[int, int] | None:
        """Return (timestamp, offset) of the first latest record; None if none has a timestamp."""
        self._require_open()
        return self._segments.max_timestamp_offset()

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError(f"{self.name} is closed")

    def check(self) -> None:
        """Assert every invariant; reads the whole log."""
        self._segments.check()
        first_offset, start, end = self._segments.first_offset, self._start_offset, self.end_offset
        offsets = [first_offset, start, end]
        assert offsets == sorted(offsets), offsets
        second = next(iter(list(self._segments)[1:]), None)
        assert second is None or start <= second.base_offset, (start, second)
        headers = []
        for header, batch in self.batches():
            verify_checksum(header, batch)
            epoch = self._epochs.epoch_at(max(header.base_offset, start))
            assert epoch == header.leader_epoch, (epoch, header)
            headers.append(header)
        self._epochs.check(first_offset, end)
        aborted = (each for segment in self._segments for each in segment.aborted)
        self._producers.check_invariants(self.batches(), aborted)
        assert self.bytes_between(start, end) == sum(header.size for header in headers), headers
