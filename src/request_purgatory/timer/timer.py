"""The timer: a timing wheel, its delay queue of buckets, and the clock that drives them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from types import TracebackType
from typing import Any, Protocol

from request_purgatory._native import primitives
from request_purgatory._native.failsafe import log_contained
from request_purgatory._native.forks import begin_anew_in_children
from request_purgatory.clock import Clock, MonotonicClock, check_range
from request_purgatory.errors import TaskInUseError, TimerClosedError, whole_number
from request_purgatory.timer.bucket import Bucket
from request_purgatory.timer.clock_thread import ClockThread
from request_purgatory.timer.delay_queue import DelayQueue
from request_purgatory.timer.sleepers import Sleeper, Sleepers
from request_purgatory.timer.task import PendingTasks, TimerHandle, TimerTask, whole_ms
from request_purgatory.timer.wheel import TimingWheel, most_buckets

logger = logging.getLogger(__name__)


class Timer(Protocol):
    """What a purgatory needs of a timer.

    `SystemTimer` is the one to use; `legacy` has the 0.8 design's.
    """

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

    Somebody has to advance the clock. `with SystemTimer(...)` and `start` have a thread of the
    timer's own do it; a `DelayedOperationPurgatory` has its reaper; event loops and tests call
    `advance_clock` themselves. Every method may be called from any thread, from inside a task too,
    also while the clock is advancing.

    One lock guards the wheel. It is held for a handful of loads and stores, never while a task
    runs, the clock is read, somebody sleeps, or anything is made that the collector counts (its
    passes run finalizers, which are user code).

    >>> import threading
    >>> with SystemTimer("example") as timer:
    ...     fired = threading.Event()
    ...     handle = timer.call_later(30, fired.set)
    ...     fired.wait(timeout=10)
    True

    A task never runs before its delay has passed, and at most one tick plus scheduling after it.
    Tasks of one tick run in no promised order. A task that raises is logged and counted in
    `callback_errors`, and the next one runs.

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
            clock: where the time comes from, from 0 to 292 years; a MonotonicClock unless given.
            executor: runs the tasks; without one, the thread that advances the clock does. A task
                that it does not accept runs on that thread; of one that it drops, `TimerTask.drop`
                is called.

        Raises:
            InvalidArgumentError: tick_ms or wheel_size below its minimum, or a clock that reads
                less than 0 or too much.
        """
        self.name = name
        self.clock: Clock = clock if clock is not None else MonotonicClock()
        check_range(self.clock)
        self._is_monotonic = type(self.clock) is MonotonicClock
        self.callback_errors = 0
        self._executor = executor
        self._pending = PendingTasks()
        self._lock = self._pending.lock
        tick_ms = whole_ms("tick_ms", tick_ms)
        wheel_size = whole_number("wheel_size", wheel_size)
        self._queue = DelayQueue(most_buckets(tick_ms, wheel_size))
        self._wheel = TimingWheel(
            tick_ms,
            wheel_size,
            self.clock.now_ms,
            self._pending,
            self._queue,
        )
        self._top = self._wheel  # the coarsest level there is
        # Tasks whose time has come wait here, still linked, until each is started: so one that is
        # cancelled meanwhile does not run, and `size` stays exact.
        self._due = Bucket(self._pending)
        self._sleepers = Sleepers()
        self._woken = False
        self._closed = False
        self._clock_thread: ClockThread | None = None
        self._unstarted = False
        begin_anew_in_children(self)

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

        The time of the next bucket that has tasks: those of a coarse wheel are then moved to a
        finer one, so this may be before the first task is due.
        """
        expiration_ms = self._next_due_ms()
        return None if expiration_ms < 0 else expiration_ms

    def _next_due_ms(self) -> int:
        """`next_expiration_ms`, or -1, by a way that compiled code takes without a look-up.

        Replays ask at every instant.
        """
        now_ms = primitives.floor_ms(self.clock._read_ns())
        self._lock.acquire()
        expiration_ms = now_ms if self._due.head is not None else self._next_ms()
        self._lock.release()
        return expiration_ms

    def _next_ms(self) -> int:
        """When the next bucket that has tasks comes due; -1 if there is none. The lock is held."""
        bucket = self._queue.head()
        return -1 if bucket is None else bucket.expiration_ms

    def add(self, task: TimerTask) -> None:
        """Run `task` in `task.delay_ms` from now; a delay of 0 or less runs it at once.

        A pending task is moved.

        Raises:
            TimerClosedError: after `shutdown`.
            TaskInUseError: the task is pending in another timer.
            NotInitializedError: the task's class does not call `super().__init__(delay_ms)`.
        """
        task._require_init()
        bucket = task._bucket
        while bucket is not None and not self._closed:
            if not isinstance(bucket, Bucket) or bucket.pending is not self._pending:
                raise TaskInUseError(f"{task!r} is pending in another timer than {self.name!r}")
            bucket.take_out(task)
            bucket = task._bucket
        self._add(task, primitives.ceil_ms(self.clock._read_ns()))

    def call_later(self, delay_ms: int, callback: Callable[..., object], *args: Any) -> TimerHandle:
        """Call `callback(*args)` in `delay_ms` whole milliseconds.

        The handle's `cancel()` calls it off.

        Raises:
            TimerClosedError: after `shutdown`.
            InvalidArgumentError: `delay_ms` is not a whole number or beyond 10,000 years.
        """
        return self._call_later(delay_ms, callback, args)

    def _call_later(
        self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> TimerHandle:
        # TimerHandle.__init__ by hand: a call of the type packs its arguments into a tuple and
        # takes them out again.
        handle = TimerHandle.__new__(TimerHandle)
        if type(delay_ms) is int:
            handle._delay_ms = primitives.clamp(delay_ms)
            if handle._delay_ms > primitives.MAX_DELAY_MS:
                whole_ms("delay_ms", delay_ms)
        else:
            handle._delay_ms = whole_ms("delay_ms", delay_ms)
        if not primitives.COMPILED:  # A constant: compiled, they begin as this.
            handle._expiration_ms = 0
            handle._bucket = None
            handle._prev = None
            handle._next = None
        handle._callback = callback
        handle._args = args
        if self._is_monotonic:  # noqa: SIM108 - an expression of both would be a Python int for the compiler
            now_ns = primitives.monotonic_ns()
        else:
            now_ns = self.clock._read_ns()
        self._add(handle, primitives.ceil_ms(now_ns))
        return handle

    def _add(self, task: TimerTask, start_ms: int) -> None:
        """Link a task that is in no bucket, its delay counted from `start_ms`.

        What has no delay runs.
        """
        delay_ms = task._delay_ms
        if delay_ms <= 0:
            if self._closed:
                raise TimerClosedError(self.name)
            self._start(task)
            return
        wheel = self._wheel
        expiration_ms = start_ms + delay_ms
        if wheel.tick_ms > 1:
            expiration_ms = wheel.round_up(expiration_ms)
        top = self._top
        if expiration_ms >= top.current_ms + top.interval_ms:
            self._make_room(start_ms, expiration_ms)
        lock = self._lock
        lock.acquire()
        if self._closed:
            lock.release()
            raise TimerClosedError(self.name)
        if task._bucket is not None:
            lock.release()
            self.add(task)  # Another thread added it meanwhile: this one moves it.
            return
        if start_ms > wheel.current_ms + wheel.tick_ms:
            self._catch_up(start_ms - 1)
        task._expiration_ms = expiration_ms
        if not wheel.add(task):
            # The clock has been advanced past it since it was read: due, and still pending until it
            # is started.
            self._due._link(task)
        else:
            # A coarse bucket has to be looked at before its tasks are due.
            bucket: Any = task._bucket
            expiration_ms = bucket.expiration_ms
        self._pending.count += 1
        too_late = expiration_ms < self._sleepers.first_ms
        lock.release()
        if too_late:
            self._wake_sleepers()

    def _wake_sleepers(self) -> None:
        self._sleepers.wake()
        if self._unstarted:
            assert self._clock_thread is not None, "a timer without a thread has none to start"
            self._clock_thread.start()
            self._unstarted = False

    def _make_room(self, start_ms: int, expiration_ms: int) -> None:
        """Put levels on top until they reach `expiration_ms`."""
        lock = self._lock
        lock.acquire()
        self._catch_up(start_ms - 1)
        top = self._top
        while expiration_ms >= top.current_ms + top.interval_ms:
            lock.release()
            # Not under the lock: making objects may start the collector.
            overflow = top.make_overflow()
            lock.acquire()
            if self._top is top:
                top.set_overflow(overflow)
                self._top = overflow
            top = self._top
        lock.release()

    def _catch_up(self, now_ms: int) -> None:
        """Move the wheel's clock towards `now_ms` where no task is in between, so that a timer that idled for an hour does
        not put a short delay into a coarse bucket. The lock is held."""
        wheel = self._wheel
        if now_ms >= wheel.current_ms + wheel.tick_ms:
            next_ms = self._next_ms()
            if next_ms < 0 or next_ms > now_ms:
                wheel.advance(now_ms)

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for the next bucket, then run what is due, all of it.

        Args:
            timeout_ms: whole milliseconds on the timer's clock; 0 only looks, None waits until
                there is something.

        Returns:
            True if a bucket came due; False if the time ran out, or `wake` or `shutdown` ended the
            wait.

        Raises:
            TimerClosedError: after `shutdown`.
        """
        if self._closed:
            raise TimerClosedError(self.name)
        came_due = self._collect()
        if not came_due and (timeout_ms is None or timeout_ms > 0):
            came_due = self._wait(timeout_ms)
        self._run_due(-1)
        return came_due

    def run_due(self, at_most: int) -> bool:
        """Run what is due now, at most so many tasks; True if more is due.

        What is left stays pending, and `next_expiration_ms`
        is now.

        For a host that has other things to do in between: an event loop.

        Raises:
            TimerClosedError: after `shutdown`.
        """
        if self._closed:
            raise TimerClosedError(self.name)
        self._collect()
        self._run_due(at_most)
        return self._due.head is not None

    def _run_due(self, at_most: int) -> None:
        """Start the due tasks; all of them if `at_most` is negative."""
        task = self._take_due() if at_most != 0 else None
        while task is not None:
            self._start(task)
            # The last reference to the task may go here, and its finalizer is user code: not under
            # the lock.
            task = None
            at_most -= 1
            if at_most != 0:
                task = self._take_due()

    def _wait(self, timeout_ms: int | None) -> bool:
        """Sleep until something is due; True if it is."""
        give_up_ms = primitives.LIMIT
        if timeout_ms is not None:
            give_up_ms = primitives.ceil_ms(self.clock._read_ns()) + primitives.clamp(timeout_ms)
        lock = self._lock
        sleepers = self._sleepers
        lock.acquire()
        sleeper = sleepers.take()
        lock.release()
        if sleeper is None:
            sleeper = Sleeper()  # Not under the lock: making objects may start the collector.
            lock.acquire()
            sleepers.join(sleeper)
            lock.release()
        try:
            while True:
                # Whoever wakes a sleeper has made its change before; the look below comes after
                # both.
                sleeper.park(0)
                lock.acquire()
                if self._woken or self._closed:
                    self._woken = False
                    lock.release()
                    return False
                if self._due.head is not None:
                    # Its time was over when it came, after this thread last collected.
                    lock.release()
                    return True
                until_ms = self._next_ms()
                if until_ms < 0 or give_up_ms < until_ms:
                    until_ms = give_up_ms
                # From here on whoever adds something that is due before `until_ms` wakes this
                # thread, asleep already or not.
                sleepers.enter(sleeper, until_ms)
                lock.release()
                self.clock.wait_until(sleeper, None if until_ms >= primitives.LIMIT else until_ms)
                if self._collect():
                    return True
                if primitives.floor_ms(self.clock._read_ns()) >= give_up_ms:
                    self._woken = False
                    return False
        finally:
            lock.acquire()
            others = sleepers.leave(sleeper)
            lock.release()
            if others:
                sleepers.wake()

    def _collect(self) -> bool:
        """Move every task that is due at the clock's present to `_due`; True if there are any."""
        now_ms = primitives.floor_ms(self.clock._read_ns())
        wheel = self._wheel
        due = self._due
        self._lock.acquire()
        came_due = due.head is not None
        bucket = self._queue.poll(now_ms)
        while bucket is not None:
            came_due = True
            wheel.advance(bucket.expiration_ms)
            bucket.expiration_ms = -1
            # The whole chain at once, which is less work than one by one.
            task = bucket.head
            bucket.head = None
            bucket.tail = None
            while task is not None:
                after = task._next
                # `_bucket` goes from the old one to the new one in one step: whoever cancels looks
                # there without the lock, and would take None for "not pending".
                task._prev = None
                task._next = None
                if not wheel.add(task):
                    due._link(task)
                task = after
            bucket = self._queue.poll(now_ms)
        wheel.advance(now_ms)
        self._lock.release()
        return came_due

    def _take_due(self) -> TimerTask | None:
        """The next due task, now no longer pending."""
        self._lock.acquire()
        task = self._due.pop_first()
        if task is not None:
            self._pending.count -= 1
        self._lock.release()
        return task

    def _start(self, task: TimerTask) -> None:
        executor = self._executor
        if executor is None:
            self._run(task)
            return
        try:
            accepted = executor.submit(self._run, task)
        except BaseException as error:  # It was shut down, its queue is full: whatever it raises, the task must not be lost.
            log_contained(
                logger,
                error,
                "timer %r: the executor refused %r: it runs on the clock's thread",
                self.name,
                task,
            )
            self._run(task)
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            return
        # An executor of somebody's own may return what it likes.
        watch = getattr(accepted, "add_done_callback", None)
        if watch is not None:
            watch(partial(self._left_executor, task))

    def _left_executor(self, task: TimerTask, accepted: Future[object]) -> None:
        """Called by the executor when it is done with a task.

        An executor that is shut down may drop what it had accepted.
        """
        if accepted.cancelled():
            logger.warning("timer %r: the executor dropped %r, which will not run", self.name, task)
            try:
                task.drop()
            except Exception as error:
                log_contained(logger, error, "timer %r: %r raised", self.name, task)

    def _run(self, task: TimerTask) -> None:
        try:
            if type(task) is TimerHandle:
                handle = task
                handle._fire()
            else:
                task.run()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # asyncio's CancelledError is none of Exception's
            self._lock.acquire()
            self.callback_errors += 1
            self._lock.release()
            log_contained(logger, error, "timer %r: %r raised", self.name, task)

    def wake(self) -> None:
        """End the sleep of a thread in `advance_clock`; if none sleeps, the next one's."""
        self._lock.acquire()
        self._woken = True
        self._lock.release()
        self._sleepers.wake()

    def shutdown(self) -> list[TimerTask]:
        """Cancel what is pending and return it; wake who sleeps.

        To `add` later raises TimerClosedError. May be repeated.
        """
        self._lock.acquire()
        self._closed = True
        self._lock.release()
        self._sleepers.wake()
        try:
            if self._clock_thread is not None:
                self._clock_thread.stop()
        finally:
            drained = self._drain()
        return drained

    def start(self) -> None:
        """Run by itself from now on: a thread advances the clock until `shutdown`.

        What `with` does.

        A process that is forked has no such thread: the timer is empty there, and a thread starts
        with its first task.

        Raises:
            TimerClosedError: after `shutdown`.
        """
        if self._closed:
            raise TimerClosedError(self.name)
        if self._clock_thread is None:
            self._clock_thread = self._make_clock_thread()
        self._clock_thread.start()

    def _make_clock_thread(self) -> ClockThread:
        return ClockThread(f"{self.name}-timer", partial(self.advance_clock, None), self.wake)

    def __enter__(self) -> SystemTimer:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    # -- in a forked child

    def _fork_locks(self) -> list[primitives.CoreLock]:
        return [self._lock]

    def _renew_locks(self) -> None:
        self._lock = self._pending.lock = primitives.CoreLock()

    def _begin_in_child(self) -> None:
        """Forget the threads that slept here.

        What runs by itself begins empty: its tasks are run in the parent.
        """
        self._sleepers = Sleepers()
        self._woken = False
        if self._clock_thread is not None:
            # Started by the first task: a child that never uses the timer gets no thread.
            self._clock_thread = self._make_clock_thread()
            self._unstarted = True
            self._sleepers.expect(primitives.LIMIT)
            for task in self._drain():
                task._disown()

    def _buckets(self) -> list[Bucket]:
        """Every bucket, of the coarsest wheel first; what is due comes last."""
        return [
            *[bucket for wheel in reversed(list(self._wheel)) for bucket in wheel.buckets],
            self._due,
        ]

    def _tasks(self) -> list[TimerTask]:
        """Every task, for a forked child and its purgatories: nobody else may be at work."""
        return [task for bucket in self._buckets() for task in bucket.tasks()]

    def _drain(self) -> list[TimerTask]:
        """Unlink every task."""
        drained: list[TimerTask] = []
        # Once closed no bucket gets a task but from another one, above it, by a thread that is
        # advancing the clock: so from the coarsest wheel down, each is met.
        for bucket in self._buckets():
            while True:
                self._lock.acquire()
                task = bucket.pop_first()
                if task is not None:
                    self._pending.count -= 1
                self._lock.release()
                if task is None:
                    break
                if primitives.HIDES:
                    primitives.show(task)
                drained.append(task)  # Not under the lock: it may find no memory.
        return drained

    def __del__(self) -> None:
        # A timer that is dropped with tasks pending: bucket and tasks refer to one another, and in
        # the compiled build nobody else takes that apart.
        if getattr(self, "_wheel", None) is not None:  # It is if the arguments were refused.
            self._drain()

    def used_buckets(self) -> list[tuple[int, int]]:
        """(tick_ms, buckets that hold tasks) of each wheel that exists, finest first."""
        return [(wheel.tick_ms, wheel.used_buckets) for wheel in self._wheel]

    def check(self) -> None:
        """Assert every invariant of the timer.

        For tests and for hunting bugs, while no other thread is at work: O(pending).
        """
        held = self._wheel.check() + self._due.check()
        assert held == self._pending.count, (
            f"{held} tasks are linked but {self._pending.count} are counted"
        )
        assert next(reversed(list(self._wheel))) is self._top, "the coarsest wheel is not the top"
