"""The segments of one log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import pairwise
from operator import attrgetter

from request_purgatory.broker.log.batch import UNSET, read_header
from request_purgatory.broker.log.record import first_at_or_after
from request_purgatory.broker.log.segment import Segment

_base_offset = attrgetter("base_offset")
_max_timestamp = attrgetter("max_timestamp")


class Segments:
    """Segments one behind the other, without a gap; at least one, and only the last, which is active, may be empty.

    A segment leaves only after its file has: one that the system does not let go of is found again
    by the next attempt, and no gap is left on the disk. What raises does so with RecordError,
    KAFKA_STORAGE_ERROR.
    """

    __slots__ = ("_make", "_segments", "active")

    def __init__(self, make: Callable[[int], Segment], segments: list[Segment]) -> None:
        """`make` makes an empty one for a base offset."""
        self._make = make
        self._segments = segments
        #: The one that takes what is appended.
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first_offset(self) -> int:
        """Where the first one begins."""
        return self._segments[0].base_offset

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(segment.size for segment in self._segments)

    def at(self, offset: int) -> Segment:
        """The one with `offset`, which must not be before the first."""
        active = self.active
        if offset >= active.base_offset:
            return active
        return self._segments[bisect_right(self._segments, offset, key=_base_offset) - 1]

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        """Bytes of the whole batches from the one with `offset` to `limit_offset`."""
        first = max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)
        return sum(
            segment.bytes_between(offset, limit_offset) for segment in self._segments[first:]
        )

    # -- by time

    def first_at_or_after(self, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        """(timestamp, offset) of the first record that is not older than `timestamp_ms`, nor below `start_offset`."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms:
                continue
            for index in range(segment.first_dated(timestamp_ms, start_offset), len(segment)):
                batch = segment.batch(index)
                found = first_at_or_after(read_header(batch), batch, timestamp_ms, start_offset)
                if found is not None:
                    return found
        return None

    def latest(self) -> tuple[int, int] | None:
        """(timestamp, offset) of the first of the records with the latest timestamp.

        None if no record has one.
        """
        segment = max(self._segments, key=_max_timestamp)
        latest = segment.max_timestamp
        if latest == UNSET:
            return None
        batch = segment.batch(segment.first_dated(latest, segment.base_offset))
        found = first_at_or_after(read_header(batch), batch, latest)
        return None if found is None else (latest, found[1])

    # -- growing and shrinking

    def roll(self) -> None:
        """Begin a new segment behind the active one, which must not be empty."""
        self._segments.append(self._make(self.active.next_offset))
        self.active = self._segments[-1]

    def drop_before(self, offset: int) -> int:
        """Delete the segments that end at `offset` or before, but not the active one; how many."""
        # The oldest first: whatever is left when the process dies is the end of the log.
        dropped = 0
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            self._drop(0)
            dropped += 1
        return dropped

    def cut(self, base_offset: int) -> None:
        """Cut off the batch that begins at `base_offset`, which is not the log's first, and all behind it."""
        # The newest first: whatever is left when the process dies is the beginning of the log.
        while self.active.base_offset >= base_offset:
            self._drop(-1)
        self.active.truncate(base_offset)

    def restart(self, base_offset: int) -> None:
        """Drop all, and begin with an empty one at `base_offset`."""
        kept = next(
            (segment for segment in self._segments if segment.base_offset == base_offset), None
        )
        if kept is None:
            # Before any is dropped: it may fail.
            kept = self._make(base_offset)
            self._segments.append(kept)
        while self._segments[0] is not kept:
            self._drop(0)
        while self._segments[-1] is not kept:
            self._drop(-1)
        kept.truncate(base_offset)
        self.active = kept

    def _drop(self, index: int) -> None:
        self._segments[index].store.delete()
        del self._segments[index]
        self.active = self._segments[-1]

    # -- the disk

    def flush_from(self, offset: int) -> None:
        """Force to the disk what was appended at `offset` or later."""
        for segment in reversed(self._segments):
            segment.store.flush()
            if segment.base_offset <= offset:
                break

    def close(self) -> None:
        """Close their files."""
        for segment in self._segments:
            segment.store.close()

    def delete(self) -> None:
        """Delete their files."""
        for segment in self._segments:
            segment.store.delete()

    def check(self) -> None:
        """Assert every invariant; reads all headers."""
        assert self.active is self._segments[-1]
        for segment, following in pairwise(self._segments):
            assert segment.next_offset == following.base_offset, (
                segment.next_offset,
                following.base_offset,
            )
            assert segment.size, segment.base_offset
        for segment in self._segments:
            segment.check()
