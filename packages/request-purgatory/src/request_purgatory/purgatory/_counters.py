"""The counters of a purgatory."""

from __future__ import annotations

from request_purgatory._native import primitives, states
from request_purgatory.purgatory._metric_table import PurgatoryMetrics

#: Buckets of the waiting-time histogram, which `_metric_table.bucket_start_ms` describes. The last
#: one has all longer waits: those from 24 days on.
WAIT_BUCKETS = 1664


class _Stripe:
    """What some threads have counted. Compiled, a C structure.

    Attributes:
        others: The `unpurged` of the other stripes, as last looked at.
        unpurged: The operations that ended since the last purge.
        since_purge: Those that entered since then.
    """

    __slots__ = (
        "cancelled",
        "completed",
        "entered",
        "expired",
        "others",
        "since_purge",
        "total_wait_ms",
        "unpurged",
        "waits",
    )

    cancelled: int
    completed: int
    entered: int
    expired: int
    others: int
    since_purge: int
    total_wait_ms: int
    unpurged: int

    def __init__(self) -> None:
        self.waits = [0] * WAIT_BUCKETS  # `reset` sets all numbers.


class PurgatoryCounters:
    """The counters of one purgatory. Thread-safe: each change is made under a lock.

    On free-threaded builds a thread counts in one of several stripes, under that stripe's lock. A
    reading adds the stripes up under all locks: an operation may enter in one and end in another.
    Everywhere else there is one stripe, whose lock is `lock`. Rare events are counted under `lock`.

    Attributes:
        name: What is counted, where it is a part of what the purgatory holds.
    """

    __slots__ = (
        "_further_locks",
        "_stripes",
        "callback_errors",
        "lock",
        "max_callback_ms",
        "max_late_ms",
        "name",
        "purged",
        "purges",
    )

    if not primitives.COMPILED:
        _stripes: list[_Stripe]

    def __init__(self, name: str = "") -> None:
        self.name = name
        if not primitives.COMPILED:
            setattr(self, "_stripes", [_Stripe()])  # noqa: B010 - compiled, an array of C
        self.reset()

    def reset(self) -> None:
        self.lock = primitives.CoreLock()
        self._further_locks = [primitives.CoreLock() for _ in range(primitives.STRIPES - 1)]
        for index in range(primitives.STRIPES):
            self._stripes[index].entered = 0
            self._stripes[index].completed = 0
            self._stripes[index].expired = 0
            self._stripes[index].cancelled = 0
            self._stripes[index].unpurged = 0
            self._stripes[index].others = 0
            self._stripes[index].since_purge = 0
            self._stripes[index].total_wait_ms = 0
            for bucket in range(WAIT_BUCKETS):
                self._stripes[index].waits[bucket] = 0
        self.purges = 0
        self.purged = 0
        self.callback_errors = 0
        self.max_late_ms = 0
        self.max_callback_ms = 0

    def locks(self) -> list[primitives.CoreLock]:
        return [self.lock, *self._further_locks]

    def _acquire(self, index: int) -> None:
        if primitives.STRIPES > 1 and index > 0:
            lock = self._further_locks[index - 1]
            lock.acquire()
            return
        self.lock.acquire()

    def _release(self, index: int) -> None:
        if primitives.STRIPES > 1 and index > 0:
            lock = self._further_locks[index - 1]
            lock.release()
            return
        self.lock.release()

    def _acquire_all(self) -> None:
        for index in range(primitives.STRIPES):
            self._acquire(index)

    def _release_all(self) -> None:
        for index in range(primitives.STRIPES):
            self._release(index)

    @property
    def pending(self) -> int:
        self._acquire_all()
        pending = self.pending_unlocked()
        self._release_all()
        return pending

    @property
    def unpurged(self) -> int:
        """About how many ended operations are still in the watcher lists."""
        self._acquire_all()
        unpurged = self.unpurged_unlocked()
        self._release_all()
        return unpurged

    @property
    def estimate(self) -> int:
        """The estimated number of operations in the watcher lists, ended or not."""
        self._acquire_all()
        estimate = self.pending_unlocked() + self.unpurged_unlocked()
        self._release_all()
        return estimate

    @property
    def since_purge(self) -> int:
        """The operations that entered since the last purge."""
        self._acquire_all()
        entered = 0
        for index in range(primitives.STRIPES):
            entered += self._stripes[index].since_purge
        self._release_all()
        return entered

    def pending_unlocked(self) -> int:
        """Return `pending`; the caller holds the locks, or is the only thread."""
        pending = 0
        for index in range(primitives.STRIPES):
            pending += (
                self._stripes[index].entered
                - self._stripes[index].completed
                - self._stripes[index].expired
                - self._stripes[index].cancelled
            )
        return pending

    def unpurged_unlocked(self) -> int:
        unpurged = 0
        for index in range(primitives.STRIPES):
            unpurged += self._stripes[index].unpurged
        return unpurged

    def count_entered(self) -> int:
        """Count an operation that is about to be watched, and return about `unpurged`."""
        index = primitives.thread_stripe()
        self._acquire(index)
        self._stripes[index].entered += 1
        self._stripes[index].since_purge += 1
        unpurged = self._unpurged_seen(index)
        self._release(index)
        return unpurged

    def count_ended(self, state: int, waited_ms: int) -> int:
        """Count the end of an operation that entered, and return about `unpurged`."""
        bucket = 0
        if waited_ms > 0:  # A clock may have gone back.
            # The seven leading bits, and how many follow.
            shift = primitives.bit_length(waited_ms) - 7
            if shift < 0:
                shift = 0
            bucket = 64 * shift + (waited_ms >> shift)
            if bucket >= 1664:  # WAIT_BUCKETS: a constant for the compiler, too
                bucket = 1663
        index = primitives.thread_stripe()
        self._acquire(index)
        self._stripes[index].waits[bucket] += 1
        self._stripes[index].total_wait_ms += waited_ms
        self._stripes[index].unpurged += 1
        self._count_end(index, state)
        unpurged = self._unpurged_seen(index)
        self._release(index)
        return unpurged

    def _unpurged_seen(self, index: int) -> int:
        """Return `unpurged` with what the other stripes had up to eight ends ago, here.

        Each look at another thread's stripe makes that thread wait for its cache line.
        """
        if primitives.STRIPES > 1 and self._stripes[index].unpurged % 8 == 0:
            self._stripes[index].others = self.unpurged_unlocked() - self._stripes[index].unpurged
        return self._stripes[index].unpurged + self._stripes[index].others

    def count_ended_at_once(self, state: int) -> None:
        """Count an operation that ended before it was watched, in one of `states`."""
        index = primitives.thread_stripe()
        self._acquire(index)
        self._stripes[index].entered += 1
        self._stripes[index].waits[0] += 1
        self._count_end(index, state)
        self._release(index)

    def _count_end(self, index: int, state: int) -> None:
        if state == states.COMPLETED:
            self._stripes[index].completed += 1
        elif state == states.EXPIRED:
            self._stripes[index].expired += 1
        else:
            self._stripes[index].cancelled += 1

    def begin_purge(self) -> None:
        """Make `pending` the estimate: the purge is about to remove the ended operations."""
        self._acquire_all()
        for index in range(primitives.STRIPES):
            self._stripes[index].unpurged = 0
            self._stripes[index].others = 0
            self._stripes[index].since_purge = 0
        self._release_all()

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
        completed = expired = cancelled = total_wait_ms = 0
        self._acquire_all()
        try:  # Numbers of Python need memory.
            for index in range(primitives.STRIPES):
                for bucket in range(WAIT_BUCKETS):
                    waits[bucket] += self._stripes[index].waits[bucket]
                completed += self._stripes[index].completed
                expired += self._stripes[index].expired
                cancelled += self._stripes[index].cancelled
                total_wait_ms += self._stripes[index].total_wait_ms
            pending = self.pending_unlocked()
            unpurged = self.unpurged_unlocked()
            purges, purged, callback_errors = self.purges, self.purged, self.callback_errors
            max_late_ms, max_callback_ms = self.max_late_ms, self.max_callback_ms
        finally:
            self._release_all()
        return PurgatoryMetrics(
            purgatory_size=purgatory_size,
            num_delayed_operations=pending,
            estimated_operations=pending + unpurged,
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


if not primitives.COMPILED:
    for _wrapper in ("_acquire", "_release", "_acquire_all", "_release_all"):
        primitives.wrappers.add(vars(PurgatoryCounters)[_wrapper].__code__)
