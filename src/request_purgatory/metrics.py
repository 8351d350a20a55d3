"""What a purgatory counts."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from request_purgatory.operation import CANCELLED, COMPLETED, EXPIRED

#: Buckets of the waiting-time histogram: bucket i counts waits below 2**i ms (and not below 2**(i-1)), the last one the rest.
WAIT_BUCKETS = 32


@dataclass(frozen=True, slots=True)
class PurgatoryMetrics:
    """One consistent reading of a purgatory's counters.

    Attributes:
        purgatory_size: entries in all watcher lists; an operation may be counted once a key, and after its end.
        num_delayed_operations: operations pending, exactly.
        estimated_operations: the estimate E of the operations that the lists hold, ended or not.
        completions, expirations, cancellations: ends so far, of each kind; each operation is in one of them once.
        purges: how often the watcher lists were purged; `purged_entries` is what went.
        callback_errors: exceptions raised by operations' code and contained here.
        wait_histogram_ms: how many operations waited less than 2**i ms but not less than 2**(i-1), for i = 0, 1, ...
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
        }


class PurgatoryCounters:
    """The counters of one purgatory, exact whatever threads count: each change is made under one lock."""

    __slots__ = (
        "_lock",
        "_waits",
        "callback_errors",
        "cancelled",
        "completed",
        "entered",
        "estimate",
        "expired",
        "purged",
        "purges",
        "since_purge",
    )

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waits = [0] * WAIT_BUCKETS
        self.entered = 0
        self.completed = 0
        self.expired = 0
        self.cancelled = 0
        self.estimate = 0
        self.since_purge = 0
        self.purges = 0
        self.purged = 0
        self.callback_errors = 0

    @property
    def pending(self) -> int:
        """Operations that entered and have not ended."""
        with self._lock:
            return self.entered - self.completed - self.expired - self.cancelled

    @property
    def unpurged(self) -> int:
        """E - pending: about how many operations ended without leaving the watcher lists."""
        with self._lock:
            return self.estimate - self.entered + self.completed + self.expired + self.cancelled

    def enter(self) -> int:
        """One operation is about to be watched; the new `unpurged`."""
        with self._lock:
            self.entered += 1
            self.estimate += 1
            self.since_purge += 1
            return self.estimate - self.entered + self.completed + self.expired + self.cancelled

    def end(self, state: int, waited_ms: int) -> int:
        """One operation that entered has ended; the new `unpurged`."""
        bucket = waited_ms.bit_length()
        if bucket >= WAIT_BUCKETS:
            bucket = WAIT_BUCKETS - 1
        with self._lock:
            self._waits[bucket] += 1
            self._count_end(state)
            return self.estimate - self.entered + self.completed + self.expired + self.cancelled

    def end_at_once(self, state: int) -> None:
        """One operation ended before it was watched."""
        with self._lock:
            self.entered += 1
            self._count_end(state)
            self._waits[0] += 1

    def _count_end(self, state: int) -> None:
        if state == COMPLETED:
            self.completed += 1
        elif state == EXPIRED:
            self.expired += 1
        elif state == CANCELLED:
            self.cancelled += 1

    def begin_purge(self) -> None:
        """E becomes the number pending: what has ended is about to be dropped."""
        with self._lock:
            self.estimate = self.entered - self.completed - self.expired - self.cancelled
            self.since_purge = 0

    def end_purge(self, dropped: int) -> None:
        """A purge dropped `dropped` entries."""
        with self._lock:
            self.purges += 1
            self.purged += dropped

    def callback_failed(self) -> None:
        """An operation's code raised, and was contained."""
        with self._lock:
            self.callback_errors += 1

    def read(self, purgatory_size: int) -> PurgatoryMetrics:
        """All counters at one moment."""
        with self._lock:
            return PurgatoryMetrics(
                purgatory_size=purgatory_size,
                num_delayed_operations=self.entered - self.completed - self.expired - self.cancelled,
                estimated_operations=self.estimate,
                completions=self.completed,
                expirations=self.expired,
                cancellations=self.cancelled,
                purges=self.purges,
                purged_entries=self.purged,
                callback_errors=self.callback_errors,
                wait_histogram_ms=tuple(self._waits),
            )
