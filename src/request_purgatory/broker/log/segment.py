"""A segment: a run of a log's batches."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from request_purgatory.broker.log.batch import HEADER_BYTES, UNSET, BatchHeader, read_header
from request_purgatory.broker.log.store import Store


class Placed(NamedTuple):
    """A batch and where it goes."""

    base_offset: int
    next_offset: int
    size: int
    max_timestamp: int


class Segment:
    """Batches one behind the other, without a gap, and where each of them is.

    The index has 20 bytes for each batch, so that a read is two bisections and one slice, and so is
    a look-up by time: its column of timestamps holds the latest up to and including each batch, and
    so is sorted.
    """

    __slots__ = ("_latest", "_offsets", "_positions", "base_offset", "next_offset", "store")

    def __init__(self, base_offset: int, store: Store) -> None:
        """Empty; what is in the store already is indexed by `index`."""
        self.base_offset = base_offset
        self.store = store
        #: Where the next batch goes.
        self.next_offset = base_offset
        self._offsets = array("q")
        self._positions = array("I")
        self._latest = array("q")

    def __len__(self) -> int:
        """How many batches it has."""
        return len(self._offsets)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.store.size

    @property
    def max_timestamp(self) -> int:
        """The latest timestamp of its batches; UNSET if they have none."""
        return self._latest[-1] if self._latest else UNSET

    def append(self, data: bytes | bytearray, batches: list[Placed]) -> None:
        """Add batches that follow the last.

        Raises RecordError, KAFKA_STORAGE_ERROR, and is as it was.
        """
        position = self.store.size
        self.store.append(data)
        for batch in batches:
            self.index(batch, position)
            position += batch.size

    def index(self, batch: Placed, position: int) -> None:
        """Note a batch that is in the store at `position`."""
        latest = self._latest[-1] if self._latest else UNSET
        self._offsets.append(batch.base_offset)
        self._positions.append(position)
        self._latest.append(batch.max_timestamp if batch.max_timestamp > latest else latest)
        self.next_offset = batch.next_offset

    def read(self, offset: int, max_bytes: int, limit_offset: int, at_least_one: bool) -> bytes:
        """Whole batches from the one with `offset` on, which must be here.

        None that goes beyond `limit_offset`.
        """
        first, last = self._span(offset, limit_offset)
        if last <= first:
            return b""
        start = self._positions[first]
        end = self._end(last - 1)
        if end - start > max_bytes:
            last = bisect_right(self._positions, start + max_bytes, first, last) - 1
            if last <= first:
                if not at_least_one:
                    return b""
                last = first + 1
            end = self._end(last - 1)
        return self.store.read(start, end - start)

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """What `read` would return without a limit of bytes, in bytes."""
        first, last = self._span(offset, limit_offset)
        return self._end(last - 1) - self._positions[first] if last > first else 0

    def _span(self, offset: int, limit_offset: int) -> tuple[int, int]:
        """The batches from that with `offset` to the last that ends at `limit_offset` or before, as a range of indices."""
        offsets = self._offsets
        last = len(offsets)
        if limit_offset < self.next_offset:
            last = (
                bisect_right(offsets, limit_offset) - 1
            )  # A batch begins there, which the limit is in or before.
        return max(bisect_right(offsets, offset) - 1, 0), last

    def _end(self, index: int) -> int:
        return self._positions[index + 1] if index + 1 < len(self._positions) else self.store.size

    def base_of(self, offset: int) -> int:
        """Where the batch begins that `offset` is in, or the next batch would."""
        if offset >= self.next_offset:
            return self.next_offset
        return self._offsets[bisect_right(self._offsets, offset) - 1]

    def truncate(self, base_offset: int) -> None:
        """Cut off the batch that begins at `base_offset` and all behind it.

        Raises RecordError, KAFKA_STORAGE_ERROR.
        """
        index = bisect_left(self._offsets, base_offset)
        if index == len(self._offsets):
            return
        self.store.truncate(self._positions[index])
        self.next_offset = self._offsets[index]
        del self._offsets[index:], self._positions[index:], self._latest[index:]

    def first_dated(self, timestamp_ms: int, offset: int) -> int:
        """The index of the first batch that may have a record at or after a time, and none before that with `offset`.

        It has one for sure if the result is not that of `offset` itself.
        """
        return max(
            bisect_left(self._latest, timestamp_ms), bisect_right(self._offsets, offset) - 1, 0
        )

    def header(self, index: int) -> BatchHeader:
        """The header of the batch at an index."""
        return read_header(self.store.read(self._positions[index], HEADER_BYTES))

    def batch(self, index: int) -> bytes:
        """The batch at an index."""
        position = self._positions[index]
        return self.store.read(position, self._end(index) - position)

    def headers_backwards(self) -> Iterator[BatchHeader]:
        """All headers, the last first."""
        for index in range(len(self._offsets) - 1, -1, -1):
            yield self.header(index)

    def check(self) -> None:
        """Assert that the index says what the bytes say."""
        assert len(self._offsets) == len(self._positions) == len(self._latest)
        offset, position, latest = self.base_offset, 0, UNSET
        for index in range(len(self._offsets)):
            header = self.header(index)
            latest = max(latest, header.max_timestamp)
            assert (self._offsets[index], self._positions[index], self._latest[index]) == (
                offset,
                position,
                latest,
            ), header
            assert header.base_offset == offset, (header, offset)
            offset, position = header.next_offset, position + header.size
        assert (self.next_offset, self.store.size) == (offset, position), (
            self.next_offset,
            offset,
            self.store.size,
            position,
        )
