"""The request purgatory of Apache Kafka 0.8, the baseline for the timing wheel.

Its delay queue holds every request, completed ones too, until they come out at their deadline or a
purge scans for them. With a high rate of requests that complete long before their timeout, the
queue and the watcher lists fill with what nobody needs, and every insertion pays O(log n) for it.
"""

from __future__ import annotations

import heapq
import threading

from request_purgatory._native import primitives, states
from request_purgatory._native.forks import register_for_forks
from request_purgatory.clock import Clock
from request_purgatory.errors import TimerClosedError, require_type
from request_purgatory.purgatory.core import checked_purge_interval
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer._timer_core import TimerCore
from request_purgatory.timer.task import TimerTask, whole_ms


class DelayQueueTimer(TimerCore):
    """The 0.8 design's timer: a delay queue with one entry for every request.

    Cancelling removes nothing. What has ended meanwhile is skipped when it comes out, or dropped by
    `purge`. Any thread may call every method.
    """

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        TimerCore.__init__(self, name, clock)
        # Changing the heap allocates, which may start the cyclic collector: not under `_lock`.
        self._heap_lock = threading.Lock()
        # The number in the middle keeps equal deadlines in order of arrival, and tasks from being
        # compared.
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._added = 0
        # The deadline of the first entry, -1 for none: for looks without the heap's lock.
        self._first_ms = -1
        self._initialized = True
        register_for_forks(self)

    @property
    def size(self) -> int:
        """The number of entries, those of ended operations included."""
        primitives.require_init(self._initialized, self)
        return len(self._heap)

    def add(self, task: TimerTask) -> None:
        primitives.require_init(self._initialized, self)
        if not primitives.COMPILED:
            require_type("task", task, TimerTask)
        delay_ms = whole_ms("delay_ms", task.delay_ms)
        expiration_ms = self.clock.ceil_ms + delay_ms
        self._heap_lock.acquire()
        try:
            if self._closed:
                raise TimerClosedError(self.name)
            task._timer_expiration_ms = (
                expiration_ms or -1
            )  # 0 is that of a task without `__init__`
            self._added += 1
            heapq.heappush(self._heap, (expiration_ms, self._added, task))
            self._note_first()
        finally:
            self._heap_lock.release()
        # A thread that registers its sleep later sees the new entry.
        self._lock.acquire()
        too_late = expiration_ms < self._sleepers.earliest_ms
        self._lock.release()
        if too_late:
            self._sleepers.wake_all()

    def _note_first(self) -> None:
        self._first_ms = max(0, self._heap[0][0]) if self._heap else -1

    def _next_due_ms(self) -> int:
        return self._first_ms

    def _collect_due(self) -> bool:
        return 0 <= self._first_ms <= self.clock.now_ms

    def _pop_due(self) -> TimerTask | None:
        task: TimerTask | None = None
        now_ms = self.clock.now_ms
        self._heap_lock.acquire()
        try:
            if 0 <= self._first_ms <= now_ms:
                task = heapq.heappop(self._heap)[2]
                self._note_first()
        finally:
            self._heap_lock.release()
        return task

    def purge(self) -> int:
        """Scan the whole queue, drop the operations that have ended, and return their number."""
        self._heap_lock.acquire()
        try:
            # Kept until the lock is free: what is dropped may have finalizers.
            heap = self._heap
            kept = [entry for entry in heap if not _has_ended(entry[2])]
            heapq.heapify(kept)
            self._heap = kept
            self._note_first()
        finally:
            self._heap_lock.release()
        return len(heap) - len(kept)

    def _drain(self) -> list[TimerTask]:
        """Empty the queue, and return the tasks that had not ended."""
        self._heap_lock.acquire()
        try:
            heap = self._heap
            self._heap = []
            self._note_first()
        finally:
            self._heap_lock.release()
        return [entry[2] for entry in heap if not _has_ended(entry[2])]

    def _reinit_locks(self) -> None:
        TimerCore._reinit_locks(self)
        self._heap_lock = threading.Lock()

    def _pending_tasks(self) -> list[TimerTask]:
        return [entry[2] for entry in self._heap]


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
        self._owns_timer = True

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
