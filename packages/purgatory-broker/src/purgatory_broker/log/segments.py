"""The segments of one log."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import islice, pairwise
from operator import attrgetter, is_

from purgatory_broker.log.aborted_transactions import AbortedTransaction
from purgatory_broker.log.batch import UNSET, read_header
from purgatory_broker.log.record import first_at_or_after
from purgatory_broker.log.segment import Segment

_base_offset = attrgetter("base_offset")
_max_timestamp = attrgetter("max_timestamp")


class Segments:
    """Consecutive segments: at least one, and only the last may be empty.

    Each begins at the offset at which the one before ends, also where batches have gaps.

    The last segment is the active one, which batches are appended to.

    A segment is removed from the list only after its file has been deleted. If the deletion fails,
    the next attempt finds the segment again, and no gap is left on the disk. Every method that
    deletes or truncates raises StorageError if that fails.
    """

    __slots__ = ("_new_segment", "_segments", "active")

    def __init__(self, new_segment: Callable[[int], Segment], segments: list[Segment]) -> None:
        """Take over `segments`; `new_segment` creates an empty one for a base offset."""
        self._new_segment = new_segment
        self._segments = segments
        #: The segment that batches are appended to.
        self.active = segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    @property
    def first_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    def at(self, offset: int) -> Segment:
        active = self.active
        if offset >= active.base_offset:
            return active
        return self._segments[bisect_right(self._segments, offset, key=_base_offset) - 1]

    def bytes_between(self, offset: int, limit_offset: int) -> int:
        if offset >= self.active.base_offset:  # The usual case.
            return self.active.bytes_between(offset, limit_offset)
        first = max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)
        return sum(
            segment.bytes_between(offset, limit_offset) for segment in self._segments[first:]
        )

    def aborted_transactions(self, offset: int, limit_offset: int) -> list[AbortedTransaction]:
        found: list[AbortedTransaction] = []
        first = max(bisect_right(self._segments, offset, key=_base_offset) - 1, 0)
        for segment in islice(self._segments, first, None):
            if segment.aborted and segment.aborted.overlapping(offset, limit_offset, found):
                break
        return found

    def hidden_between(self, offset: int, limit_offset: int) -> int:
        return sum(segment.hidden_between(offset, limit_offset) for segment in self._segments)

    # -- by time

    def first_at_or_after(self, timestamp_ms: int, start_offset: int) -> tuple[int, int] | None:
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms:
                continue
            first = segment.first_index_at_or_after(timestamp_ms, start_offset)
            for index in range(first, len(segment)):
                batch = segment.batch(index)
                record = first_at_or_after(read_header(batch), batch, timestamp_ms, start_offset)
                if record is not None:
                    return record
        return None

    def max_timestamp_offset(self) -> tuple[int, int] | None:
        segment = max(self._segments, key=_max_timestamp)
        latest = segment.max_timestamp
        if latest == UNSET:
            return None
        batch = segment.batch(segment.first_index_at_or_after(latest, segment.base_offset))
        latest_record = first_at_or_after(read_header(batch), batch, latest)
        if latest_record is None:  # Compaction has removed it, and kept its batch.
            return self._max_timestamp_of_records()
        return latest, latest_record[1]

    def _max_timestamp_of_records(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = None
        for segment in self._segments:
            for index in range(len(segment)):
                batch = segment.batch(index)
                header = read_header(batch)
                latest = None
                if header.record_count and (found is None or header.max_timestamp > found[0]):
                    latest = first_at_or_after(header, batch, header.max_timestamp)
                if latest is not None:
                    found = header.max_timestamp, latest[1]
        return found

    # -- growing and shrinking

    def have(self, segments: list[Segment]) -> bool:
        """Return whether these consecutive ones are still there."""
        first = bisect_right(self._segments, segments[0].base_offset, key=_base_offset) - 1
        present = self._segments[max(first, 0) : max(first, 0) + len(segments)]
        return len(present) == len(segments) and all(map(is_, present, segments))

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one closed segment in the place of some, whose files are deleted by the caller."""
        first = self._segments.index(old[0])
        self._segments[first : first + len(old)] = [new]

    def roll(self) -> None:
        self._segments.append(self._new_segment(self.active.next_offset))
        self.active = self._segments[-1]

    def delete_before(self, offset: int) -> int:
        # The oldest first: if the process dies, what is left is the end of the log.
        deleted = 0
        while len(self._segments) > 1 and self._segments[1].base_offset <= offset:
            self._delete(0)
            deleted += 1
        return deleted

    def truncate_to(self, base_offset: int) -> None:
        """Remove the batch at `base_offset`, not the log's first, and all later ones."""
        # The newest first: if the process dies, what is left is the beginning of the log.
        while self.active.base_offset >= base_offset:
            self._delete(-1)
        self.active.truncate_to(base_offset)

    def truncate_fully_and_start_at(self, base_offset: int) -> None:
        """Remove all batches; one empty segment, which begins at `base_offset`, is left."""
        kept = next(
            (segment for segment in self._segments if segment.base_offset == base_offset), None
        )
        if kept is None:
            # This may fail, and so precedes the first deletion.
            kept = self._new_segment(base_offset)
            self._segments.append(kept)
        while self._segments[0] is not kept:
            self._delete(0)
        while self._segments[-1] is not kept:
            self._delete(-1)
        kept.truncate_to(base_offset)
        self.active = kept

    def _delete(self, index: int) -> None:
        self._segments[index].store.delete()
        del self._segments[index]
        self.active = self._segments[-1]

    # -- the disk

    def flush_from(self, offset: int) -> None:
        for segment in reversed(self._segments):
            segment.store.flush()
            if segment.base_offset <= offset:
                break

    def close(self) -> None:
        for segment in self._segments:
            segment.store.close()

    def delete(self) -> None:
        for segment in self._segments:
            segment.delete()

    def check(self) -> None:
        assert self.active is self._segments[-1]
        for segment, following in pairwise(self._segments):
            ends = (segment.next_offset, following.base_offset)
            assert ends[0] == ends[1], ends
            assert segment.size, segment.base_offset
        for segment in self._segments:
            segment.check()
