"""The aborted transactions of a segment: Kafka's transaction index, without the file."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    #: The offset of the marker.
    last_offset: int
    #: The offset before which everything was decided after the marker.
    last_stable_offset: int


class AbortedTransactions:
    """The transactions whose abort markers are in a segment, in the order of their markers.

    Their records may be in earlier segments.
    """

    __slots__ = ("_first_offsets", "_last_offsets", "_producer_ids", "_stable_offsets")

    def __init__(self) -> None:
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._stable_offsets = array("q")

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __getitem__(self, index: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[index],
            self._first_offsets[index],
            self._last_offsets[index],
            self._stable_offsets[index],
        )

    def __iter__(self) -> Iterator[AbortedTransaction]:
        return (self[index] for index in range(len(self)))

    def add(self, transaction: AbortedTransaction) -> None:
        self._producer_ids.append(transaction.producer_id)
        self._first_offsets.append(transaction.first_offset)
        self._last_offsets.append(transaction.last_offset)
        self._stable_offsets.append(transaction.last_stable_offset)

    def overlapping(self, offset: int, limit_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add those with records from `offset` to `limit_offset` to `found`.

        Returns True if no later segment has any more. Example: a transaction from 3 to 8 is
        aborted while one from 5 on is open: everything before 5 is decided. So a transaction that
        is aborted later begins at 5 or after, and a search up to 5 ends here.
        """
        for index in range(bisect_left(self._last_offsets, offset), len(self)):
            if self._first_offsets[index] < limit_offset:
                found.append(self[index])
            if self._stable_offsets[index] >= limit_offset:
                return True
        return False

    def truncate_to(self, end_offset: int) -> None:
        keep = bisect_left(self._last_offsets, end_offset)
        for column in self._columns():
            del column[keep:]

    def _columns(self) -> tuple[array[int], ...]:
        return self._producer_ids, self._first_offsets, self._last_offsets, self._stable_offsets

    def check(self, base_offset: int, next_offset: int) -> None:
        for column in (self._last_offsets, self._stable_offsets):
            assert all(a <= b for a, b in pairwise(column)), list(column)
        for each in self:
            assert base_offset <= each.last_offset < next_offset, each
            assert each.first_offset < each.last_offset, each
