"""The timer: a timing wheel, its delay queue of buckets, and the clock that drives them."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from request_purgatory._native import hiding, linked_list, primitives
from request_purgatory._native.failsafe import ends_program
from request_purgatory._native.forks import register_for_forks
from request_purgatory.clock import Clock, MonotonicClock
from request_purgatory.errors import (
    InterruptedUseError,
    TaskInUseError,
    TimerClosedError,
    number_within,
    require_type,
    shown,
    whole_number,
)
from request_purgatory.timer._bucket import Bucket, PendingTasks
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer._executors import ParentsExecutor, Submission, check_executor
from request_purgatory.timer._timer_core import TimerCore
from request_purgatory.timer.clock_thread import ClockThread
from request_purgatory.timer.task import TimerHandle, TimerTask, whole_ms
from request_purgatory.timer.wheel import TimingWheel, WheelOccupancy, max_buckets

#: What a timer has unless told otherwise: the resolution, and the buckets of each wheel.
DEFAULT_TICK_MS = 1
DEFAULT_WHEEL_SIZE = 256
#: The most buckets of a wheel. More would take gigabytes, and make no task move less often.
MAX_WHEEL_SIZE = 2**20
#: How far a clock may go back, in whole milliseconds, before the wheel goes back with it.
MOST_BACK_MS = 1000


class SystemTimer(TimerCore):
    """Runs tasks after a delay; adding and cancelling are O(1) for any number of pending tasks.

    A thread has to advance the clock. `with SystemTimer(...)` and `start` start one. A
    `DelayedOperationPurgatory` has its reaper thread. Event loops and tests call `advance_clock`
    themselves. Any thread may call every method, also from inside a task and while the clock
    advances.

    >>> import threading
    >>> with SystemTimer("example") as timer:
    ...     fired = threading.Event()
    ...     handle = timer.call_later_ms(30, fired.set)
    ...     fired.wait(timeout=10)
    True

    A task never runs before its delay has passed. It is late by at most one tick plus scheduling.
    A clock that goes back makes tasks late, by a second at most, and none early. Tasks of one tick
    run in any order. An exception that a task raises is logged and counted in `callback_errors`,
    and the next task runs.

    >>> from request_purgatory.clock import ManualClock
    >>> clock = ManualClock()
    >>> timer = SystemTimer("example", clock=clock)
    >>> handle = timer.call_later_ms(30, print, "30 ms have passed")
    >>> timer.size, timer.next_expiration_ms
    (1, 30)
    >>> clock.advance(30)
    >>> timer.advance_clock(0)
    30 ms have passed
    True

    One lock guards the wheel, for a few loads and stores at a time. The timer never holds it while
    a task runs, the clock is read, or a thread sleeps. Nor does it create objects under the lock:
    that could start the cyclic collector, which runs finalizers, which are user code.

    Attributes:
        name: Shown in errors and logs.
        clock: The clock that the timer runs on.
        callback_errors: The number of exceptions that tasks raised.
    """

    def __init__(
        self,
        name: str,
        *,
        tick_ms: int = DEFAULT_TICK_MS,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        clock: Clock | None = None,
        executor: Executor | None = None,
    ) -> None:
        """Create a timer whose wheel starts at the clock's current time.

        Args:
            name: Shown in errors and logs.
            tick_ms: The resolution in whole milliseconds, at least 1.
            wheel_size: Buckets per wheel, from 2 to 1,048,576. Kafka has 20. With more, a task
                moves less often before it is due: two wheels of 256 reach a minute at 1 ms, four of
                20 do.
            clock: The source of time, from 0 to 292 years; a MonotonicClock by default.
            executor: Runs the tasks; by default the thread that advances the clock does. A task
                that the executor refuses, or returns no future for, runs on that thread. If the
                executor drops a task, the timer calls `TimerTask.drop`. A forked child does not use
                its parent's executor.

        Raises:
            InvalidArgumentError: `name` is not a str, `tick_ms` or `wheel_size` is below its
                minimum or above its maximum, `clock` is no Clock or reads less than 0 or more than
                292 years, or `executor` is none or runs tasks in other processes.
            RuntimeError: The timer has been initialized before.
        """
        TimerCore.__init__(self, name, clock)
        check_executor(executor)
        self._is_monotonic = type(self.clock) is MonotonicClock
        self._executor: Any = executor  # In a forked child, a ParentsExecutor.
        self._pending = PendingTasks()
        self._lock = self._pending.lock
        tick_ms = whole_ms("tick_ms", tick_ms)
        wheel_size = number_within("wheel_size", wheel_size, 2, MAX_WHEEL_SIZE)
        self._queue = DelayQueue(max_buckets(tick_ms, wheel_size))
        self._wheel = TimingWheel(
            tick_ms, wheel_size, self.clock.now_ms, self._pending, self._queue
        )
        self._coarsest = self._wheel
        # Due tasks stay linked here until each is executed. So a task that is cancelled meanwhile
        # does not run, and `size` stays exact.
        self._due = Bucket(self._pending)
        self._clock_thread: ClockThread | None = None
        self._starts_with_first_task = False
        self._initialized = True
        register_for_forks(self)

    @property
    def size(self) -> int:
        """The exact number of pending tasks."""
        primitives.require_init(self._initialized, self)
        return self._pending.count

    @property
    def tick_ms(self) -> int:
        """The resolution in whole milliseconds."""
        primitives.require_init(self._initialized, self)
        return self._wheel.tick_ms

    def _next_due_ms(self) -> int:
        return self._next_bucket_ms() if linked_list.is_empty(self._due) else 0

    def _next_bucket_ms(self) -> int:
        """Return when the next bucket with tasks is due, or -1. The caller holds the lock."""
        bucket = self._queue.head()
        return -1 if bucket is None else bucket.expiration_ms

    def add(self, task: TimerTask) -> None:
        """Run `task` after `task.delay_ms`; a delay of 0 or less runs it at once.

        A pending task is moved.

        Args:
            task: A task that is in no timer, or pending in this one.

        Raises:
            TimerClosedError: The timer has been shut down.
            TaskInUseError: The task is pending in another timer.
            NotInitializedError: The task's class does not call `super().__init__(delay_ms)`.
            TypeError: `task` is no TimerTask.
        """
        primitives.require_init(self._initialized, self)
        if not primitives.COMPILED:
            require_type("task", task, TimerTask)
        primitives.require_init(task._timer_expiration_ms != 0, task)
        self._add_from(task, primitives.ceil_ms(self.clock.read_ns()))

    def call_later_ms(
        self, delay_ms: int, callback: Callable[..., object], *args: Any
    ) -> TimerHandle:
        """Call `callback(*args)` after `delay_ms`; a delay of 0 or less calls it at once.

        Args:
            delay_ms: Whole milliseconds (asyncio's `call_later` takes seconds).
            callback: What to call.
            args: The callback's positional arguments.

        Returns:
            A handle whose `cancel()` cancels the call.

        Raises:
            TimerClosedError: The timer has been shut down.
            InvalidArgumentError: `delay_ms` is not a whole number, or is more than 10,000 years.
        """
        primitives.require_init(self._initialized, self)
        return self._call_later_ms(delay_ms, callback, args)

    def _call_later_ms(
        self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> TimerHandle:
        # This inlines TimerHandle.__init__: a call of the type would pack its arguments into a
        # tuple and unpack them again.
        handle = TimerHandle.__new__(TimerHandle)
        if type(delay_ms) is int:
            handle._timer_delay_ms = primitives.clamp(delay_ms)
            if handle._timer_delay_ms > primitives.MAX_DELAY_MS:
                whole_ms("delay_ms", delay_ms)
        else:
            handle._timer_delay_ms = whole_ms("delay_ms", delay_ms)
        handle._timer_expiration_ms = -1
        if not primitives.COMPILED:  # A constant. Compiled links start as none by themselves.
            handle.node_list = None
            handle.node_prev = None
            handle.node_next = None
        handle.callback = callback
        handle.args = args
        # Not a conditional expression, whose type would be a Python int for the compiler.
        if self._is_monotonic:  # noqa: SIM108
            now_ns = primitives.monotonic_ns()
        else:
            now_ns = self.clock.read_ns()
        self._add_from(handle, primitives.ceil_ms(now_ns))
        return handle

    def _add_from(self, task: TimerTask, start_ms: int) -> None:
        """Add a task, or move it, with its delay counted from `start_ms`.

        For this package only: the compiled build has this method in C only.

        Example: tick 1 ms, wheels of 20 buckets, no task pending. The wheel's clock still stands at
        0 although `start_ms` is 1000, as no thread had a reason to advance it. A task of 30 ms is
        due at 1030, beyond the finest wheel's [0, 20).

        1. `_add_overflow_wheels` moves the wheel's clock to 999, as no task is in between. The
           finest wheel now covers [999, 1019), so 1030 needs the second level: 20 ms per bucket,
           [980, 1380).
        2. Under the lock, the wheel links the task into the bucket of [1020, 1040) and enters that
           bucket into the delay queue for 1020: then its tasks move to the finest wheel.
        3. A thread that sleeps until its time limit at 5000, say, is woken: it has to collect the
           bucket at 1020.
        """
        delay_ms = task._timer_delay_ms
        if delay_ms <= 0:
            self._run_at_once(task)
            return
        expiration_ms = start_ms + delay_ms
        # No local names for the timer's parts: compiled, each would count a reference.
        if self._wheel.tick_ms > 1:
            expiration_ms = self._wheel.round_up(expiration_ms)
        if expiration_ms >= self._coarsest.current_ms + self._coarsest.interval_ms:
            self._add_overflow_wheels(start_ms, expiration_ms)
        self._lock.acquire()
        if self._closed:
            self._lock.release()
            raise TimerClosedError(self.name)
        if linked_list.is_linked(task) and not self._take_out(task):
            self._lock.release()
            raise TaskInUseError(f"{shown(task)} is pending in another timer than {self.name!r}")
        if start_ms > self._wheel.current_ms + self._wheel.tick_ms:
            self._skip_idle_time(start_ms - 1)
        task._timer_expiration_ms = expiration_ms
        if not self._wheel.add(task):
            self._add_passed(task)
            return
        self._pending.count += 1
        # A coarse bucket has to be collected before its tasks are due.
        wakes_too_late = self._pending.due_ms < self._sleepers.earliest_ms
        self._lock.release()
        if wakes_too_late:
            self._wake_sleepers()

    def _add_passed(self, task: TimerTask) -> None:
        """Add a task whose time the wheel has passed; the caller holds the lock, which is released.

        If another thread has advanced the wheel since this one read the clock, the task is due, and
        stays pending until it is executed. If the clock itself has gone back, the task is early.
        Then it waits for the wheel's next tick, or, where that is far, the wheel goes back, too.
        """
        expiration_ms = task._timer_expiration_ms
        next_ms = self._wheel.current_ms + self._wheel.tick_ms
        # First into a bucket, as the clock may raise.
        task._timer_expiration_ms = next_ms
        self._wheel.add(task)
        self._pending.count += 1
        self._lock.release()
        self._wake_sleepers()
        try:
            now_ms = primitives.floor_ms(self.clock.read_ns())
        except Exception:
            now_ms = -1
        if now_ms < 0:
            return
        if now_ms < expiration_ms:
            if now_ms < next_ms - MOST_BACK_MS:
                self._go_back(task, expiration_ms, next_ms, now_ms)
            return
        self._lock.acquire()
        if (
            linked_list.is_linked(task)
            and task._timer_expiration_ms == next_ms
            and self._take_out(task)
        ):
            linked_list.append(self._due, task)
            self._pending.count += 1
        self._lock.release()
        self._wake_sleepers()

    def _go_back(self, task: TimerTask, expiration_ms: int, next_ms: int, now_ms: int) -> None:
        """Set the wheel back to `now_ms`, and put a task that waits for `next_ms` in its place.

        O(pending). All tasks keep their expirations on the clock, as those of an event loop do.
        """
        # All memory before the lock: with these wheels any task finds its bucket.
        moved = Bucket(self._pending)
        while self._coarsest.interval_ms <= 2 * primitives.MAX_DELAY_MS:
            top = self._coarsest
            overflow = top.make_overflow()
            self._lock.acquire()
            if self._coarsest is top:
                top.set_overflow(overflow)
                self._coarsest = overflow
            self._lock.release()
        self._lock.acquire()
        is_waiting = (
            linked_list.is_linked(task)
            and task._timer_expiration_ms == next_ms
            and self._take_out(task)
        )
        if now_ms < self._wheel.current_ms:
            self._wheel.go_back(now_ms, moved)
        if is_waiting:
            task._timer_expiration_ms = expiration_ms
            self._wheel.add(task)
            self._pending.count += 1
        self._lock.release()
        self._wake_sleepers()

    def _take_out(self, task: TimerTask) -> bool:
        """Unlink a pending task, under the lock; False if it is pending in another timer."""
        bucket: Bucket = linked_list.list_of(task)
        if bucket.pending is not self._pending:
            return False
        linked_list.remove(bucket, task)
        self._pending.count -= 1
        return True

    def _run_at_once(self, task: TimerTask) -> None:
        """Execute a task that has no delay, after taking it out of its bucket."""
        self._lock.acquire()
        closed = self._closed
        mine = closed or not linked_list.is_linked(task) or self._take_out(task)
        self._lock.release()
        if closed:
            raise TimerClosedError(self.name)
        if not mine:
            raise TaskInUseError(f"{shown(task)} is pending in another timer than {self.name!r}")
        self._execute(task, primitives.LIMIT)

    def _wake_sleepers(self) -> None:
        """Wake the threads that sleep in `advance_clock`; in a forked child, start the first."""
        self._sleepers.wake_all()
        if self._starts_with_first_task:
            assert self._clock_thread is not None, "the timer has no clock thread to start"
            self._clock_thread.start()
            self._starts_with_first_task = False

    def _add_overflow_wheels(self, start_ms: int, expiration_ms: int) -> None:
        """Add coarser wheels until the coarsest covers `expiration_ms`."""
        lock = self._lock
        lock.acquire()
        self._skip_idle_time(start_ms - 1)
        top = self._coarsest
        while expiration_ms >= top.current_ms + top.interval_ms:
            lock.release()
            # Without the lock, as creating objects may start the cyclic collector.
            overflow = top.make_overflow()
            lock.acquire()
            if self._coarsest is top:
                top.set_overflow(overflow)
                self._coarsest = overflow
            top = self._coarsest
        lock.release()

    def _skip_idle_time(self, now_ms: int) -> None:
        """Move the wheel's clock to `now_ms` if no task is due by then.

        Without this, a timer that was idle for an hour would put a short delay into a coarse
        bucket. The caller holds the lock.
        """
        wheel = self._wheel
        if now_ms >= wheel.current_ms + wheel.tick_ms:
            next_ms = self._next_bucket_ms()
            if next_ms < 0 or next_ms > now_ms:
                wheel.advance(now_ms)

    def run_due(self, at_most: int) -> bool:
        """Run due tasks, at most `at_most` of them, without waiting.

        For callers that have other work in between, such as an event loop. The remaining due tasks
        stay pending, and `next_expiration_ms` is the current time.

        Args:
            at_most: The largest number of tasks to run.

        Returns:
            True if more tasks are due.

        Raises:
            TimerClosedError: The timer has been shut down.
            InvalidArgumentError: `at_most` is not a whole number.
        """
        primitives.require_init(self._initialized, self)
        if self._closed:
            raise TimerClosedError(self.name)
        if type(at_most) is not int:
            at_most = whole_number("at_most", at_most)
        self._collect_due()
        self._run_due(primitives.clamp(at_most))
        return not linked_list.is_empty(self._due)

    def _collect_due(self) -> bool:
        """Move every task that is due by now to `_due`; True if there are any."""
        now_ms = primitives.floor_ms(self.clock.read_ns())
        wheel = self._wheel
        due = self._due
        self._lock.acquire()
        came_due = not linked_list.is_empty(due)
        moved = 0
        bucket = self._queue.head()
        while bucket is not None and bucket.expiration_ms <= now_ms:
            # It stays the queue's first until it is empty. So where others get the lock meanwhile,
            # each finds it due, and nothing is added to it: no wheel has a later slot of it yet.
            came_due = True
            wheel.advance(bucket.expiration_ms)
            task = linked_list.detach_first(bucket)
            while task is not None:
                if not wheel.add(task):
                    linked_list.append(due, task)
                moved += 1
                task = linked_list.detach_first(bucket) if moved < 4000 else None
            if moved >= 4000:  # Some 1 ms.
                moved = 0
                self._lock.release()
                primitives.let_others_run()
                self._lock.acquire()
            bucket = self._queue.head()
        wheel.advance(now_ms)
        self._lock.release()
        return came_due

    def _pop_due(self) -> TimerTask | None:
        """Remove and return the next due task; None if none is due."""
        self._lock.acquire()
        task: TimerTask | None = linked_list.pop_first(self._due)
        if task is not None:
            self._pending.count -= 1
        self._lock.release()
        return task

    def _execute(self, task: TimerTask, now_ms: int) -> int:
        if self._executor is None:
            return self._run_task(task, now_ms)
        self._submit(task)
        return primitives.LIMIT

    def _submit(self, task: TimerTask) -> None:
        executor = self._executor
        submission: Submission | None = None
        try:
            submission = Submission(self._run_submission, task)
            accepted = executor.submit(submission)
            add_done_callback = getattr(accepted, "add_done_callback", None)
            if add_done_callback is not None:
                add_done_callback(partial(self._on_executor_done, submission))
            elif submission.claimed.acquire(blocking=False):
                # Without a future nothing tells whether the executor has the task, or dropped it.
                try:
                    self._errors.warn(
                        "timer %r: the executor returned no future for %s, which runs on the "
                        "clock's thread instead",
                        self.name,
                        task,
                    )
                finally:
                    self._run_task(task, primitives.LIMIT)
        except BaseException as error:
            begun = submission is not None and not submission.claimed.acquire(blocking=False)
            if not begun:
                # The executor was shut down, or its queue is full, say. The task must not be lost,
                # whatever logging raises.
                try:
                    self._errors.log(
                        error,
                        "timer %r: the executor refused %s, which runs on the clock's thread "
                        "instead",
                        self.name,
                        task,
                    )
                finally:
                    self._run_task(task, primitives.LIMIT)
            elif not ends_program(error):
                self._errors.log(
                    error, "timer %r: the executor raised after it had begun %s", self.name, task
                )
            if ends_program(error):
                raise

    def _run_submission(self, submission: Submission) -> None:
        """Run the task of a submission unless it was claimed.

        Compiled, no signal handler comes between the claim and the task.
        """
        if submission.claimed.acquire(blocking=False):
            self._run_task(submission.task, primitives.LIMIT)

    def _on_executor_done(self, submission: Submission, accepted: Future[object]) -> None:
        """Call `task.drop()` if the executor was shut down, or failed, before it ran the task."""
        if accepted.cancelled() or accepted.exception() is not None:
            task = submission.task
            if not submission.claimed.acquire(blocking=False):
                return
            try:
                self._errors.warn(
                    "timer %r: the executor dropped %s, which will not run", self.name, task
                )
            finally:  # Whatever logging raises.
                self._drop_task(task)

    def _drop_task(self, task: TimerTask) -> None:
        try:
            task.drop()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            self._errors.log(error, "timer %r: %s raised", self.name, task)

    def _stop_clock_thread(self) -> None:
        if self._clock_thread is not None:
            self._clock_thread.stop()

    def start(self) -> None:
        """Start a thread that advances the clock until `shutdown`; `with` does this too.

        A forked child process does not inherit the thread. There the timer is empty, and a new
        thread starts with the first task.

        Raises:
            TimerClosedError: The timer has been shut down.
        """
        primitives.require_init(self._initialized, self)
        if self._closed:
            raise TimerClosedError(self.name)
        if self._clock_thread is None:
            self._clock_thread = self._make_clock_thread()
            hiding.register(self)
        self._clock_thread.start()

    def __enter__(self) -> SystemTimer:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.shutdown()

    # -- the cyclic collector: `hiding.pyx` calls these around full collections

    def _is_driven(self) -> bool:
        """Return True if the timer's own thread runs, which refers to it."""
        return self._clock_thread is not None and self._clock_thread.is_running

    def _pass_over(self, passed_over: bool) -> None:
        self._pending.passed_over = passed_over

    def _show_waiting(self) -> None:
        """Do nothing: tasks are never hidden, but the operations of a purgatory, by itself."""

    def _hide_waiting(self) -> None:
        """Do nothing, as `_show_waiting`."""

    # -- in a forked child

    def _reinit_locks(self) -> None:
        TimerCore._reinit_locks(self)
        self._pending.lock = self._lock

    def _reset_in_child(self) -> None:
        """Drop the tasks of a timer that has a clock thread: the parent process runs them."""
        TimerCore._reset_in_child(self)
        if self._executor is not None:
            self._executor = ParentsExecutor(self.name, self._executor)
        if self._clock_thread is not None:
            # The first task is due before `earliest_ms`, and so starts the thread: a child that
            # never uses the timer has none.
            self._clock_thread = self._make_clock_thread()
            self._starts_with_first_task = True
            self._sleepers.earliest_ms = primitives.LIMIT
            for task in self._drain():
                task._abandon_in_child()

    def _all_buckets(self) -> list[Bucket]:
        """Return every bucket, those of the coarsest wheel first and the one of due tasks last."""
        primitives.require_init(self._initialized, self)
        return [
            *[bucket for wheel in reversed(list(self._wheel)) for bucket in wheel.buckets],
            self._due,
        ]

    def _pending_tasks(self) -> list[TimerTask]:
        """Return all pending tasks, while no other thread uses the timer.

        For a forked child process, where the purgatory abandons the parent's operations, and for
        the purgatory's dealings with the cyclic collector under the interpreter lock.
        """
        return [task for bucket in self._all_buckets() for task in bucket.tasks()]

    def _drain(self) -> list[TimerTask]:
        """Unlink and return every task."""
        buckets = self._all_buckets()
        self._lock.acquire()
        count = self._pending.count
        self._lock.release()
        # All memory first: a task that has left its bucket is in the list that is returned.
        drained: list[Any] = [None] * count
        found = 0
        # After `shutdown`, tasks only move from a bucket to a finer one, by a thread that advances
        # the clock. So going from the coarsest wheel to the finest finds every task.
        for bucket in buckets:
            while found < count:
                self._lock.acquire()
                task: TimerTask | None = linked_list.pop_first(bucket)
                if task is not None:
                    self._pending.count -= 1
                self._lock.release()
                if task is None:
                    break
                hiding.show(task)
                if type(task) is TimerHandle:
                    handle: TimerHandle = task
                    handle._drop_references()  # Of what may refer to the handle.
                drained[found] = task
                found += 1
                if found % 4000 == 0:  # Some 1 ms.
                    primitives.let_others_run()
        if found < count:  # Other tasks were cancelled or have run meanwhile.
            del drained[found:]
        return drained

    def __del__(self) -> None:
        # Buckets and pending tasks refer to one another, and the compiled build's tasks are not
        # tracked by the cyclic collector: break the cycles here.
        # None if `__init__` raised.
        if getattr(self, "_wheel", None) is not None and self._pending.count > 0:
            try:
                self._drain()
            except InterruptedUseError:
                # The collector has come between two steps of this thread in the interpreted core.
                # There it takes the cycles apart by itself.
                pass

    def occupancy(self, at_most: int = 1000) -> list[WheelOccupancy]:
        """Return how many tasks are in each bucket of each wheel, finest wheel first.

        For a picture of the wheels. Any thread may call it. The buckets are read one after another,
        and the timer's lock is held while one is counted: some microseconds for 1,000 tasks.
        Meanwhile tasks come and go, so the sum may differ from `size`. Due tasks that wait for
        their turn to run are in no wheel.

        Args:
            at_most: Count no further than this in a bucket.

        Raises:
            InvalidArgumentError: `at_most` is not a whole number from 1 to 2**62 - 1.
        """
        primitives.require_init(self._initialized, self)
        most = number_within("at_most", at_most, 1, primitives.LIMIT)
        now_ms = self.clock.now_ms
        return [
            WheelOccupancy(
                wheel.tick_ms,
                now_ms // wheel.tick_ms % wheel.wheel_size,
                tuple([bucket.count_tasks(most) for bucket in wheel.buckets]),
            )
            for wheel in self._wheel
        ]


if not primitives.COMPILED:
    primitives.guard_fields(SystemTimer)
