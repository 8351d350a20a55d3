"""What a purgatory counts."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from request_purgatory._native import primitives, states

#: Buckets of the waiting-time histogram: bucket i counts waits below 2**i ms (and not below
#: 2**(i-1)), the last one the rest.
WAIT_BUCKETS = 32


@dataclass(frozen=True, slots=True)
class PurgatoryMetrics:
    """One consistent reading of a purgatory's counters.

    Attributes:
        purgatory_size: entries in all watcher lists; an operation may be counted once a key, and
            after its end.
        num_delayed_operations: operations pending, exactly.
        estimated_operations: the estimate E of the operations that the lists hold, ended or not.
        completions, expirations, cancellations: ends so far, of each kind; each operation is in one
            of them once.
        purges: how often the watcher lists were purged; `purged_entries` is what went.
        callback_errors: exceptions raised by operations' code and contained here.
        max_late_ms: how late, at most, an operation's time-out came after its delay; 0 on a
            ManualClock, which jumps.
        max_callback_ms: how long, at most, the callbacks of one took. Without an executor, other
            time-outs wait for them.
        wait_histogram_ms: how many operations waited less than 2**i ms but not less than 2**(i-1),
            for i = 0, 1, ...
    """

    purgatory_size: int
    num_delayed_operations: int
    estimated_operations: int
    completions: int
    expirations: int
    cancellations: int
    purges: int
    purged_entries: int
    callback_errors: int
    max_late_ms: int
    max_callback_ms: int
    wait_histogram_ms: tuple[int, ...]

    def by_kafka_name(self) -> dict[str, int]:
        """The counters under the names that Kafka's broker gives them, or gives the like."""
        return {
            "PurgatorySize": self.purgatory_size,
            "NumDelayedOperations": self.num_delayed_operations,
            "Expires": self.expirations,
            "Completions": self.completions,
            "Cancellations": self.cancellations,
            "Purges": self.purges,
            "CallbackErrors": self.callback_errors,
            "MaxExpirationLateMs": self.max_late_ms,
            "MaxExpirationCallbackMs": self.max_callback_ms,
        }


class PurgatoryCounters:
    """The counters of one purgatory, exact whatever threads count.

    Each change is made under one lock.
    """

    __slots__ = (
        "_lock",
        "_waits",
        "callback_errors",
        "cancelled",
        "completed",
        "entered",
        "estimate",
        "expired",
        "max_callback_ms",
        "max_late_ms",
        "purged",
        "purges",
        "since_purge",
    )

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin at nothing, with a lock of its own."""
        self._lock = primitives.CoreLock()
        self._waits = array("q", [0]) * WAIT_BUCKETS
        self.entered = 0
        self.completed = 0
        self.expired = 0
        self.cancelled = 0
        self.estimate = 0
        self.since_purge = 0
        self.purges = 0
        self.purged = 0
        self.callback_errors = 0
        self.max_late_ms = 0
        self.max_callback_ms = 0

    def fork_lock(self) -> primitives.CoreLock:
        """Return the lock, which a fork holds."""
        return self._lock

    @property
    def pending(self) -> int:
        """Operations that entered and have not ended."""
        self._lock.acquire()
        pending = self._pending()
        self._lock.release()
        return pending

    @property
    def unpurged(self) -> int:
        """E - pending: about how many operations ended without leaving the watcher lists."""
        self._lock.acquire()
        unpurged = self.estimate - self._pending()
        self._lock.release()
        return unpurged

    def _pending(self) -> int:
        return self.entered - self.completed - self.expired - self.cancelled

    def enter(self) -> int:
        """One operation is about to be watched; the new `unpurged`."""
        self._lock.acquire()
        self.entered += 1
        self.estimate += 1
        self.since_purge += 1
        unpurged = self.estimate - self._pending()
        self._lock.release()
        return unpurged

    def end(self, state: int, waited_ms: int) -> int:
        """One operation that entered has ended; the new `unpurged`."""
        bucket = primitives.bit_length(waited_ms)
        if bucket >= 32:  # WAIT_BUCKETS: a constant for the compiler, too
            bucket = 31
        self._lock.acquire()
        self._waits[bucket] += 1
        self._count_end(state)
        unpurged = self.estimate - self._pending()
        self._lock.release()
        return unpurged

    def end_at_once(self, state: int) -> None:
        """One operation ended before it entered."""
        self._lock.acquire()
        self.entered += 1
        self._waits[0] += 1
        self._count_end(state)
        self._lock.release()

    def _count_end(self, state: int) -> None:
        if state == states.COMPLETED:
            self.completed += 1
        elif state == states.EXPIRED:
            self.expired += 1
        else:
            self.cancelled += 1

    def begin_purge(self) -> None:
        """E becomes the number pending: what has ended is about to be dropped."""
        self._lock.acquire()
        self.estimate = self._pending()
        self.since_purge = 0
        self._lock.release()

    def end_purge(self, dropped: int) -> None:
        """A purge dropped `dropped` entries."""
        self._lock.acquire()
        self.purges += 1
        self.purged += dropped
        self._lock.release()

    def callback_failed(self) -> None:
        """An operation's code raised, and was contained."""
        self._lock.acquire()
        self.callback_errors += 1
        self._lock.release()

    def callbacks_ran(self, late_ms: int, took_ms: int) -> None:
        """An operation timed out `late_ms` after its delay, and its callbacks took so long."""
        self._lock.acquire()
        if late_ms > self.max_late_ms:
            self.max_late_ms = late_ms
        if took_ms > self.max_callback_ms:
            self.max_callback_ms = took_ms
        self._lock.release()

    def read(self, purgatory_size: int) -> PurgatoryMetrics:
        """All counters at one moment."""
        waits = [0] * WAIT_BUCKETS
        self._lock.acquire()
        for bucket in range(WAIT_BUCKETS):
            waits[bucket] = self._waits[bucket]
        pending = self._pending()
        estimate = self.estimate
        completed, expired, cancelled = self.completed, self.expired, self.cancelled
        purges, purged, callback_errors = self.purges, self.purged, self.callback_errors
        max_late_ms, max_callback_ms = self.max_late_ms, self.max_callback_ms
        self._lock.release()
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
        )
