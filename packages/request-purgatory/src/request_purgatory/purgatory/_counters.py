"""The counters of a purgatory."""

from __future__ import annotations

from request_purgatory._native import primitives, states
from request_purgatory.purgatory._metric_table import PurgatoryMetrics

#: Buckets of the waiting-time histogram: bucket i counts waits from 2**(i-1) up to but not
#: including 2**i ms, the last bucket all longer ones.
WAIT_BUCKETS = 32


class PurgatoryCounters:
    """The counters of one purgatory. Thread-safe: each change is made under one lock.

    Attributes:
        estimate: The estimated number of operations in the watcher lists, ended or not.
        since_purge: The operations that entered since the last purge.
    """

    __slots__ = (
        "_waits",
        "callback_errors",
        "cancelled",
        "completed",
        "entered",
        "estimate",
        "expired",
        "lock",
        "max_callback_ms",
        "max_late_ms",
        "purged",
        "purges",
        "since_purge",
        "total_wait_ms",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock = primitives.CoreLock()
        self._waits = primitives.zeros(WAIT_BUCKETS)
        self.entered = 0
        self.completed = 0
        self.expired = 0
        self.cancelled = 0
        self.estimate = 0
        self.since_purge = 0
        self.total_wait_ms = 0
        self.purges = 0
        self.purged = 0
        self.callback_errors = 0
        self.max_late_ms = 0
        self.max_callback_ms = 0

    @property
    def pending(self) -> int:
        self.lock.acquire()
        pending = self.pending_unlocked()
        self.lock.release()
        return pending

    @property
    def unpurged(self) -> int:
        """About how many ended operations are still in the watcher lists: estimate - pending."""
        self.lock.acquire()
        unpurged = self.estimate - self.pending_unlocked()
        self.lock.release()
        return unpurged

    def pending_unlocked(self) -> int:
        """Return `pending`; the caller holds the lock, or is the only thread."""
        return self.entered - self.completed - self.expired - self.cancelled

    def count_entered(self) -> int:
        """Count an operation that is about to be watched, and return `unpurged`."""
        self.lock.acquire()
        self.entered += 1
        self.estimate += 1
        self.since_purge += 1
        unpurged = self.estimate - self.pending_unlocked()
        self.lock.release()
        return unpurged

    def count_ended(self, state: int, waited_ms: int) -> int:
        """Count the end of an operation that entered, and return `unpurged`."""
        bucket = primitives.bit_length(waited_ms)
        if bucket >= 32:  # WAIT_BUCKETS: a constant for the compiler, too
            bucket = 31
        self.lock.acquire()
        primitives.count_at(self._waits, bucket)
        self.total_wait_ms += waited_ms
        self._count_end(state)
        unpurged = self.estimate - self.pending_unlocked()
        self.lock.release()
        return unpurged

    def count_ended_at_once(self, state: int) -> None:
        """Count an operation that ended before it was watched, in one of `states`."""
        self.lock.acquire()
        self.entered += 1
        primitives.count_at(self._waits, 0)
        self._count_end(state)
        self.lock.release()

    def _count_end(self, state: int) -> None:
        if state == states.COMPLETED:
            self.completed += 1
        elif state == states.EXPIRED:
            self.expired += 1
        else:
            self.cancelled += 1

    def begin_purge(self) -> None:
        """Set the estimate to `pending`: the purge is about to remove the ended operations."""
        self.lock.acquire()
        self.estimate = self.pending_unlocked()
        self.since_purge = 0
        self.lock.release()

    def end_purge(self, dropped: int) -> None:
        self.lock.acquire()
        self.purges += 1
        self.purged += dropped
        self.lock.release()

    def count_callback_error(self) -> None:
        self.lock.acquire()
        self.callback_errors += 1
        self.lock.release()

    def record_callback_times(self, late_ms: int, took_ms: int) -> None:
        self.lock.acquire()
        if late_ms > self.max_late_ms:
            self.max_late_ms = late_ms
        if took_ms > self.max_callback_ms:
            self.max_callback_ms = took_ms
        self.lock.release()

    def snapshot(self, purgatory_size: int) -> PurgatoryMetrics:
        waits = [0] * WAIT_BUCKETS
        self.lock.acquire()
        for bucket in range(WAIT_BUCKETS):
            waits[bucket] = primitives.number_at(self._waits, bucket)
        pending = self.pending_unlocked()
        estimate = self.estimate
        total_wait_ms = self.total_wait_ms
        completed, expired, cancelled = self.completed, self.expired, self.cancelled
        purges, purged, callback_errors = self.purges, self.purged, self.callback_errors
        max_late_ms, max_callback_ms = self.max_late_ms, self.max_callback_ms
        self.lock.release()
        return PurgatoryMetrics(
            purgatory_size=purgatory_size,
            num_delayed_operations=pending,
            estimated_operations=estimate,
            completions=completed,
            expirations=expired,
            cancellations=cancelled,
            purges=purges,
            purged_entries=purged,
            callback_errors=callback_errors,
            max_late_ms=max_late_ms,
            max_callback_ms=max_callback_ms,
            wait_histogram_ms=tuple(waits),
            total_wait_ms=total_wait_ms,
        )
