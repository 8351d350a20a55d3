"""The delay queue: finds the bucket that is due next.

It holds buckets, not tasks, so it stays small.
"""

from __future__ import annotations

from typing import Any

from request_purgatory._native import linked_list
from request_purgatory.timer._bucket import Bucket


class DelayQueue:
    """A binary heap of buckets by expiration, with at most one entry per bucket.

    A timer with a million pending tasks has some tens of buckets here. So inserting a task into the
    wheel is O(1), and the clock still knows exactly how long it may sleep. Not thread-safe: callers
    hold the timer's lock.

    The heap has room for all buckets from the start. So no change allocates memory, and none can
    fail half way with the lock held. (`heapq` works on lists that grow and shrink.)
    """

    __slots__ = ("_heap", "_length")

    def __init__(self, capacity: int = 0) -> None:
        """Make a queue with room for `capacity` buckets; it grows beyond it."""
        self._heap: list[Bucket | None] = [None] * capacity
        self._length = 0

    def push(self, bucket: Bucket, expiration_ms: int) -> None:
        """Add a bucket that is not in the queue, and set when it is due."""
        heap = self._heap
        index = self._length
        if index == len(heap):
            heap.append(None)
        bucket.expiration_ms = expiration_ms
        self._length = index + 1
        while index > 0:
            parent_index = (index - 1) >> 1
            parent: Any = heap[parent_index]
            if parent.expiration_ms <= expiration_ms:
                break
            heap[index] = parent
            index = parent_index
        heap[index] = bucket

    def _pop_first(self) -> None:
        heap = self._heap
        length = self._length - 1
        self._length = length
        last: Any = heap[length]
        heap[length] = None
        if length == 0:
            return
        expiration_ms = last.expiration_ms
        index = 0
        child_index = 1
        while child_index < length:
            child: Any = heap[child_index]
            if child_index + 1 < length:
                sibling: Any = heap[child_index + 1]
                if sibling.expiration_ms < child.expiration_ms:
                    child = sibling
                    child_index += 1
            if expiration_ms <= child.expiration_ms:
                break
            heap[index] = child
            index = child_index
            child_index = 2 * index + 1
        heap[index] = last

    def head(self) -> Bucket | None:
        """Return the next bucket that has tasks, which stays in the queue; None if none has.

        Buckets that cancellations emptied are dropped from the queue here, so no thread wakes for
        them.
        """
        while self._length > 0:
            bucket: Any = self._heap[0]
            if not linked_list.is_empty(bucket):
                return bucket  # type: ignore[no-any-return]
            self._pop_first()
            bucket.expiration_ms = -1
        return None

    def poll(self, now_ms: int) -> Bucket | None:
        """Remove and return the next bucket that has tasks and is due by `now_ms`; None if none is.

        Its `expiration_ms` still says when it was due.
        """
        bucket = self.head()
        if bucket is None or bucket.expiration_ms > now_ms:
            return None
        self._pop_first()
        return bucket
