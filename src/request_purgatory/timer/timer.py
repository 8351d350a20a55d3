"""The timer: a timing wheel, its delay queue of buckets, and the clock that drives them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, Protocol

from request_purgatory.clock import Clock, MonotonicClock
from request_purgatory.errors import TaskInUseError, TimerClosedError, whole_number
from request_purgatory.timer.bucket import Bucket, PendingTasks
from request_purgatory.timer.delay_queue import DelayQueue
from request_purgatory.timer.task import MAX_DELAY_MS, TimerHandle, TimerTask, whole_ms
from request_purgatory.timer.wheel import TimingWheel

logger = logging.getLogger(__name__)


class Timer(Protocol):
    """What a purgatory needs of a timer. `SystemTimer` is the one to use; `legacy` has the 0.8 design's."""

    @property
    def clock(self) -> Clock: ...
    @property
    def size(self) -> int: ...
    @property
    def next_expiration_ms(self) -> int | None: ...
    def add(self, task: TimerTask) -> None: ...
    def advance_clock(self, timeout_ms: int | None) -> bool: ...
    def wake(self) -> None: ...
    def shutdown(self) -> list[TimerTask]: ...
    def check(self) -> None: ...


class SystemTimer:
    """Runs tasks when their delay has passed; O(1) to add and to cancel, whatever the number pending.

    Somebody has to advance the clock: a `DelayedOperationPurgatory` does it with its reaper thread, other users call
    `advance_clock` in a loop of their own. Every method may be called from any thread, from inside a task too, also while
    the clock is advancing. One lock guards the wheel; no task runs while it is held.

    A task never runs before its delay has passed, and at most one tick plus scheduling after it. Tasks of one tick run in no
    promised order. A task that raises is logged and counted in `callback_errors`, and the next one runs.

    >>> from request_purgatory.clock import ManualClock
    >>> clock = ManualClock()
    >>> timer = SystemTimer("example", clock=clock)
    >>> handle = timer.call_later(30, print, "30 ms have passed")
    >>> timer.size, timer.next_expiration_ms
    (1, 20)
    >>> clock.advance(30)
    >>> timer.advance_clock(0)
    30 ms have passed
    True
    """

    def __init__(
        self,
        name: str,
        *,
        tick_ms: int = 1,
        wheel_size: int = 20,
        clock: Clock | None = None,
        executor: Executor | None = None,
    ) -> None:
        """A timer that stands at its clock's present.

        Args:
            name: shown in errors and logs.
            tick_ms: resolution in whole milliseconds, at least 1.
            wheel_size: buckets per wheel, at least 2.
            clock: where the time comes from; a MonotonicClock unless given.
            executor: runs the tasks; without one, the thread that advances the clock does.

        Raises:
            InvalidArgumentError: tick_ms or wheel_size below its minimum.
        """
        self.name = name
        self.clock: Clock = clock if clock is not None else MonotonicClock()
        self.callback_errors = 0
        self._executor = executor
        self._pending = PendingTasks()
        self._lock = self._pending.lock
        self._changed = threading.Condition(self._lock)
        self._queue = DelayQueue()
        self._wheel = TimingWheel(
            whole_ms("tick_ms", tick_ms),
            whole_number("wheel_size", wheel_size),
            self.clock.now_ms,
            self._pending,
            self._queue,
        )
        # Tasks whose time has come wait here, still linked, until each is started: so one that is cancelled meanwhile does
        # not run, and `size` stays exact.
        self._due = Bucket(self._pending)
        self._sleepers = 0
        self._woken = False
        self._closed = False

    @property
    def size(self) -> int:
        """Exactly how many tasks are pending."""
        return self._pending.count

    @property
    def tick_ms(self) -> int:
        """The resolution."""
        return self._wheel.tick_ms

    @property
    def next_expiration_ms(self) -> int | None:
        """When, on the clock, `advance_clock` next has something to do; None if nothing is pending.

        The time of the next bucket that has tasks: those of a coarse wheel are then moved to a finer one, so this may be
        before the first task is due.
        """
        with self._lock:
            if self._due.head is not None:
                return self.clock.now_ms
            bucket = self._queue.head()
            return None if bucket is None else bucket.expiration_ms

    def add(self, task: TimerTask) -> None:
        """Run `task` in `task.delay_ms` from now; a delay of 0 or less runs it at once. A pending task is moved.

        Raises:
            TimerClosedError: after `shutdown`.
            TaskInUseError: the task is pending in another timer.
            InvalidArgumentError: `delay_ms` is not a whole number or beyond 10,000 years.
        """
        delay_ms = task.delay_ms
        if type(delay_ms) is not int or delay_ms > MAX_DELAY_MS:
            delay_ms = whole_ms("delay_ms", delay_ms)
        with self._lock:
            if self._closed:
                raise TimerClosedError(self.name)
            bucket = task._bucket
            if bucket is not None:
                if bucket.pending is not self._pending:
                    raise TaskInUseError(f"{task!r} is pending in another timer than {self.name!r}: cancel it there first")
                bucket.remove(task)
                self._pending.count -= 1
            if delay_ms > 0:
                self._link(task, delay_ms)
                return
        self._start(task)

    def call_later(self, delay_ms: int, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call `callback(*args)` in `delay_ms` whole milliseconds. The handle's `cancel()` calls it off.

        Raises: as `add`.
        """
        handle = TimerHandle(delay_ms, callback, args)
        self.add(handle)
        return handle

    def _link(self, task: TimerTask, delay_ms: int) -> None:
        """Put a task that is in no bucket where it belongs. The lock is held."""
        wheel = self._wheel
        start_ms = self.clock.ceil_ms
        if start_ms > wheel.current_ms + wheel.tick_ms:
            self._catch_up(start_ms - 1)
        task._expiration_ms = wheel.round_up(start_ms + delay_ms)
        wheel.add(task)
        self._pending.count += 1
        if self._sleepers:
            bucket = task._bucket
            # Only a bucket that is now the first can make a sleeper's plan wrong; `is` alone would also find later tasks of
            # the same bucket, so the notify is for its first task.
            if bucket is not None and bucket.head is task and self._queue.head() is bucket:
                self._changed.notify_all()

    def _catch_up(self, now_ms: int) -> None:
        """Move the wheel's clock towards `now_ms` where no task is in between, so that a timer that idled for an hour does
        not put a short delay into a coarse bucket. The lock is held."""
        bucket = self._queue.head()
        if bucket is None or bucket.expiration_ms > now_ms:
            self._wheel.advance(now_ms)

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for the next bucket, then run what is due, all of it.

        Args:
            timeout_ms: whole milliseconds on the timer's clock; 0 only looks, None waits until there is something.

        Returns:
            True if a bucket came due; False if the time ran out, or `wake` or `shutdown` ended the wait.

        Raises:
            TimerClosedError: after `shutdown`.
        """
        with self._lock:
            if self._closed:
                raise TimerClosedError(self.name)
            came_due = self._collect()
            if not came_due and (timeout_ms is None or timeout_ms > 0):
                came_due = self._wait(timeout_ms)
            task = self._take_due()
        while task is not None:
            self._start(task)
            # The last reference to the task may go here, and its finalizer is user code: not under the lock.
            task = None
            with self._lock:
                task = self._take_due()
        return came_due

    def _wait(self, timeout_ms: int | None) -> bool:
        """Sleep until something is due. The lock is held, and given up while asleep."""
        give_up_ms = None if timeout_ms is None else self.clock.ceil_ms + timeout_ms
        while not self._woken and not self._closed:
            bucket = self._queue.head()
            until_ms = give_up_ms
            if bucket is not None and (until_ms is None or bucket.expiration_ms < until_ms):
                until_ms = bucket.expiration_ms
            self._sleepers += 1
            try:
                self.clock.wait_until(self._changed, until_ms)
            finally:
                self._sleepers -= 1
            if self._collect():
                return True
            if give_up_ms is not None and self.clock.now_ms >= give_up_ms:
                return False
        self._woken = False
        return False

    def _collect(self) -> bool:
        """Move every task that is due at the clock's present to `_due`. The lock is held."""
        now_ms = self.clock.now_ms
        wheel = self._wheel
        due = self._due
        came_due = due.head is not None
        bucket = self._queue.poll(now_ms)
        while bucket is not None:
            came_due = True
            wheel.advance(bucket.expiration_ms)
            bucket.expiration_ms = -1
            task = bucket.pop_first()
            while task is not None:
                if not wheel.add(task):
                    due.append(task)
                task = bucket.pop_first()
            bucket = self._queue.poll(now_ms)
        wheel.advance(now_ms)
        return came_due

    def _take_due(self) -> TimerTask | None:
        """The next due task, now no longer pending. The lock is held."""
        task = self._due.pop_first()
        if task is not None:
            self._pending.count -= 1
        return task

    def _start(self, task: TimerTask) -> None:
        if self._executor is None:
            self._run(task)
            return
        try:
            self._executor.submit(self._run, task)
        except RuntimeError:
            # The executor was shut down before the timer: late on the wrong thread is better than never.
            logger.warning("timer %r: executor takes no more work, running %r on the clock's thread", self.name, task)
            self._run(task)

    def _run(self, task: TimerTask) -> None:
        try:
            task.run()
        except Exception:
            with self._lock:
                self.callback_errors += 1
            logger.exception("timer %r: %r raised", self.name, task)

    def wake(self) -> None:
        """End the sleep of a thread in `advance_clock`; if none sleeps, the next one's."""
        with self._lock:
            self._woken = True
            self._changed.notify_all()

    def shutdown(self) -> list[TimerTask]:
        """Cancel what is pending and return it; wake who sleeps. To `add` later raises TimerClosedError. May be repeated."""
        with self._lock:
            self._closed = True
            cancelled = self._drain(self._due)
            for wheel in self._wheel:
                for bucket in wheel.buckets:
                    cancelled += self._drain(bucket)
            self._changed.notify_all()
        return cancelled

    def _drain(self, bucket: Bucket) -> list[TimerTask]:
        tasks = bucket.tasks()
        for task in tasks:
            bucket.remove(task)
        self._pending.count -= len(tasks)
        return tasks

    def used_buckets(self) -> list[tuple[int, int]]:
        """(tick_ms, buckets that hold tasks) of each wheel that exists, finest first."""
        with self._lock:
            return [(wheel.tick_ms, wheel.used_buckets) for wheel in self._wheel]

    def check(self) -> None:
        """Assert every invariant of the timer. For tests and for hunting bugs: O(pending)."""
        with self._lock:
            held = self._wheel.check() + self._due.check()
            assert held == self._pending.count, f"{held} tasks are linked but {self._pending.count} are counted"
