"""The request purgatory of Apache Kafka 0.8, the baseline for the timing wheel.

Its delay queue holds every request, completed ones too, until they come out at their deadline or a
purge scans for them. With a high rate of requests that complete long before their timeout, the
queue and the watcher lists fill with what nobody needs, and every insertion pays O(log n) for it.
"""

from __future__ import annotations

import heapq
import logging
import threading

from request_purgatory._native import primitives, states
from request_purgatory._native.forks import register_for_forks
from request_purgatory.clock import Clock, MonotonicClock, check_range
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import (
    TimerClosedError,
    checked_name,
    refuse_copy,
    refuse_pickling,
    require_type,
    whole_number,
)
from request_purgatory.purgatory.core import checked_purge_interval
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer._sleeping_threads import SleepingThread, SleepingThreads
from request_purgatory.timer.task import TimerTask, whole_ms

logger = logging.getLogger(__name__)


class DelayQueueTimer:
    """The 0.8 design's timer: a delay queue with one entry for every request.

    Cancelling removes nothing. What has ended meanwhile is skipped when it comes out, or dropped by
    `purge`. Any thread may call every method.
    """

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        self.name = checked_name(name)
        if clock is not None:
            check_range(clock)
        self.clock: Clock = clock if clock is not None else MonotonicClock()
        self.callback_errors = 0
        self._errors = ErrorLog(logger)
        self._lock = threading.Lock()
        self._sleepers = SleepingThreads()
        # The number in the middle keeps equal deadlines in order of arrival, and tasks from being
        # compared.
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._added = 0
        self._wake_requested = False
        self._closed = False
        register_for_forks(self)

    @property
    def size(self) -> int:
        self._lock.acquire()
        try:
            return len(self._heap)
        finally:
            self._lock.release()

    @property
    def next_expiration_ms(self) -> int | None:
        """The deadline of the first entry, ended or not; None if the queue is empty."""
        self._lock.acquire()
        try:
            return self._heap[0][0] if self._heap else None
        finally:
            self._lock.release()

    def add(self, task: TimerTask) -> None:
        if not primitives.COMPILED:
            require_type("task", task, TimerTask)
        delay_ms = whole_ms("delay_ms", task.delay_ms)
        self._lock.acquire()
        try:
            if self._closed:
                raise TimerClosedError(self.name)
            expiration_ms = self.clock.ceil_ms + delay_ms
            task.timer_expiration_ms = expiration_ms or -1  # 0 is that of a task without `__init__`
            self._added += 1
            heapq.heappush(self._heap, (expiration_ms, self._added, task))
            too_late = expiration_ms < self._sleepers.earliest_ms
        finally:
            self._lock.release()
        if too_late:
            self._sleepers.wake_all()

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """As `SystemTimer.advance_clock`."""
        if self._closed:
            raise TimerClosedError(self.name)
        if timeout_ms is not None and type(timeout_ms) is not int:
            timeout_ms = whole_number("timeout_ms", timeout_ms)
        self._lock.acquire()
        try:
            is_due = self._is_due()
        finally:
            self._lock.release()
        if not is_due and (timeout_ms == 0 or not self._wait(timeout_ms)):
            return False
        while True:
            self._lock.acquire()
            try:
                if not self._is_due():
                    return True
                task = heapq.heappop(self._heap)[2]
            finally:
                self._lock.release()
            try:
                task.run()
            except Exception as error:
                self._lock.acquire()
                try:
                    self.callback_errors += 1
                finally:
                    self._lock.release()
                self._errors.log(error, "timer %r: %s raised", self.name, task)
            # The last reference to the task may go here, and its finalizer is user code: not under
            # the lock.
            del task

    def _wait(self, timeout_ms: int | None) -> bool:
        """Return True when a task is due; False if the time ran out or the sleep was ended."""
        give_up_ms = (
            primitives.LIMIT
            if timeout_ms is None
            else self.clock.ceil_ms + primitives.clamp(timeout_ms)
        )
        # Made without the lock, as that may start the cyclic collector.
        sleeper = SleepingThread()
        self._lock.acquire()
        try:
            spare = self._sleepers.take_free()
            if spare is None:
                self._sleepers.add(sleeper)
            else:
                sleeper = spare
        finally:
            self._lock.release()
        try:
            while True:
                sleeper.park(0)
                self._lock.acquire()
                try:
                    if self._is_due():
                        return True
                    if self._wake_requested or self._closed or self.clock.now_ms >= give_up_ms:
                        self._wake_requested = False
                        return False
                    until_ms = give_up_ms
                    if self._heap and self._heap[0][0] < until_ms:
                        until_ms = self._heap[0][0]
                    self._sleepers.sleep_until(sleeper, until_ms)
                finally:
                    self._lock.release()
                self.clock.wait_until(sleeper, None if until_ms >= primitives.LIMIT else until_ms)
        finally:
            self._lock.acquire()
            try:
                others = self._sleepers.release(sleeper)
            finally:
                self._lock.release()
            if others:
                self._sleepers.wake_all()

    # A copy would share the original's tasks.
    __copy__ = __deepcopy__ = refuse_copy
    __reduce__ = refuse_pickling

    def _fork_locks(self) -> list[primitives.CoreLock]:
        return []

    def _reinit_locks(self) -> None:
        self._lock = threading.Lock()

    def _reset_in_child(self) -> None:
        """Forget the threads that slept here, and the errors that the parent has logged."""
        self._errors = ErrorLog(logger)
        self._sleepers = SleepingThreads()
        self._wake_requested = False

    def _pending_tasks(self) -> list[TimerTask]:
        return [entry[2] for entry in self._heap]

    def _is_due(self) -> bool:
        return bool(self._heap) and self._heap[0][0] <= self.clock.now_ms

    def purge(self) -> int:
        """Scan the whole queue, drop the operations that have ended, and return their number."""
        self._lock.acquire()
        try:
            # Kept until the lock is free: what is dropped may have finalizers.
            heap = self._heap
            kept = [entry for entry in heap if not _has_ended(entry[2])]
            heapq.heapify(kept)
            self._heap = kept
        finally:
            self._lock.release()
        return len(heap) - len(kept)

    def wake(self) -> None:
        """End the sleep of a thread in `advance_clock`; if none sleeps, the next one's."""
        self._lock.acquire()
        try:
            self._wake_requested = True
        finally:
            self._lock.release()
        self._sleepers.wake_all()

    def shutdown(self) -> list[TimerTask]:
        """Empty the queue, and return the tasks that had not ended."""
        self._lock.acquire()
        try:
            self._closed = True
            heap = self._heap
            self._heap = []
        finally:
            self._lock.release()
        self._sleepers.wake_all()
        return [entry[2] for entry in heap if not _has_ended(entry[2])]

    def _check_invariants(self) -> None:
        self._lock.acquire()
        try:
            for index, entry in enumerate(self._heap):
                assert self._heap[(index - 1) // 2 if index else 0] <= entry, (
                    "the delay queue is out of order"
                )
        finally:
            self._lock.release()


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
        name: str = "purgatory",
        *,
        clock: Clock | None = None,
        purge_interval: int = 1000,
        reaper: bool = True,
    ) -> None:
        """As `DelayedOperationPurgatory`; `clock` is a MonotonicClock unless given."""
        self.requests_per_purge = checked_purge_interval(purge_interval)
        self.delay_queue = DelayQueueTimer(name, clock)
        # No estimate of what has ended makes a purge due.
        super().__init__(
            name, timer=self.delay_queue, purge_interval=primitives.LIMIT, shards=1, reaper=reaper
        )

    #: 0.8's reaper looked at its request counter this often, and at every deadline.
    reap_interval_ms = 200

    def _reap(self, timeout_ms: int | None = None) -> None:
        DelayedOperationPurgatory._reap(
            self, self.reap_interval_ms if timeout_ms is None else timeout_ms
        )

    @property
    def _is_purge_due(self) -> bool:
        return self._counters.since_purge >= max(self.requests_per_purge, 1)

    def purge(self) -> int:
        """Scan the delay queue and every watcher list for ended requests.

        Returns:
            The number of entries that were dropped.
        """
        primitives.require_init(self._initialized, self)
        return self.delay_queue.purge() + DelayedOperationPurgatory.purge(self)

    def _drop_ended(self) -> int:
        dropped = 0
        for shard in self._table.shards:
            for watchers in shard.lists():
                for operation in shard.operations_of(watchers):
                    if operation._state != states.PENDING and shard.drop(watchers, operation):
                        dropped += 1
        self._backlog.purge()  # What the scan has found, in 0.8's way.
        return dropped

    def _reset_in_child(self) -> None:
        DelayedOperationPurgatory._reset_in_child(self)
        self.delay_queue.purge()

    @property
    def watched(self) -> int:
        """Entries in all watcher lists and in the delay queue."""
        return super().watched + self.delay_queue.size

    def close(self) -> list[DelayedOperation]:
        """As `DelayedOperationPurgatory.close`."""
        primitives.require_init(self._initialized, self)
        try:
            cancelled = super().close()
        finally:
            # Also where a cancellation raised an exit: nothing is left pending then either.
            if self._closed:
                self.delay_queue.shutdown()
        # Not out of the `try`: compiled, the list would never be freed where `shutdown` raises.
        return cancelled
