"""A segment: consecutive batches of a log, with an index."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from purgatory_broker.log.aborted_transactions import AbortedTransactions
from purgatory_broker.log.batch import HEADER_BYTES, UNSET, BatchHeader, read_header
from purgatory_broker.log.store import Store


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


class BatchEntry(NamedTuple):
    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    #: The offsets of which consumers see no record: of a marker, and of records that compaction has
    #: removed.
    hidden: int = 0

    @classmethod
    def of(cls, header: BatchHeader) -> BatchEntry:
        return cls(
            header.base_offset,
            header.next_offset,
            header.size,
            header.max_timestamp,
            header.hidden_offsets,
        )


class Segment:
    """Consecutive batches, and an index of their positions.

    The index takes 20 bytes a batch. A read is two bisections and one slice. So is a look-up by
    time: the index holds the latest timestamp up to and including each batch, which never
    decreases. Of aborted transactions, and of hidden offsets, both rare, it has lists. Offsets are
    hidden by markers and by compaction, which also leaves gaps between batches. A segment ends with
    a batch, so that the next one begins where it ends.
    """

    __slots__ = (
        "_hidden_offsets",
        "_hidden_totals",
        "_latest",
        "_offsets",
        "_positions",
        "aborted",
        "base_offset",
        "next_offset",
        "store",
    )

    def __init__(self, base_offset: int, store: Store) -> None:
        """Create a segment with an empty index; `index` adds the batches already in `store`."""
        self.base_offset = base_offset
        self.store = store
        #: The base offset of the next batch.
        self.next_offset = base_offset
        self._offsets = array("q")
        self._positions = array("I")
        self._latest = array("q")
        #: The first offsets of gaps, and the base offsets of batches that hide some.
        self._hidden_offsets = array("q")
        #: How many offsets are hidden up to and including each of these.
        self._hidden_totals = array("q")
        #: The transactions whose abort markers are in this segment.
        self.aborted = AbortedTransactions()

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def size(self) -> int:
        return self.store.size

    @property
    def max_timestamp(self) -> int:
        return self._latest[-1] if self._latest else UNSET

    def is_older(self, timestamp: int, age_ms: int) -> bool:
        """Return whether the first batch has a timestamp, and it is more than `age_ms` older."""
        first = self._latest[0]
        return first != UNSET and timestamp - first > age_ms

    @property
    def first_timestamp(self) -> int:
        """The latest timestamp of the first batch, UNSET if it has none."""
        return self._latest[0] if self._latest else UNSET

    def append(self, data: bytes | bytearray, batches: list[BatchEntry]) -> None:
        position = self.store.size
        self.store.append(data)
        for batch in batches:
            self.index(batch, position)
            position += batch.size

    def index(self, batch: BatchEntry, position: int) -> None:
        latest = self._latest[-1] if self._latest else UNSET
        self._offsets.append(batch.base_offset)
        self._positions.append(position)
        self._latest.append(batch.max_timestamp if batch.max_timestamp > latest else latest)
        if batch.base_offset != self.next_offset:
            self._hide(self.next_offset, batch.base_offset - self.next_offset)
        if batch.hidden:
            self._hide(batch.base_offset, batch.hidden)
        self.next_offset = batch.next_offset

    def _hide(self, offset: int, count: int) -> None:
        self._hidden_offsets.append(offset)
        self._hidden_totals.append(count + (self._hidden_totals[-1] if self._hidden_totals else 0))

    def read(self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        first, last = self._index_range(offset, limit_offset)
        if last <= first:
            return b""
        start = self._positions[first]
        end = self._end_position(last - 1)
        if end - start > max_bytes:
            last = bisect_right(self._positions, start + max_bytes, first, last) - 1
            if last <= first:
                if not at_least_one:
                    return b""
                last = first + 1
            end = self._end_position(last - 1)
        return self.store.read(start, end - start)

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """Return the number of bytes that `read` would return without a limit of bytes."""
        first, last = self._index_range(offset, limit_offset)
        return self._end_position(last - 1) - self._positions[first] if last > first else 0

    def _index_range(self, offset: int, limit_offset: int) -> tuple[int, int]:
        """Return the indices (first, last + 1) of the batches from `offset` to `limit_offset`."""
        last = len(self._offsets)
        if limit_offset < self.next_offset:
            # The batch that contains the limit, or begins there, is left out.
            last = self.index_of(limit_offset)
        return self.index_of(offset), last

    def index_of(self, offset: int) -> int:
        """Return the index of the batch that contains `offset`; in a gap, of the one after it."""
        index = bisect_right(self._offsets, offset) - 1
        if index < 0:
            return 0
        if self._hidden_offsets:
            last_hidden = bisect_right(self._hidden_offsets, offset) - 1
            if last_hidden >= 0 and self._hidden_offsets[last_hidden] > self._offsets[index]:
                return index + 1
        return index

    def base_offset_at(self, index: int) -> int:
        return self._offsets[index]

    def base_offsets(self, offset: int, size: int) -> array[int]:
        """Return the base offsets of the batches that `read` has returned for `offset`."""
        first = self.index_of(offset)
        return self._offsets[first : bisect_left(self._positions, self._positions[first] + size)]

    def _end_position(self, index: int) -> int:
        return self._positions[index + 1] if index + 1 < len(self._positions) else self.store.size

    def offset_after(self, offset: int, size: int) -> int:
        """Return the offset after `size` bytes of whole batches, from the one at `offset`."""
        start = self._positions[self.index_of(offset)]
        index = bisect_left(self._positions, start + size)
        return self._offsets[index] if index < len(self._offsets) else self.next_offset

    def hidden_between(self, offset: int, limit_offset: int) -> int:
        """Return the number of hidden offsets; neither bound may be inside a batch or gap."""
        return self._hidden_before(limit_offset) - self._hidden_before(offset)

    def _hidden_before(self, offset: int) -> int:
        index = bisect_left(self._hidden_offsets, offset) - 1
        return self._hidden_totals[index] if index >= 0 else 0

    def batch_start(self, offset: int) -> int:
        """Return the base offset of the batch that contains `offset`.

        In a gap it is that of the batch after it, at the end `next_offset`.
        """
        if offset >= self.next_offset:
            return self.next_offset
        return self._offsets[self.index_of(offset)]

    def truncate_to(self, base_offset: int) -> None:
        """Remove the batch at `base_offset` and all later ones, and a gap before it."""
        index = bisect_left(self._offsets, base_offset)
        if index == len(self._offsets):
            return
        self.store.truncate(self._positions[index])
        self.next_offset = self._end_offset(index - 1)
        del self._offsets[index:], self._positions[index:], self._latest[index:]
        hidden = bisect_left(self._hidden_offsets, self.next_offset)
        del self._hidden_offsets[hidden:], self._hidden_totals[hidden:]
        self.aborted.truncate_to(self.next_offset)

    def _end_offset(self, index: int) -> int:
        """Return the offset after a batch that is not the last; the first offset for -1."""
        start = self._offsets[index] if index >= 0 else self.base_offset - 1
        hidden = bisect_right(self._hidden_offsets, start)
        following = self._offsets[index + 1]
        if hidden < len(self._hidden_offsets):
            return min(self._hidden_offsets[hidden], following)
        return following

    def first_index_at_or_after(self, timestamp_ms: int, offset: int) -> int:
        """Return the first batch to search; only the one with `offset` may have no such record."""
        return max(bisect_left(self._latest, timestamp_ms), self.index_of(offset))

    def header(self, index: int) -> BatchHeader:
        return read_header(self.store.read(self._positions[index], HEADER_BYTES))

    def batch(self, index: int) -> bytes:
        position = self._positions[index]
        return self.store.read(position, self._end_position(index) - position)

    def delete(self) -> None:
        self.store.delete()
        self._offsets = array("q")
        self._positions = array("I")
        self._latest = array("q")
        self._hidden_offsets = array("q")
        self._hidden_totals = array("q")
        self.aborted = AbortedTransactions()

    def check(self) -> None:
        position, latest = 0, UNSET
        offset = self.base_offset
        hidden: list[tuple[int, int]] = []
        total = 0
        for index, entry in enumerate(
            zip(self._offsets, self._positions, self._latest, strict=True)
        ):
            header = self.header(index)
            latest = max(latest, header.max_timestamp)
            expected = (header.base_offset, position, latest)
            assert entry == expected, (entry, expected, header)
            assert header.base_offset >= offset, (header, offset)
            for at, count in (
                (offset, header.base_offset - offset),
                (header.base_offset, header.hidden_offsets),
            ):
                total += count
                if count:
                    hidden.append((at, total))
            offset, position = header.next_offset, position + header.size
        end = (self.next_offset, self.store.size)
        assert end == (offset, position), (end, offset, position)
        known = list(zip(self._hidden_offsets, self._hidden_totals, strict=True))
        assert known == hidden, (known, hidden)
        self.aborted.check(self.base_offset, self.next_offset)
