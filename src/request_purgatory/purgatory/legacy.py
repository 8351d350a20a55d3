"""The request purgatory of Apache Kafka 0.8, kept as the baseline that the timing wheel is measured against.

Its delay queue holds every request, completed ones too, until they come out at their deadline or a
purge scans for them. With a high rate of requests that complete long before their timeout, the
queue and the watcher lists fill with what nobody needs, and every insertion pays O(log n) for it.
"""

from __future__ import annotations

import heapq
import logging
import threading

from request_purgatory._native import primitives, states
from request_purgatory._native.forks import begin_anew_in_children
from request_purgatory.clock import Clock, MonotonicClock
from request_purgatory.errors import TimerClosedError
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.sleepers import Sleeper, Sleepers
from request_purgatory.timer.task import TimerTask, whole_ms

logger = logging.getLogger(__name__)


class DelayQueueTimer:
    """A delay queue with one entry for every request: the 0.8 design's timer, for `LegacyPurgatory` only.

    Cancelling removes nothing. What has ended meanwhile is skipped when it comes out, or dropped by
    `purge`. Any thread may call every method.
    """

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self.name = name
        self.clock: Clock = clock if clock is not None else MonotonicClock()
        self.callback_errors = 0
        self._lock = threading.Lock()
        self._sleepers = Sleepers()
        # The number in the middle keeps equal deadlines in order of arrival, and tasks from being
        # compared.
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._added = 0
        self._woken = False
        self._closed = False
        begin_anew_in_children(self)

    @property
    def size(self) -> int:
        """Entries in the delay queue, ended requests among them."""
        with self._lock:
            return len(self._heap)

    @property
    def next_expiration_ms(self) -> int | None:
        """The deadline of the first entry, ended or not; None if the queue is empty."""
        with self._lock:
            return self._heap[0][0] if self._heap else None

    def add(self, task: TimerTask) -> None:
        """Queue a task for `task.delay_ms` from now.

        Raises:
            TimerClosedError: after `shutdown`.
        """
        delay_ms = whole_ms("delay_ms", task.delay_ms)
        with self._lock:
            if self._closed:
                raise TimerClosedError(self.name)
            task._expiration_ms = self.clock.ceil_ms + delay_ms
            self._added += 1
            entry = (task._expiration_ms, self._added, task)
            heapq.heappush(self._heap, entry)
            too_late = task._expiration_ms < self._sleepers.first_ms
        if too_late:
            self._sleepers.wake()

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for the next deadline, then run what is due.

        As `SystemTimer.advance_clock`.
        """
        if self._closed:
            raise TimerClosedError(self.name)
        with self._lock:
            is_due = self._is_due()
        if not is_due and (timeout_ms == 0 or not self._wait(timeout_ms)):
            return False
        while True:
            with self._lock:
                if not self._is_due():
                    return True
                task = heapq.heappop(self._heap)[2]
            try:
                task.run()
            except Exception:
                with self._lock:
                    self.callback_errors += 1
                logger.exception("timer %r: %r raised", self.name, task)
            # The last reference to the task may go here, and its finalizer is user code: not under
            # the lock.
            del task

    def _wait(self, timeout_ms: int | None) -> bool:
        """Sleep until something is due; True if it is. As `SystemTimer._wait`."""
        give_up_ms = primitives.LIMIT if timeout_ms is None else self.clock.ceil_ms + timeout_ms
        with self._lock:
            spare = self._sleepers.take()
        sleeper = Sleeper() if spare is None else spare
        if spare is None:
            with self._lock:
                self._sleepers.join(sleeper)
        try:
            while True:
                sleeper.park(0)
                with self._lock:
                    if self._is_due():
                        return True
                    if self._woken or self._closed or self.clock.now_ms >= give_up_ms:
                        self._woken = False
                        return False
                    until_ms = give_up_ms
                    if self._heap and self._heap[0][0] < until_ms:
                        until_ms = self._heap[0][0]
                    self._sleepers.enter(sleeper, until_ms)
                self.clock.wait_until(sleeper, None if until_ms >= primitives.LIMIT else until_ms)
        finally:
            with self._lock:
                others = self._sleepers.leave(sleeper)
            if others:
                self._sleepers.wake()

    def _fork_locks(self) -> list[primitives.CoreLock]:
        return []

    def _renew_locks(self) -> None:
        self._lock = threading.Lock()

    def _begin_in_child(self) -> None:
        """Forget the threads that slept here."""
        self._sleepers = Sleepers()
        self._woken = False

    def _tasks(self) -> list[TimerTask]:
        """Every task, for a forked child and its purgatories."""
        return [entry[2] for entry in self._heap]

    def _is_due(self) -> bool:
        return bool(self._heap) and self._heap[0][0] <= self.clock.now_ms

    def purge(self) -> int:
        """Scan the whole queue and drop the operations that have ended; how many went."""
        with self._lock:
            # Kept until the lock is free: what is dropped may have finalizers.
            heap = self._heap
            kept = [entry for entry in heap if not _has_ended(entry[2])]
            heapq.heapify(kept)
            self._heap = kept
        return len(heap) - len(kept)

    def wake(self) -> None:
        """End the sleep of a thread in `advance_clock`; if none sleeps, the next one's."""
        with self._lock:
            self._woken = True
        self._sleepers.wake()

    def shutdown(self) -> list[TimerTask]:
        """Empty the queue and return what was in it and had not ended."""
        with self._lock:
            self._closed = True
            heap = self._heap
            self._heap = []
        self._sleepers.wake()
        return [entry[2] for entry in heap if not _has_ended(entry[2])]

    def check(self) -> None:
        """Assert the heap's order."""
        with self._lock:
            for index, entry in enumerate(self._heap):
                assert self._heap[(index - 1) // 2 if index else 0] <= entry, (
                    "the delay queue is out of order"
                )


def _has_ended(task: TimerTask) -> bool:
    return isinstance(task, DelayedOperation) and task._state != states.PENDING


class LegacyPurgatory(DelayedOperationPurgatory):
    """Kafka 0.8's purgatory, under the interface of `DelayedOperationPurgatory`.

    What differs, as 0.8 had it: a delay queue with every request in it instead of a timing wheel;
    ended requests stay in it and in the watcher lists until they are met in passing or purged; a
    purge is due when `purge_interval` requests were added since the last one, whether or not
    anything has ended; one reaper thread expires and purges, and looks at the request counter only
    when it wakes, every 200 ms or at a deadline; one lock for all watcher lists. `num_delayed`
    counts the pending exactly, as 0.8's `unsatisfied` did. `watched` counts the delay queue's
    entries too, as its PurgatorySize did.

    For baselines and comparison, not for services.
    """

    def __init__(
        self,
        name: str,
        *,
        clock: Clock | None = None,
        purge_interval: int = 1000,
        reaper: bool = True,
    ) -> None:
        """As `DelayedOperationPurgatory`; `clock` is a MonotonicClock unless given."""
        self.delay_queue = DelayQueueTimer(name, clock)
        super().__init__(
            name, timer=self.delay_queue, purge_interval=purge_interval, shards=1, reaper=reaper
        )

    #: 0.8's reaper looked at its request counter this often, and at every deadline.
    reap_interval_ms = 200

    def _begin_in_child(self) -> None:
        DelayedOperationPurgatory._begin_in_child(self)
        self.delay_queue.purge()

    def _purge_due(self, unpurged: int) -> bool:  # noqa: ARG002 - 0.8 had no estimate, it counted what was added
        return self._counters.since_purge >= max(self.purge_interval, 1)

    def _request_purge(self) -> None:
        """0.8's reaper found out by itself."""

    def purge(self) -> int:
        """Scan the delay queue and every watcher list for ended requests; how many entries went."""
        return self.delay_queue.purge() + DelayedOperationPurgatory.purge(self)

    def _leave_to_purge(self, operation: DelayedOperation) -> None:
        """0.8's purge found out by itself."""

    def _drop_ended(self) -> int:
        dropped = 0
        for shard in self._shards:
            for watchers in shard.lists():
                for watch in shard.watches_of(watchers):
                    operation = shard.operation_of(watch)
                    if (
                        operation is not None
                        and operation._state != states.PENDING
                        and shard.drop(watch)
                    ):
                        dropped += 1
        return dropped

    @property
    def watched(self) -> int:
        """Entries in all watcher lists and in the delay queue."""
        return super().watched + self.delay_queue.size

    def shutdown(self) -> list[DelayedOperation]:
        """As `DelayedOperationPurgatory.shutdown`."""
        try:
            return super().shutdown()
        finally:
            # Also where a cancellation raised an exit: nothing is left pending then either.
            self.delay_queue.shutdown()
