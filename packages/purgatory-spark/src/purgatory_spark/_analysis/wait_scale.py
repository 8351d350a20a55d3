"""The scale of waiting times: bins and buckets of equal width on a log scale."""

from __future__ import annotations

import numpy as np

from purgatory_spark._spark.arrays import Ints

#: Bins of a histogram of waits in each factor of ten.
BINS_PER_DECADE = 20
#: Buckets in each of these bins. The waits in a bucket differ by at most 0.24 %.
BUCKETS_PER_BIN = 50
BUCKETS_PER_DECADE = BINS_PER_DECADE * BUCKETS_PER_BIN

#: Shorter waits are in this one's bucket: it is the resolution of traces.
SHORTEST_US = 1


def bucket_number(wait_ms: float) -> int:
    """Return the bucket of a wait, as `wait_buckets.bucket_of` does."""
    return int(np.floor(np.log10(max(wait_ms, SHORTEST_US / 1000)) * BUCKETS_PER_DECADE))


def bucket_numbers(wait_us: Ints) -> Ints:
    """Return the bucket of each wait in microseconds."""
    wait_ms = np.maximum(wait_us, SHORTEST_US) / 1000
    buckets: Ints = np.floor(np.log10(wait_ms) * BUCKETS_PER_DECADE).astype(np.int64)
    return buckets
