"""The transactions of a log that are open, or whose end is not yet on all in-sync replicas."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import pairwise

#: The end of a transaction without a marker.
_OPEN = -1


class OpenTransactions:
    """Where the records begin that a read_committed consumer may not read yet.

    A transaction with a marker stays until the high watermark has passed the marker (KAFKA-5121).
    Otherwise a consumer would read records whose marker may still be lost with the leader.

    >>> transactions = OpenTransactions()
    >>> transactions.begin(3); transactions.begin(5)
    >>> transactions.end(3, 8)
    5
    >>> transactions.first_offset
    3
    >>> transactions.replicated(9)
    >>> transactions.first_offset
    5
    """

    __slots__ = ("_ends", "_unreplicated", "first_offset")

    def __init__(self) -> None:
        #: The first unstable offset, that of the oldest transaction; None if there is none.
        self.first_offset: int | None = None
        #: By first offset, ascending: the offset of the marker, or _OPEN.
        self._ends: dict[int, int] = {}
        #: (offset of the marker, first offset) of those with a marker, ascending.
        self._unreplicated: deque[tuple[int, int]] = deque()

    def begin(self, first_offset: int) -> None:
        self._ends[first_offset] = _OPEN
        if self.first_offset is None:
            self.first_offset = first_offset

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Note a transaction's marker; return the offset before which all is decided then."""
        self._ends[first_offset] = marker_offset
        self._unreplicated.append((marker_offset, first_offset))
        undecided = (first for first, end in self._ends.items() if end == _OPEN)
        return next(undecided, marker_offset + 1)

    def replicated(self, high_watermark: int) -> None:
        """Forget the transactions whose markers are below the high watermark."""
        while self._unreplicated and self._unreplicated[0][0] < high_watermark:
            del self._ends[self._unreplicated.popleft()[1]]
        self.first_offset = next(iter(self._ends), None)

    def truncate_to(self, end_offset: int, open_offsets: Iterable[int]) -> None:
        """Take the markers back from `end_offset` on; `open_offsets` are of those left open."""
        kept = [each for each in self._unreplicated if each[0] < end_offset]
        self._unreplicated = deque(kept)
        ends = {first: end for end, first in kept} | dict.fromkeys(open_offsets, _OPEN)
        self._ends = dict(sorted(ends.items()))
        self.first_offset = next(iter(self._ends), None)

    def clear(self) -> None:
        self._ends.clear()
        self._unreplicated.clear()
        self.first_offset = None

    def check(self, open_offsets: Iterable[int]) -> None:
        is_open = [first for first, end in self._ends.items() if end == _OPEN]
        assert is_open == sorted(open_offsets), (is_open, open_offsets)
        assert self.first_offset == min(self._ends, default=None), self._ends
        assert all(a < b for a, b in pairwise(self._ends)), self._ends
        assert all(a < b for a, b in pairwise(self._unreplicated)), self._unreplicated
        with_marker = {first: end for first, end in self._ends.items() if end != _OPEN}
        assert with_marker == {first: end for end, first in self._unreplicated}, self._ends
