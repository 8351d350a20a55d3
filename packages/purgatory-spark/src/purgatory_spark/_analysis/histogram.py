"""Log-linear histograms that can be merged, with a bounded relative error over the whole range.

The bucket layout is HdrHistogram's (http://hdrhistogram.org): each value below 128 has a bucket of
its own; above, each doubling of the value has 128 buckets of equal width. A value's bucket depends
on the value alone, so the histograms of parts add up to the histogram of the whole, in any order.
"""

from __future__ import annotations

import math

import numpy as np

from purgatory_spark._spark.arrays import Ints
from request_purgatory.errors import InvalidArgumentError

_BITS = 7
#: Buckets in each doubling of the value.
BUCKETS_PER_DOUBLING = 2**_BITS
#: The largest relative error of a quantile: half a bucket's width.
RELATIVE_ERROR = 0.5 / BUCKETS_PER_DOUBLING
#: First value out of range. A double has 53 bits for whole numbers, and `bucket_of` uses doubles.
_LIMIT = 2**52


def bucket_of(values: Ints) -> Ints:
    """Return the bucket index of each value, a whole number from 0 to 2**52 - 1."""
    # The exponent of v | 1 is the number of binary digits of v, and 1 for 0.
    digits = np.frexp((values | 1).astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(digits - 1 - _BITS, 0)
    return (shift << _BITS) + (values >> shift)


def bounds_of(buckets: Ints) -> tuple[Ints, Ints]:
    shift = np.maximum((buckets >> _BITS) - 1, 0)
    first = (buckets - (shift << _BITS)) << shift
    return first, first + (np.int64(1) << shift)


def added(one: Ints, other: Ints) -> Ints:
    """Return the sums of two arrays, whose lengths may differ."""
    total: Ints = np.zeros(max(len(one), len(other)), dtype=np.int64)
    total[: len(one)] += one
    total[: len(other)] += other
    return total


class Histogram:
    """Counts of values by bucket. Values are whole numbers from 0 to 2**52 - 1.

    Attributes:
        counts: The number of values in each bucket, up to the last one that has any.
    """

    def __init__(self) -> None:
        self.counts: Ints = np.zeros(0, dtype=np.int64)

    @property
    def total(self) -> int:
        return int(self.counts.sum())

    def add(self, values: Ints) -> None:
        if not len(values):
            return
        for value in (int(values.min()), int(values.max())):
            if not 0 <= value < _LIMIT:
                raise InvalidArgumentError("value", f"from 0 to below {_LIMIT}", value)
        self._add(np.bincount(bucket_of(values)).astype(np.int64))

    def add_counts(self, buckets: Ints, counts: Ints) -> None:
        if len(buckets):
            total = np.zeros(int(buckets.max()) + 1, dtype=np.int64)
            np.add.at(total, buckets, counts)
            self._add(total)

    def merge(self, other: Histogram) -> None:
        self._add(other.counts)

    def _add(self, counts: Ints) -> None:
        self.counts = added(self.counts, counts)

    def quantile(self, share: float) -> float | None:
        """Return a quantile with a relative error up to `RELATIVE_ERROR`; None without values."""
        if not 0 <= share <= 1:
            raise InvalidArgumentError("share", "from 0 to 1", share)
        total = self.total
        if not total:
            return None
        rank = max(1, math.ceil(share * total))
        bucket = np.searchsorted(np.cumsum(self.counts), rank)
        first, after = bounds_of(np.array([bucket], dtype=np.int64))
        return float(first[0] + after[0] - 1) / 2
