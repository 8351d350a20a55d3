"""What every timer has: a clock, the threads that sleep until a task is due, and its running."""

from __future__ import annotations

import logging
from functools import partial

from request_purgatory._native import primitives
from request_purgatory._native.turns import give_way
from request_purgatory.clock import Clock, MonotonicClock, check_range
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import (
    TimerClosedError,
    checked_name,
    refuse_copy,
    refuse_pickling,
    whole_number,
)
from request_purgatory.timer._sleeping_threads import SleepingThread, SleepingThreads
from request_purgatory.timer.clock_thread import ClockThread
from request_purgatory.timer.task import TimerHandle, TimerTask

logger = logging.getLogger("request_purgatory.timer.timer")


class TimerCore:
    """A timer without the place of its tasks, which subclasses have."""

    _initialized: bool

    def __init__(self, name: str, clock: Clock | None) -> None:
        if self._initialized:
            raise RuntimeError(f"{self!r} has been initialized before, and may hold tasks")
        self.name = checked_name(name)
        if clock is not None:
            check_range(clock)
        self.clock: Clock = clock if clock is not None else MonotonicClock()
        self.callback_errors = 0
        self._errors = ErrorLog(logger)
        self._lock = primitives.CoreLock()
        self._sleepers = SleepingThreads()
        self._wake_requested = False
        self._num_wakes = 0
        self._closed = False

    def __repr__(self) -> str:
        if not self._initialized:
            return f"<{type(self).__name__} not initialized>"
        closed = " closed" if self._closed else ""
        return f"<{type(self).__name__} {self.name!r} size={self.size}{closed}>"

    @property
    def next_expiration_ms(self) -> int | None:
        """When `advance_clock` next has work, on the timer's clock; None if no task is pending.

        This is when the next bucket with tasks is due. The tasks of a coarse bucket then move to a
        finer wheel, so the time may be earlier than that of the first task.
        """
        expiration_ms = self._peek_expiration_ms()
        return None if expiration_ms < 0 else expiration_ms

    def _peek_expiration_ms(self) -> int:
        """Return `next_expiration_ms`, or -1; a replay calls it at every instant."""
        primitives.require_init(self._initialized, self)
        now_ms = primitives.floor_ms(self.clock.read_ns())
        self._lock.acquire()
        expiration_ms = self._next_due_ms()
        self._lock.release()
        return now_ms if expiration_ms == 0 else expiration_ms

    # -- to be written by subclasses

    @property
    def size(self) -> int:
        raise NotImplementedError

    def add(self, task: TimerTask) -> None:
        raise NotImplementedError

    def _next_due_ms(self) -> int:
        """Return when `_collect_due` next finds something, 0 for now, -1 for never.

        The caller holds the lock.
        """
        raise NotImplementedError

    def _collect_due(self) -> bool:
        """Have `_pop_due` return what is due by now; True if there is something."""
        raise NotImplementedError

    def _pop_due(self) -> TimerTask | None:
        """Remove and return the next due task; None if none is due."""
        raise NotImplementedError

    def _drain(self) -> list[TimerTask]:
        """Unlink and return every task."""
        raise NotImplementedError

    def _pending_tasks(self) -> list[TimerTask]:
        raise NotImplementedError

    # -- the clock

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for the next bucket, then run all due tasks.

        Args:
            timeout_ms: Whole milliseconds on the timer's clock; 0 does not wait, None waits without
                a limit.

        Returns:
            True if a bucket was due; False if the time ran out, or `wake` or `shutdown` ended the
            wait.

        Raises:
            TimerClosedError: The timer has been shut down.
            InvalidArgumentError: `timeout_ms` is neither None nor a whole number.
        """
        primitives.require_init(self._initialized, self)
        return self._advance(timeout_ms, self._num_wakes)

    def _advance(self, timeout_ms: int | None, num_wakes: int) -> bool:
        """As `advance_clock`; a call of `wake` since `num_wakes` was read ends the wait, too."""
        if self._closed:
            raise TimerClosedError(self.name)
        if timeout_ms is not None and type(timeout_ms) is not int:
            timeout_ms = whole_number("timeout_ms", timeout_ms)
        came_due = self._collect_due()
        if not came_due and (timeout_ms is None or timeout_ms > 0):
            came_due = self._wait(timeout_ms, num_wakes)
        self._run_due(-1)
        return came_due

    def _run_due(self, at_most: int) -> None:
        """Execute due tasks; all of them if `at_most` is negative."""
        ended_ms = primitives.LIMIT
        task = self._pop_due() if at_most != 0 else None
        while task is not None:
            ended_ms = self._execute(task, ended_ms)
            # This may free the task, whose finalizer is user code: release it without the lock.
            task = None
            at_most -= 1
            if at_most & 63 == 0:  # After each 64th task.
                give_way()
                ended_ms = primitives.LIMIT
            if at_most != 0:
                task = self._pop_due()

    def _wait(self, timeout_ms: int | None, num_wakes: int) -> bool:
        """Sleep until a task is due, `wake` or `shutdown` is called, or `timeout_ms` have passed.

        Example: thread A calls this at 0 with `timeout_ms=100`; the only task is due at 60.

        1. A registers under the lock that it sleeps until 60, then sleeps on the clock.
        2. At 10 thread B adds a task due at 30. As 30 is before 60, B wakes A (`_add_from`).
        3. A collects nothing at 10, registers that it sleeps until 30, and sleeps again.
        4. At 30 A collects the bucket and returns True. Other threads that sleep on this timer may
           have relied on A's 60: A wakes them, and each registers its next time itself.

        Whether B adds its task before or after A registers, no wake-up is lost: A reads the next
        expiration and registers in one step under the lock, and an unpark before the sleep ends it
        at once.
        """
        give_up_ms = primitives.LIMIT
        if timeout_ms is not None:
            give_up_ms = primitives.ceil_ms(self.clock.read_ns()) + primitives.clamp(timeout_ms)
        lock = self._lock
        sleepers = self._sleepers
        lock.acquire()
        sleeper = sleepers.take_free()
        lock.release()
        if sleeper is None:
            # Without the lock, as creating objects may start the cyclic collector.
            sleeper = SleepingThread()
            lock.acquire()
            sleepers.add(sleeper)
            lock.release()
        try:
            while True:
                # Clear an earlier wake-up. Its cause was stored before it, so the checks below see
                # that cause.
                sleeper.park(0)
                lock.acquire()
                if self._wake_requested or self._closed or self._num_wakes != num_wakes:
                    self._wake_requested = False
                    lock.release()
                    return False
                until_ms = self._next_due_ms()
                if until_ms == 0:
                    # Added after this thread last collected, and due already.
                    lock.release()
                    return True
                if until_ms < 0 or give_up_ms < until_ms:
                    until_ms = give_up_ms
                # From here on a thread that adds a task due before `until_ms` wakes this thread,
                # even if this thread does not sleep yet.
                sleepers.sleep_until(sleeper, until_ms)
                lock.release()
                self.clock.wait_until(sleeper, None if until_ms >= primitives.LIMIT else until_ms)
                if self._collect_due():
                    return True
                if primitives.floor_ms(self.clock.read_ns()) >= give_up_ms:
                    self._wake_requested = False
                    return False
        finally:
            lock.acquire()
            others = sleepers.release(sleeper)
            lock.release()
            if others:
                sleepers.wake_all()

    def _execute(self, task: TimerTask, now_ms: int) -> int:
        return self._run_task(task, now_ms)

    def _run_task(self, task: TimerTask, now_ms: int) -> int:
        """Run the task as `TimerTask._run_from_timer`; log and count what it raises, but exits."""
        try:
            if type(task) is not TimerHandle:
                return task._run_from_timer(now_ms)
            handle = task
            handle.run()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # asyncio.CancelledError is not an Exception.
            self._lock.acquire()
            self.callback_errors += 1
            self._lock.release()
            self._errors.log(error, "timer %r: %s raised", self.name, task)
        return primitives.LIMIT

    def wake(self) -> None:
        """End all sleeps in `advance_clock`; if no thread sleeps, the next call returns at once."""
        primitives.require_init(self._initialized, self)
        self._lock.acquire()
        self._wake_requested = True
        self._num_wakes += 1
        self._lock.release()
        self._sleepers.wake_all()

    def shutdown(self) -> list[TimerTask]:
        """Cancel all pending tasks, wake sleeping threads and stop the clock thread.

        A later `add` raises TimerClosedError. A second `shutdown` has no effect.

        Returns:
            The tasks that were pending and will not run.
        """
        primitives.require_init(self._initialized, self)
        self._lock.acquire()
        self._closed = True
        self._lock.release()
        self._sleepers.wake_all()
        try:
            self._stop_clock_thread()
        finally:
            drained = self._drain()
        return drained

    def _make_clock_thread(self) -> ClockThread:
        # Here, as C has these methods for this class: GCC 14 refuses those of a subclass.
        return ClockThread(f"{self.name}-timer", partial(self.advance_clock, None), self.wake)

    def _stop_clock_thread(self) -> None:
        """Stop the thread that `start` has started, if any."""

    # A copy would share the original's tasks, and drop them.
    __copy__ = __deepcopy__ = refuse_copy
    __reduce__ = refuse_pickling

    # -- in a forked child

    def _fork_locks(self) -> list[primitives.CoreLock]:
        return [self._lock]

    def _reinit_locks(self) -> None:
        self._lock = primitives.CoreLock()

    def _reset_in_child(self) -> None:
        """Forget the threads that slept here, and the errors that the parent has logged."""
        self._sleepers = SleepingThreads()
        self._wake_requested = False
        self._errors.forget()


if not primitives.COMPILED:  # Compiled, the field begins so by itself.
    TimerCore._initialized = False  # noqa: SLF001 - the class itself
