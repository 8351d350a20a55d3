"""The delay queue: which bucket comes due next. It holds buckets, never tasks, so it stays small."""

from __future__ import annotations

import heapq

from request_purgatory.timer.bucket import Bucket


class DelayQueue:
    """A heap of the buckets that have an expiration, at most one entry a bucket.

    A timer with a million pending tasks has some tens of buckets here: that is what makes the wheel's insertion O(1)
    although the clock still knows exactly how long it may sleep. Not safe by itself: callers hold the timer's lock.
    """

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[Bucket] = []

    def __len__(self) -> int:
        return len(self._heap)

    def push(self, bucket: Bucket, expiration_ms: int) -> None:
        """Enter a bucket that is not in the queue."""
        bucket.expiration_ms = expiration_ms
        heapq.heappush(self._heap, bucket)

    def head(self) -> Bucket | None:
        """The next bucket that has tasks. Those that cancelling emptied are dropped here, so nobody wakes for them."""
        heap = self._heap
        while heap:
            bucket = heap[0]
            if bucket.head is not None:
                return bucket
            heapq.heappop(heap)
            bucket.expiration_ms = -1
        return None

    def poll(self, now_ms: int) -> Bucket | None:
        """Take the next non-empty bucket out if it is due at `now_ms`; its `expiration_ms` is left for the caller."""
        bucket = self.head()
        if bucket is None or bucket.expiration_ms > now_ms:
            return None
        heapq.heappop(self._heap)
        return bucket

    def check(self) -> None:
        """Assert the heap's order and that no bucket is in it twice."""
        heap = self._heap
        assert len({id(bucket) for bucket in heap}) == len(heap), "a bucket is in the delay queue twice"
        for index, bucket in enumerate(heap):
            assert bucket.expiration_ms >= 0, "a bucket without an expiration is in the delay queue"
            parent = heap[(index - 1) // 2] if index else bucket
            assert parent.expiration_ms <= bucket.expiration_ms, "the delay queue is out of order"
