"""A segment: consecutive batches of a log, with an index."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from purgatory_broker.log.aborted_transactions import AbortedTransactions
from purgatory_broker.log.batch import CONTROL, HEADER_BYTES, UNSET, BatchHeader, read_header
from purgatory_broker.log.store import Store


def segment_name(base_offset: int) -> str:
    return f"{base_offset:020d}.log"


class BatchEntry(NamedTuple):
    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int
    is_control: bool = False

    @classmethod
    def of(cls, header: BatchHeader) -> BatchEntry:
        return cls(
            header.base_offset,
            header.next_offset,
            header.size,
            header.max_timestamp,
            header.attributes & CONTROL != 0,
        )


class Segment:
    """Consecutive batches without gaps, and an index of their positions.

    The index takes 20 bytes a batch. A read is two bisections and one slice. So is a look-up by
    time: the index holds the latest timestamp up to and including each batch, which never
    decreases. Of control batches and aborted transactions, both rare, it has lists.
    """

    __slots__ = (
        "_control_offsets",
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
        self._control_offsets = array("q")
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
        self.next_offset = batch.next_offset
        if batch.is_control:
            self._control_offsets.append(batch.base_offset)

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
        offsets = self._offsets
        last = len(offsets)
        if limit_offset < self.next_offset:
            # The batch that contains the limit, or begins there, is left out.
            last = bisect_right(offsets, limit_offset) - 1
        return max(bisect_right(offsets, offset) - 1, 0), last

    def _end_position(self, index: int) -> int:
        return self._positions[index + 1] if index + 1 < len(self._positions) else self.store.size

    def offset_after(self, offset: int, size: int) -> int:
        """Return the offset after `size` bytes of whole batches, from the one at `offset`."""
        start = self._positions[bisect_right(self._offsets, offset) - 1]
        index = bisect_left(self._positions, start + size)
        return self._offsets[index] if index < len(self._offsets) else self.next_offset

    def controls_between(self, offset: int, limit_offset: int) -> int:
        """Return the number of control batches, of one record each."""
        controls = self._control_offsets
        return bisect_left(controls, limit_offset) - bisect_left(controls, offset)

    def batch_start(self, offset: int) -> int:
        """Return the base offset of the batch that contains `offset`; at the end `next_offset`."""
        if offset >= self.next_offset:
            return self.next_offset
        return self._offsets[bisect_right(self._offsets, offset) - 1]

    def truncate_to(self, base_offset: int) -> None:
        index = bisect_left(self._offsets, base_offset)
        if index == len(self._offsets):
            return
        self.store.truncate(self._positions[index])
        self.next_offset = self._offsets[index]
        del self._offsets[index:], self._positions[index:], self._latest[index:]
        del self._control_offsets[bisect_left(self._control_offsets, base_offset) :]
        self.aborted.truncate_to(base_offset)

    def first_index_at_or_after(self, timestamp_ms: int, offset: int) -> int:
        """Return the first batch to search; only the one with `offset` may have no such record."""
        return max(
            bisect_left(self._latest, timestamp_ms), bisect_right(self._offsets, offset) - 1, 0
        )

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
        self._control_offsets = array("q")
        self.aborted = AbortedTransactions()

    def check(self) -> None:
        offset, position, latest = self.base_offset, 0, UNSET
        controls = []
        for index, entry in enumerate(
            zip(self._offsets, self._positions, self._latest, strict=True)
        ):
            header = self.header(index)
            latest = max(latest, header.max_timestamp)
            assert entry == (offset, position, latest), (entry, offset, position, latest, header)
            assert header.base_offset == offset, (header, offset)
            offset, position = header.next_offset, position + header.size
            if header.is_control:
                controls.append(header.base_offset)
        end = (self.next_offset, self.store.size)
        assert end == (offset, position), (end, offset, position)
        assert list(self._control_offsets) == controls, (self._control_offsets, controls)
        self.aborted.check(self.base_offset, self.next_offset)
