"""Histograms that can be added up: log-linear buckets, so that a quantile's relative error is bounded over the whole range.

As in HdrHistogram: below 128 every value has a bucket of its own; from there on each doubling of
the value has 128 buckets of equal width. Where a bucket is depends on nothing but the value, so
histograms of parts add up to that of the whole, in any order.
"""

from __future__ import annotations

import math

import numpy as np

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.pipeline.outcomes.condition import Ints

_BITS = 7
#: Buckets to a doubling of the value.
BUCKETS_PER_DOUBLING = 2**_BITS
#: How far, relative to itself, a quantile may be off: half a bucket's width.
RELATIVE_ERROR = 0.5 / BUCKETS_PER_DOUBLING
#: Doubles tell whole numbers apart up to here.
_TOO_LARGE = 2**52


def bucket_of(values: Ints) -> Ints:
    """The bucket of each value: whole numbers from 0 to below 2**52."""
    # The exponent of v | 1 is how many binary digits v has, and 1 for 0.
    digits = np.frexp((values | 1).astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(digits - 1 - _BITS, 0)
    buckets: Ints = (shift << _BITS) + (values >> shift)
    return buckets


def bounds_of(buckets: Ints) -> tuple[Ints, Ints]:
    """The least value of each bucket, and the least of the next one."""
    shift = np.maximum((buckets >> _BITS) - 1, 0)
    first = (buckets - (shift << _BITS)) << shift
    return first, first + (np.int64(1) << shift)


class Histogram:
    """How many values fell into each bucket. Values are whole numbers, from 0 to below 2**52."""

    def __init__(self) -> None:
        """An empty one."""
        self._counts: Ints = np.zeros(0, dtype=np.int64)

    @property
    def total(self) -> int:
        """How many values there are."""
        return int(self._counts.sum())

    def add(self, values: Ints) -> None:
        """Count values.

        Raises:
            InvalidArgumentError: one is negative or too large.
        """
        if not len(values):
            return
        for value in (int(values.min()), int(values.max())):
            if not 0 <= value < _TOO_LARGE:
                raise InvalidArgumentError("value", f"from 0 to below {_TOO_LARGE}", value)
        self._add(np.bincount(bucket_of(values)).astype(np.int64))

    def add_counts(self, buckets: Ints, counts: Ints) -> None:
        """Add what another one's `counts` gave."""
        if len(buckets):
            added = np.zeros(int(buckets.max()) + 1, dtype=np.int64)
            np.add.at(added, buckets, counts)
            self._add(added)

    def merge(self, other: Histogram) -> None:
        """Add what another one counted."""
        self._add(other._counts)

    def _add(self, counts: Ints) -> None:
        longer, shorter = (
            (self._counts.copy(), counts)
            if len(self._counts) > len(counts)
            else (counts.copy(), self._counts)
        )
        longer[: len(shorter)] += shorter
        self._counts = longer

    def counts(self) -> tuple[Ints, Ints]:
        """The buckets that are not empty, in order, and how many values each has."""
        buckets = np.flatnonzero(self._counts)
        return buckets, self._counts[buckets]

    def quantile(self, share: float) -> float | None:
        """The least value that at least this share of the values is not above, `RELATIVE_ERROR` off at most; None if empty."""
        if not 0 <= share <= 1:
            raise InvalidArgumentError("share", "from 0 to 1", share)
        total = self.total
        if not total:
            return None
        rank = max(1, math.ceil(share * total))
        bucket = np.searchsorted(np.cumsum(self._counts), rank)
        first, after = bounds_of(np.array([bucket], dtype=np.int64))
        return float(first[0] + after[0] - 1) / 2
