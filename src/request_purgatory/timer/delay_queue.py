"""The delay queue: which bucket comes due next.

It holds buckets, never tasks, so it stays small.
"""

from __future__ import annotations

from typing import Any

from request_purgatory.timer.bucket import Bucket


class DelayQueue:
    """A heap of the buckets that have an expiration, at most one entry a bucket.

    A timer with a million pending tasks has some tens of buckets here: that is what makes the
    wheel's insertion O(1) although the clock still knows exactly how long it may sleep. Not safe by
    itself: callers hold the timer's lock.

    With room for all buckets from the beginning no change needs memory, so none can fail half way
    and leave the lock held. (`heapq` works on lists that grow and shrink.)
    """

    __slots__ = ("_heap", "_length")

    def __init__(self, capacity: int = 0) -> None:
        """An empty queue with room for so many buckets; more make it grow."""
        self._heap: list[Bucket | None] = [None] * capacity
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, bucket: Bucket, expiration_ms: int) -> None:
        """Enter a bucket that is not in the queue."""
        heap = self._heap
        place = self._length
        if place == len(heap):
            heap.append(None)
        bucket.expiration_ms = expiration_ms
        self._length = place + 1
        while place > 0:
            above = (place - 1) >> 1
            parent: Any = heap[above]
            if parent.expiration_ms <= expiration_ms:
                break
            heap[place] = parent
            place = above
        heap[place] = bucket

    def _drop_first(self) -> None:
        heap = self._heap
        length = self._length - 1
        self._length = length
        last: Any = heap[length]
        heap[length] = None
        if length == 0:
            return
        expiration_ms = last.expiration_ms
        place = 0
        below = 1
        while below < length:
            child: Any = heap[below]
            if below + 1 < length:
                other: Any = heap[below + 1]
                if other.expiration_ms < child.expiration_ms:
                    child = other
                    below += 1
            if expiration_ms <= child.expiration_ms:
                break
            heap[place] = child
            place = below
            below = 2 * place + 1
        heap[place] = last

    def head(self) -> Bucket | None:
        """The next bucket that has tasks.

        Those that cancelling emptied are dropped here, so nobody wakes for them.
        """
        while self._length > 0:
            bucket: Any = self._heap[0]
            if bucket.head is not None:
                return bucket  # type: ignore[no-any-return]
            self._drop_first()
            bucket.expiration_ms = -1
        return None

    def poll(self, now_ms: int) -> Bucket | None:
        """Take the next non-empty bucket out if it is due at `now_ms`.

        Its `expiration_ms` is left for the caller.
        """
        bucket = self.head()
        if bucket is None or bucket.expiration_ms > now_ms:
            return None
        self._drop_first()
        return bucket

    def check(self) -> None:
        """Assert the heap's order and that no bucket is in it twice."""
        heap = [bucket for bucket in self._heap[: self._length] if bucket is not None]
        assert len(heap) == self._length, "a place in the delay queue has no bucket"
        assert len({id(bucket) for bucket in heap}) == len(heap), (
            "a bucket is in the delay queue twice"
        )
        for index, bucket in enumerate(heap):
            assert bucket.expiration_ms >= 0, "a bucket without an expiration is in the delay queue"
            parent = heap[(index - 1) // 2] if index else bucket
            assert parent.expiration_ms <= bucket.expiration_ms, "the delay queue is out of order"
