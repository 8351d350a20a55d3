"""The core of a purgatory: delayed operations in a watch table and on a timer."""

from __future__ import annotations

import inspect
import logging
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Executor
from datetime import timedelta
from typing import Protocol, Self

from request_purgatory._native import hiding, linked_list, primitives, states
from request_purgatory._native.failsafe import ends_program, warn
from request_purgatory._native.forks import register_for_forks, reinit_in_child
from request_purgatory._native.turns import give_way
from request_purgatory.clock import ManualClock, MonotonicClock
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import (
    InterruptedUseError,
    InvalidArgumentError,
    PurgatoryClosedError,
    TaskInUseError,
    TimerClosedError,
    checked_name,
    number_within,
    refuse_copy,
    refuse_pickling,
    require_type,
    shown,
    unhashable,
)
from request_purgatory.purgatory import _nested_checks as nested_checks
from request_purgatory.purgatory._counters import PurgatoryCounters
from request_purgatory.purgatory._metric_table import PurgatoryMetrics
from request_purgatory.purgatory._operation_chain import OperationChain
from request_purgatory.purgatory._purgatory_snapshot import PurgatorySnapshot, take_snapshot
from request_purgatory.purgatory._purge_backlog import PurgeBacklog
from request_purgatory.purgatory.hold import HoldOperation, deadline_to_ms, timeout_to_ms
from request_purgatory.purgatory.operation import DelayedOperation, Hook, OperationHost, WatchHook
from request_purgatory.purgatory.watch_table import WatcherList, WatchShard, WatchTable
from request_purgatory.timer._timer_core import TimerCore
from request_purgatory.timer.clock_thread import ClockThread
from request_purgatory.timer.task import whole_ms
from request_purgatory.timer.timer import DEFAULT_TICK_MS, DEFAULT_WHEEL_SIZE, SystemTimer

logger = logging.getLogger("request_purgatory.purgatory")

#: The most shards: many times the threads of any machine. A million take 200 MB.
MAX_SHARDS = 2**20

#: The most names of holds that one purgatory counts by. All later ones are counted under one name.
MAX_NAMES = 100
OTHERS = "(others)"


def _forget_checks() -> None:
    """In a forked child: the parent makes the checks that its thread was in, or has postponed."""
    primitives.forget_checks()
    nested_checks.postponed.clear()


reinit_in_child(_forget_checks)


class Driver(Protocol):
    """What runs a purgatory's timeouts: a thread, or a loop's alarm.

    Attributes:
        is_running: True if a thread or loop that runs refers to it, and so to the purgatory.
    """

    @property
    def is_running(self) -> bool: ...


class PurgatoryCore(OperationHost):
    """Operations with their watch table, timer, counters and purge, under Kafka's names.

    `DelayedOperationPurgatory` adds futures for threads, `request_purgatory.aio.Purgatory` those of
    an event loop. docs/explanation/design.md, "Locks", describes the races and how each is decided.
    """

    _initialized: bool

    def __init__(
        self,
        name: str = "purgatory",
        *,
        timer: TimerCore | None = None,
        tick_ms: int = DEFAULT_TICK_MS,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        purge_interval: int = 1000,
        shards: int = 512,
        reaper: bool = True,
        executor: Executor | None = None,
        warn_after_ms: int = 100,
        on_watch: Callable[[DelayedOperation, Sequence[Hashable]], object] | None = None,
        on_try: Callable[[DelayedOperation], object] | None = None,
        on_end: Callable[[DelayedOperation], object] | None = None,
    ) -> None:
        """Make an empty purgatory.

        Args:
            name: Shown in errors, logs and the thread's name.
            timer: A SystemTimer of its own unless given. A given timer is not shut down with the
                purgatory. It may serve several purgatories if they have no reaper and its owner
                calls `advance_clock` of each. Close its purgatories before the timer: operations
                whose timer is shut down wait without a timeout, which the reaper logs.
            tick_ms: The resolution of timeouts in whole milliseconds, as of SystemTimer.
            wheel_size: Buckets per timing wheel, as of SystemTimer.
            purge_interval: Purge the watch table once about this many ended operations are in it.
            shards: Parts that the keys are spread over by hash, each with a lock of its own: from 1
                to 1,048,576, rounded up to a power of two.
            reaper: Run a thread that advances the clock. Without it, call `advance_clock`.
            executor: Expires operations, and so runs their callbacks. Without one, the reaper does,
                and a slow callback delays every other timeout. Its threads must not all wait for
                timeouts of this purgatory. The purgatory does not shut it down.
            warn_after_ms: Log callbacks on the reaper that take this long, 100 ms by default, and
                timeouts that are so late.
            on_watch: Called with each operation that enters and its keys, before its first try.
            on_try: Called with an operation before each try of its condition.
            on_end: Called with each operation that has ended, after its callbacks, by the thread
                that ended it. With `on_watch`, also where `try_complete_else_watch` raises, and
                where the purgatory is freed, so that each call of that is followed by one of this.
                The hooks must not raise.

        Raises:
            InvalidArgumentError: An argument is of another type than its description says or
                out of range, or a timer is given and its tick_ms, wheel_size or executor, too.
            RuntimeError: The purgatory has been initialized before.
        """
        if self._initialized:
            raise RuntimeError(f"{self!r} has been initialized before, and may hold operations")
        if timer is not None:
            for argument, value, usual in (
                ("executor", executor, None),
                ("tick_ms", tick_ms, DEFAULT_TICK_MS),
                ("wheel_size", wheel_size, DEFAULT_WHEEL_SIZE),
            ):
                if value is not usual and value != usual:
                    raise InvalidArgumentError(
                        argument, f"{usual} where a timer is given, which has its own", value
                    )
        # A timer whose `__init__` has not run has no clock.
        if timer is not None and not (
            isinstance(timer, TimerCore) and getattr(timer, "clock", None) is not None
        ):
            raise InvalidArgumentError("timer", "a SystemTimer whose __init__ has run", timer)
        name = checked_name(name)
        purge_interval = checked_purge_interval(purge_interval)
        shards = number_within("shards", shards, 1, MAX_SHARDS)
        warn_after_ms = whole_ms("warn_after_ms", warn_after_ms)
        check_hooks(on_watch, on_try, on_end)
        self.name = name
        self.timer: TimerCore = (
            timer
            if timer is not None
            else SystemTimer(name, tick_ms=tick_ms, wheel_size=wheel_size, executor=executor)
        )
        self.warn_after_ms = warn_after_ms
        self._warned_ms = -1000
        self.purge_interval = purge_interval
        self._owns_timer = timer is None
        # A SystemTimer is passed the start of an operation's timeout, which saves one reading of
        # the clock.
        self._wheel_timer = self.timer if type(self.timer) is SystemTimer else None
        self._hides = hiding.HIDES and self._wheel_timer is not None
        self._clock = self.timer.clock
        self._trusts_clock = type(self._clock) in (MonotonicClock, ManualClock)
        # A manual clock jumps, so a timeout that it passes is not late.
        self._measures = not isinstance(self._clock, ManualClock)
        self._table = WatchTable(shards)
        self._counters = PurgatoryCounters()
        self._labels: dict[str, PurgatoryCounters] = {}
        self._chain_lock = primitives.CoreLock()
        self._backlog = PurgeBacklog(self._table, self._chain_lock)
        # Out of the table, and about to be cancelled by `close`.
        self._leaving = OperationChain(self._chain_lock)
        self._closed = False
        self._purge_requested = False
        self._errors = ErrorLog(logger)
        self.on_watch = on_watch
        self.on_try = on_try
        self.on_end = on_end
        self._interrupts = None
        self._initialized = True
        if self._wheel_timer is not None:
            hiding.register(self)  # From here on a collection may ask for all of the above.
        self._alarm: weakref.ref[Driver] | None = None
        self._reaper: ClockThread | None = None
        if reaper:
            self._reaper = self._make_reaper()
            self._reaper.start()
        self._reaper_unstarted = False
        register_for_forks(self)

    def _add_hooks(self, on_watch: WatchHook, on_try: Hook, on_end: Hook) -> None:
        self.on_end = both(self.on_end, on_end)
        self.on_watch = on_watch
        self.on_try = on_try

    # -- requests as operations

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        """Try the operation; if its condition is false, watch it under every key until it ends.

        Args:
            operation: One that has not been in a purgatory.
            watch_keys: One or more keys. A key that is given twice is watched twice, and an event
                tries the operation once for each.

        Returns:
            True if this call completed the operation. False if it is pending, or was ended by
            something else meanwhile.

        Raises:
            InvalidArgumentError: There is no key, or a string where a list of keys belongs.
            TaskInUseError: The operation is or was in a purgatory.
            NotInitializedError: The operation's class does not call
                `super().__init__(timeout_ms)`.
            TypeError: `operation` is no DelayedOperation.
            PurgatoryClosedError: The purgatory is closed. The operation has been cancelled if it
                was watched already.
            BaseException: What the operation's own code raises in these tries. The operation has
                left the purgatory, as cancelled if it had not ended otherwise.
        """
        primitives.require_init(self._initialized, self)
        if not primitives.COMPILED:
            require_type("operation", operation, DelayedOperation)
        keys = checked_keys("watch_keys", watch_keys)
        if self._closed:
            raise PurgatoryClosedError(self.name)
        primitives.require_init(operation._timer_expiration_ms != 0, operation)
        if not operation._attach(self):
            name = getattr(operation._purgatory, "name", None)
            raise TaskInUseError(
                f"{shown(operation)} has been in purgatory {name!r}: use a new one"
            )
        counted = False
        try:
            if self.on_watch is not None and operation._state == states.PENDING:
                self.on_watch(operation, keys)
            # One try is enough: an event before the watch is seen by the try, an event after it
            # finds the watcher. Kafka tries, watches, and tries again.
            self._table.watch(operation, keys)
            completed = operation._try()
            if operation._state != states.PENDING:
                self._table.drop_watches(operation)
                self._counters.count_ended_at_once(operation._state)
                return completed
            # A clock may be anything. So it is read, as all that may raise, before the counts.
            now_ns = self._clock.read_ns()
            counted = True
            now_ms = primitives.floor_ms(now_ns)
            if self._count_in(operation, now_ms):
                self._start_timeout(operation, now_ms, primitives.ceil_ms(now_ns))
                if self._closed and self._withdraw(operation):
                    raise PurgatoryClosedError(self.name)
        except BaseException as error:
            self._abandon(operation, error, counted)
        return False

    def _count_in(self, operation: DelayedOperation, now_ms: int) -> bool:
        """Count a watched operation, and request a purge that falls due; False if it has ended."""
        unpurged = self._counters.count_entered()
        # From here on the end counts the operation: `_mark_watched` and `_end` are put in order by
        # the operation's own lock.
        state = operation._mark_watched(now_ms)
        if state != states.PENDING:
            self._table.drop_watches(operation)
            self._counters.count_ended(state, 0)
            return False
        if self._reaper_unstarted:
            self._start_reaper()
        if self._purge_due(unpurged):
            self._request_purge()
        return True

    def _start_timeout(self, operation: DelayedOperation, entered_ms: int, start_ms: int) -> None:
        """Add the operation to the timer; expire it at once if it has no timeout."""
        delay_ms = operation._timer_delay_ms
        if delay_ms <= 0:
            # The timer would contain what the callbacks raise; here it reaches the caller.
            operation._run_out(primitives.LIMIT)
            return
        self._add_to_timer(operation, start_ms)
        self._follow_renewals(operation, entered_ms, delay_ms)
        if self._hides and operation._state == states.PENDING:
            operation._hide()  # No other thread runs between the look and this.

    def _add_to_timer(self, operation: DelayedOperation, start_ms: int) -> None:
        if self._wheel_timer is not None:
            self._wheel_timer._add_from(operation, start_ms)
        else:
            self.timer.add(operation)

    def _follow_renewals(self, operation: DelayedOperation, entered_ms: int, delay_ms: int) -> None:
        """Move the operation in the timer as long as it was renewed since it was added.

        Another thread's renewal may come between a deadline and its addition to the timer, and be
        undone there. So each thread looks after its own addition, and the last one finds the last
        renewal. An operation that has ended meanwhile leaves the timer.
        """
        while operation._entered_ms != entered_ms or operation._timer_delay_ms != delay_ms:
            entered_ms = operation._entered_ms
            delay_ms = operation._timer_delay_ms
            self._move_in_timer(operation, entered_ms + 1)
        if operation._state != states.PENDING:
            # An end between the last look and the adding found nothing in the timer to remove.
            operation._remove_from_timer()

    def _move_in_timer(self, operation: DelayedOperation, start_ms: int) -> None:
        if isinstance(self.timer, SystemTimer):
            timer: SystemTimer = self.timer
            timer._add_from(operation, start_ms)
        else:
            self.timer.add(operation)

    def _ran_early(self, operation: DelayedOperation) -> None:
        """Put an operation back that the timer has run before its deadline.

        A renewal was undone in the timer, and its thread has not looked yet or found no memory.
        """
        # 0.8's delay queue has an entry for each renewal: that of the last one is still there.
        if not isinstance(self.timer, SystemTimer) or linked_list.is_linked(operation):
            return
        entered_ms = operation._entered_ms
        delay_ms = operation._timer_delay_ms
        try:
            self._move_in_timer(operation, entered_ms + 1)
            self._follow_renewals(operation, entered_ms, delay_ms)
        except TimerClosedError:
            pass  # `close` cancels it.
        except MemoryError:
            # The deadline is beyond the wheels that there are. The next tick, which is early as
            # well, needs no further wheel.
            next_ms = self._now_or(operation._timer_expiration_ms) + 1
            self._move_in_timer(operation, next_ms - operation._timer_delay_ms)

    def _withdraw(self, operation: DelayedOperation) -> bool:
        """Cancel the operation and remove it from every list; True if this call ended it."""
        cancelled = operation._end(states.CANCELLED, 0)
        self._table.drop_watches(operation)
        if cancelled and self.on_watch is not None:
            # Not that of an operation with a future, which nobody has.
            DelayedOperation._notify_end(operation)
        return cancelled

    def _abandon(self, operation: DelayedOperation, error: BaseException, counted: bool) -> None:
        """Leave nothing behind of an operation that could not be taken in, and raise `error`.

        Where `close` took the timer away, raise PurgatoryClosedError, or return for one that has
        ended otherwise.
        """
        try:
            cancelled = self._withdraw(operation)
        finally:
            # Also where `_withdraw` raises what was put off.
            if not counted:
                self._counters.count_ended_at_once(operation._state)
        self._raise_interrupt()
        if counted and self._closed and issubclass(type(error), TimerClosedError):
            if cancelled:
                raise PurgatoryClosedError(self.name) from None
            return
        raise error

    def _enter_named(self, operation: HoldOperation, keys: list[Hashable], name: str) -> None:
        """As `try_complete_else_watch`, for a hold that is counted by its name, too."""
        primitives.require_init(self._initialized, self)
        name = checked_name(name)
        label = self._labels.get(name)
        if label is None:
            if len(self._labels) >= MAX_NAMES:
                name = OTHERS
            label = self._labels.setdefault(name, PurgatoryCounters(name))
        operation._set_label(label)
        try:
            self.try_complete_else_watch(operation, keys)
        except BaseException:
            operation.release()
            raise

    def _remaining_ms(self, timeout: object, deadline: float) -> int:
        """Return a deadline on this purgatory's clock as a timeout from now on."""
        primitives.require_init(self._initialized, self)
        return deadline_to_ms(timeout, deadline, primitives.ceil_ms(self._clock.read_ns()))

    def renew(self, operation: DelayedOperation, timeout: float | timedelta | None) -> bool:
        """As `HoldsRequests.renew`."""
        self._check_own(operation)
        timeout_ms = whole_ms("timeout_ms", timeout_to_ms(timeout))
        now_ns = self._clock.read_ns()
        now_ms = primitives.floor_ms(now_ns)
        # The deadline first: a timer that comes to the operation now finds it renewed.
        if not operation._renew(now_ms, timeout_ms):
            return False
        if operation._entered_ms < 0:
            return True  # In its first try: it enters with this timeout.
        was_added = False
        try:
            self._add_to_timer(operation, primitives.ceil_ms(now_ns))
            self._follow_renewals(operation, now_ms, timeout_ms)
            was_added = True
        except TimerClosedError:
            pass  # `close` cancels it.
        return was_added and operation._state == states.PENDING

    def _discard(self, operation: DelayedOperation) -> bool:
        """Cancel an operation and remove it from every list at once; True if this call ended it."""
        self._check_own(operation)
        try:
            return self._cancel_contained(operation)
        finally:
            self._table.drop_watches(operation)

    def _check_own(self, operation: DelayedOperation) -> None:
        primitives.require_init(self._initialized, self)
        if not primitives.COMPILED:
            require_type("operation", operation, DelayedOperation)
        primitives.require_init(operation._timer_expiration_ms != 0, operation)
        if operation._purgatory is not self:
            raise InvalidArgumentError("operation", f"one of purgatory {self.name!r}", operation)

    # -- events

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch `key`, for a key that no longer exists.

        Returns:
            The operations that this call cancelled; none after `close`.
        """
        primitives.require_init(self._initialized, self)
        cancelled: list[DelayedOperation] = []
        shard = self._table.shard_of(key)
        watchers = shard.get(key)
        if watchers is None:
            return cancelled
        # All memory before the first of them leaves the list, as it has to be cancelled then.
        # Compiled, the index is no object either.
        operations: list[DelayedOperation | None] = [*shard.operations_of(watchers)]
        failure: BaseException | None = None
        for index, operation in enumerate(operations):
            try:
                if operation is not None and not shard.drop(watchers, operation):
                    operations[index] = None  # Another thread has removed it.
            except BaseException as error:
                failure = error
        for operation in operations:
            try:
                if operation is not None and self._cancel_contained(operation):
                    cancelled.append(operation)
            except BaseException as error:
                failure = error  # The others are cancelled first: nothing else would do that.
        if failure is not None:
            raise failure
        return cancelled

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that watch `key`, in the order of their arrival.

        Call it after a change that their conditions depend on. An operation that raises stays
        pending if it has not ended; its error is logged and counted, and the others are tried.
        After `close` it does nothing.

        Callbacks may call it, and be called by it again, 20 deep. Deeper calls return 0: the
        outermost call checks their keys before it returns, so a chain of completions may have any
        length.

        Returns:
            The number of operations that this call completed.

        Raises:
            NotificationLoopError: Such a deep check was repeated 1,000 times and completed nothing.
            KeyboardInterrupt, SystemExit: Raised by an operation, once all others were tried. No
                event is lost if the program goes on.
        """
        primitives.require_init(self._initialized, self)
        return self._check(key, False)

    def _check(self, key: Hashable, counts_ends: bool) -> int:
        """As `check_and_complete`, or, with `counts_ends`, return how many ended in any way."""
        shard = self._table.shard_of(key)
        watchers = shard.get(key)
        if watchers is None:
            return 0
        depth = primitives.enter_check()
        try:
            if depth > primitives.MAX_CHECK_DEPTH:
                self._postpone(key)
                return 0
            return self._try_all(shard, watchers, 1 if counts_ends else 2)
        finally:
            try:
                # Not `depth`: of greenlets that share a thread, the first may not leave last.
                if primitives.has_postponed() and primitives.check_depth() == 1:
                    self._check_postponed()
            finally:
                primitives.leave_check()

    def _postpone(self, key: Hashable) -> None:
        """Leave a check to the outermost one of this thread, whatever a signal handler raises."""
        primitives.set_postponed(True)
        try:
            nested_checks.postpone(primitives.thread_tag(), self, key)
        except BaseException:
            nested_checks.postpone(primitives.thread_tag(), self, key)
            raise

    def _check_postponed(self) -> None:
        """Make the checks that were postponed on this thread, whatever a signal handler raises.

        As long as some are left, the thread's next check looks for them.
        """
        try:
            nested_checks.check_postponed(primitives.thread_tag())
        except BaseException:
            nested_checks.check_postponed(primitives.thread_tag())
            raise
        primitives.set_postponed(False)

    def _try_all(self, shard: WatchShard, watchers: WatcherList, least: int) -> int:
        """Return for how many operations `_try_watching` returns at least `least`."""
        only = shard.only_operation(watchers)
        if only is not None:
            return 1 if self._try_watching(shard, watchers, only) >= least else 0
        counted = 0
        leaving: BaseException | None = None
        for operation in shard.operations_of(watchers):
            try:
                if self._try_watching(shard, watchers, operation) >= least:
                    counted += 1
            except BaseException as error:
                leaving = error  # An exit, or what a signal handler raised while one was logged.
        if leaving is not None:
            raise leaving
        return counted

    def _try_watching(
        self, shard: WatchShard, watchers: WatcherList, operation: DelayedOperation
    ) -> int:
        """Try an operation, which leaves the list if it has ended.

        Returns:
            2 if this call completed it, 1 if it has ended otherwise meanwhile, 0 if neither.
        """
        if operation._state != states.PENDING:
            shard.drop(watchers, operation)
            return 0
        failure: BaseException | None = None
        try:
            completed = operation._try()
        except BaseException as error:
            failure = error
            completed = operation._state == states.COMPLETED
        ended = operation._state != states.PENDING
        if ended:
            shard.drop(watchers, operation)
            # An end inside a try is left to the caller of the try (`_operation_ended`). It may have
            # other keys.
            self._backlog.add(operation)
        if failure is not None:
            self._callback_failed(operation, failure)
        return 2 if completed else 1 if ended else 0

    def _watching(self, key: Hashable) -> list[DelayedOperation]:
        """Return the operations that watch `key`, for a host that tries them one at a time."""
        shard = self._table.shard_of(key)
        watchers = shard.get(key)
        return [] if watchers is None else shard.operations_of(watchers)

    def _try_one(self, key: Hashable, operation: DelayedOperation) -> bool:
        """Try an operation that watches `key`; True if it has ended in that."""
        shard = self._table.shard_of(key)
        watchers = shard.get(key)
        return watchers is not None and self._try_watching(shard, watchers, operation) > 0

    # -- the clock

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for the next expirations, run them, and purge if it is time to.

        Args:
            timeout_ms: Whole milliseconds on the timer's clock; 0 does not wait, None waits without
                a limit.

        Returns:
            True if a bucket of the timer fell due.

        Raises:
            PurgatoryClosedError: The purgatory is closed.
            TimerClosedError: The timer that the purgatory was given is shut down.
        """
        primitives.require_init(self._initialized, self)
        if self._closed:
            raise PurgatoryClosedError(self.name)
        try:
            # First the count: a purge that is requested after the look ends the sleep, also if
            # another thread that sleeps on the timer takes the wake-up.
            num_wakes = 0 if self._wheel_timer is None else self._wheel_timer._num_wakes
            if self._purge_requested:
                timeout_ms = 0
            if self._wheel_timer is None:
                came_due = self.timer.advance_clock(timeout_ms)
            else:
                came_due = self._wheel_timer._advance(timeout_ms, num_wakes)
        except TimerClosedError:
            if self._closed:
                raise PurgatoryClosedError(self.name) from None
            raise
        self._purge_if_due()
        return came_due

    def _reap(self, timeout_ms: int | None = None) -> None:
        """As `advance_clock`, by default without a limit: a purge that falls due wakes the reaper.

        Logs that the timer was shut down.
        """
        try:
            self.advance_clock(timeout_ms)
        except TimerClosedError:
            warn(
                logger,
                "purgatory %r: its timer was shut down before it: %d pending operations have no "
                "timeout any more, and wait for an event or for `close`",
                self.name,
                self.num_delayed,
            )
            raise

    def _make_reaper(self) -> ClockThread:
        return ClockThread(f"{self.name}-reaper", self._reap, self.timer.wake)

    def _start_reaper(self) -> None:
        assert self._reaper is not None, "a purgatory without a reaper has none to start"
        self._reaper.start()
        self._reaper_unstarted = False

    # -- the purge

    def purge(self) -> int:
        """Remove ended operations from the watch table; `advance_clock` does this when due.

        Returns:
            The number of entries that were removed.
        """
        primitives.require_init(self._initialized, self)
        if self._wheel_timer is not None:
            hiding.keep_installed()
        # First the estimate, then the lists: what ends during the purge makes the estimate a little
        # too high, never too low.
        self._counters.begin_purge()
        dropped = self._drop_ended()
        self._counters.end_purge(dropped)
        logger.debug("purgatory %r: purged %d entries", self.name, dropped)
        return dropped

    @property
    def _is_purge_due(self) -> bool:
        return self._purge_due(self._counters.unpurged)

    def _purge_due(self, unpurged: int) -> bool:
        return unpurged > self.purge_interval

    def _purge_if_due(self) -> None:
        # Reset before the look, whether or not a purge turns out to be due: a request that is never
        # reset would be the last one that wakes the reaper.
        self._purge_requested = False
        if self._is_purge_due:
            self.purge()

    def _request_purge(self) -> None:
        if not self._purge_requested:
            self._purge_requested = True
            if self._reaper is not None:
                try:
                    self.timer.wake()
                except BaseException as error:
                    self._purge_requested = False  # The next end requests it again.
                    if not issubclass(type(error), Exception):
                        raise

    def _drop_ended(self) -> int:
        return self._backlog.purge()

    # -- the cyclic collector: `hiding.pyx` calls these around full collections

    def _is_driven(self) -> bool:
        """Return True if a thread or a loop that runs refers to the purgatory."""
        driver: Driver | None = self._reaper if self._alarm is None else self._alarm()
        return driver is not None and driver.is_running

    def _pass_over(self, passed_over: bool) -> None:
        if self._wheel_timer is not None:
            self._wheel_timer._pending.passed_over = passed_over
        self._table.pass_over(passed_over)

    def _show_waiting(self) -> None:
        for task in self.timer._pending_tasks():
            if isinstance(task, DelayedOperation):
                operation: DelayedOperation = task
                operation._show()
        self._backlog.chain.show_all()

    def _hide_waiting(self) -> None:
        for task in self.timer._pending_tasks():
            if isinstance(task, DelayedOperation):
                operation: DelayedOperation = task
                if operation._purgatory is self and operation._state == states.PENDING:
                    operation._hide()
        self._backlog.chain.hide_all()

    # -- what it holds

    @property
    def is_closed(self) -> bool:
        """True once `close` was called."""
        primitives.require_init(self._initialized, self)
        return self._closed

    @property
    def num_delayed(self) -> int:
        """The exact number of pending operations."""
        primitives.require_init(self._initialized, self)
        return self._counters.pending

    @property
    def watched(self) -> int:
        """The number of entries in all watcher lists. O(shards); interpreted, O(keys).

        An operation counts once for each key, and until a check or purge removes it after its end.
        """
        primitives.require_init(self._initialized, self)
        return self._table.size

    @property
    def num_keys(self) -> int:
        """The number of watched keys. O(shards)."""
        primitives.require_init(self._initialized, self)
        return self._table.num_keys

    def num_watchers(self, key: Hashable) -> int:
        """Return the number of entries in the watcher list of `key`, as `watched` counts. O(1)."""
        primitives.require_init(self._initialized, self)
        return self._table.num_watchers(key)

    def operations(self) -> list[DelayedOperation]:
        """Return the operations in the watcher lists, ended ones too, each once. O(watched)."""
        primitives.require_init(self._initialized, self)
        return self._table.operations()

    def metrics(self) -> PurgatoryMetrics:
        """Return one consistent reading of the counters."""
        primitives.require_init(self._initialized, self)
        return self._counters.snapshot(self.watched)

    def metrics_by_name(self) -> dict[str, PurgatoryMetrics]:
        """As `HoldsRequests.metrics_by_name`."""
        primitives.require_init(self._initialized, self)
        labels = self._labels.copy()
        return {name: labels[name].snapshot(0) for name in sorted(labels)}

    def snapshot(self, top: int = 10) -> PurgatorySnapshot:
        """As `HoldsRequests.snapshot`."""
        primitives.require_init(self._initialized, self)
        return take_snapshot(
            self.name,
            self._table,
            self.num_delayed,
            primitives.floor_ms(self._clock.read_ns()),
            top,
        )

    def __repr__(self) -> str:
        if not self._initialized:
            return f"<{type(self).__name__} not initialized>"
        state = "closed" if self._closed else f"pending={self.num_delayed}"
        return f"<{type(self).__name__} {self.name!r} {state}>"

    # -- the end

    def close(self) -> list[DelayedOperation]:
        """Close the purgatory and cancel every pending operation.

        Waits for the reaper to end, up to 10 seconds, unless called on the reaper. Events that come
        later are ignored; later requests raise PurgatoryClosedError.

        Returns:
            The operations that this call cancelled. A second call returns what an interrupted first
            one has left, usually nothing.
        """
        primitives.require_init(self._initialized, self)
        cancelled: list[DelayedOperation] = []
        # First closed, then emptied: an operation that is watched before the table is emptied is
        # cancelled here. One that is watched later is cancelled by the thread that watches it,
        # which looks whether the purgatory is closed at the end.
        self._closed = True
        try:
            if self._reaper is not None:
                self._reaper.stop()
        finally:
            # Also where a Ctrl-C interrupts the wait for the reaper: no request may stay pending.
            try:
                try:
                    self._table.remove_all(self._leaving)
                finally:
                    self._cancel_all(self._leaving, cancelled)
            finally:
                self._backlog.purge()
                if self._owns_timer:
                    self.timer.shutdown()
                else:
                    self.timer.wake()  # A thread in `advance_clock` finds the purgatory closed.
        if cancelled:
            logger.info(
                "purgatory %r: closed with %d operations pending, now cancelled",
                self.name,
                len(cancelled),
            )
        return cancelled

    # A copy would share the original's operations, and drop them.
    __copy__ = __deepcopy__ = refuse_copy
    __reduce__ = refuse_pickling

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The purgatory was dropped with operations pending. Lists and operations refer to one
        # another, and in the compiled build nothing else takes that apart.
        self._closed = True  # A finalizer of the ring may bring the purgatory back.
        # None if `__init__` raised before it was made.
        leaving = getattr(self, "_leaving", None)
        if leaving is None or not (
            self._table.num_keys or leaving.length or self._backlog.chain.length
        ):
            return
        try:
            try:
                self._table.remove_all(leaving)
            finally:
                self._abandon_leaving(self.on_watch is not None)
                # One by one: an operation that goes takes the next one of its chain with it.
                self._backlog.clear()
        except InterruptedUseError:
            # The collector has come between two steps of this thread in the interpreted core. There
            # it takes the ring apart by itself, and no code of the operations runs.
            pass

    def _abandon_leaving(self, notify: bool) -> None:
        failure: BaseException | None = None
        operation = self._leaving.pop()
        while operation is not None:
            try:
                pending = operation._state == states.PENDING
                operation._abandon_in_child()
                if pending and notify:
                    operation._notify_end()
            except BaseException as error:
                failure = error
            operation = self._leaving.pop()
        if failure is not None:
            raise failure

    def _cancel_all(self, leaving: OperationChain, cancelled: list[DelayedOperation]) -> None:
        """Cancel all of `leaving`, and add those that this call ended. Exits are raised last."""
        failure: BaseException | None = None
        operation = leaving.pop()
        while operation is not None:
            try:
                if self._cancel_contained(operation):
                    cancelled.append(operation)
                else:
                    # Ended by another thread, which found it in this chain, not in its lists.
                    self._backlog.add(operation)
                if leaving.length & 63 == 0:
                    give_way()
            except BaseException as error:
                failure = error  # The others are cancelled first: nothing else would do that.
            operation = leaving.pop()
        if failure is not None:
            raise failure

    def _cancel_contained(self, operation: DelayedOperation) -> bool:
        """Return True if this call ended it; log and count what its `on_cancellation` raises."""
        try:
            return operation._cancel()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Only the operation's own code can raise, on the thread that ended it.
            self._callback_failed(operation, error)
        return True

    # -- the host interface: called by operations

    def _operation_ended(self, operation: DelayedOperation, state: int, now_ms: int) -> None:
        # Compiled, nothing here needs memory. So no end stops between its state and its callbacks.
        # What Python code raises here is put off until they have run.
        if state != states.EXPIRED or now_ms == primitives.LIMIT:
            now_ms = self._now_or(operation._entered_ms)
        waited_ms = now_ms - operation._entered_ms
        if operation._try_state == states.IDLE:
            self._backlog.add(operation)
        if self._purge_due(self._counters.count_ended(state, waited_ms)):
            try:
                self._request_purge()
            except BaseException as error:
                self._put_off(error)

    def _callback_failed(self, operation: DelayedOperation, error: BaseException) -> None:
        if ends_program(error):
            raise error
        self._counters.count_callback_error()
        self._errors.log(error, "purgatory %r: %s raised", self.name, operation)

    def _now_or(self, otherwise_ms: int) -> int:
        if self._trusts_clock:
            return primitives.floor_ms(self._clock.read_ns())
        try:
            try:
                return primitives.floor_ms(self._clock.read_ns())
            except Exception as error:  # A clock may be anything.
                self._errors.log(error, "purgatory %r: its clock raised", self.name)
        except MemoryError:
            pass  # Of the log. The end has to be counted.
        except BaseException as interrupt:
            self._put_off(interrupt)
        return otherwise_ms

    def _callbacks_ran(self, operation: DelayedOperation, began_ms: int) -> int:
        if not self._measures:
            return primitives.LIMIT
        now_ms = self._now_or(began_ms)
        late_ms = began_ms - operation._entered_ms - operation._timer_delay_ms
        took_ms = now_ms - began_ms
        self._counters.record_callback_times(late_ms, took_ms)
        self._raise_interrupt()
        if took_ms >= self.warn_after_ms:
            warn(
                logger,
                "purgatory %r: the callbacks of %s took %d ms; without an executor, "
                "other timeouts wait for them",
                self.name,
                operation,
                took_ms,
            )
            return primitives.LIMIT  # A handler of the log may take long, too.
        if late_ms >= self.warn_after_ms and now_ms >= self._warned_ms + 1000:
            self._warned_ms = now_ms
            warn(logger, "purgatory %r: %s expired %d ms late", self.name, operation, late_ms)
            return primitives.LIMIT
        return now_ms

    # -- the host interface: in a forked child

    def _fork_locks(self) -> list[primitives.CoreLock]:
        shard_locks = (shard.lock for shard in self._table.shards)
        return [*self._counters.locks(), self._chain_lock, *shard_locks]

    def _reinit_locks(self) -> None:
        for shard in self._table.shards:
            shard.lock = primitives.CoreLock()
        self._chain_lock = primitives.CoreLock()
        self._leaving.lock = self._chain_lock
        self._backlog.chain.lock = self._chain_lock

    def _reset_in_child(self) -> None:
        """Begin empty: the parent answers what it holds.

        The first operation that waits starts the reaper.
        """
        self._counters.reset()
        self._labels = {}
        self._errors.forget()
        self._backlog.clear()
        self._purge_requested = False
        waiting = self.timer._pending_tasks()
        self._table.remove_all(self._leaving)
        self._abandon_leaving(False)
        # An operation that was about to be cancelled, or ended a moment ago, is in the timer alone.
        for task in waiting:
            if isinstance(task, DelayedOperation) and task._purgatory is self:
                task._abandon_in_child()
        if self._reaper is not None:
            self._reaper = self._make_reaper()
            self._reaper_unstarted = True


if not primitives.COMPILED:  # Compiled, the field begins so by itself.
    PurgatoryCore._initialized = False  # noqa: SLF001 - the class itself
    primitives.guard_fields(PurgatoryCore)


def checked_purge_interval(purge_interval: object) -> int:
    """Return a purge interval; InvalidArgumentError unless it is a whole number from 0 on."""
    return number_within("purge_interval", purge_interval, 0, primitives.LIMIT)


def check_hooks(on_watch: object, on_try: object, on_end: object) -> None:
    """Check that each hook is callable or None; InvalidArgumentError."""
    for name, hook in (("on_watch", on_watch), ("on_try", on_try), ("on_end", on_end)):
        if hook is not None and (not callable(hook) or inspect.iscoroutinefunction(hook)):
            raise InvalidArgumentError(name, "a plain callable, or None", hook)


def both(first: Hook | None, second: Hook) -> Hook:
    def hook(operation: DelayedOperation) -> None:
        if first is not None:
            first(operation)
        second(operation)

    return hook


def checked_keys(name: str, keys: Iterable[Hashable], at_least: int = 1) -> list[Hashable]:
    """Return keys as a list or tuple; InvalidArgumentError if there are too few, or one string."""
    if type(keys) is list or type(keys) is tuple:
        found = keys
    else:
        if isinstance(keys, (str, bytes)):
            raise InvalidArgumentError(name, "a list of keys, not one string", keys)
        try:
            each = iter(keys)
        except TypeError as error:
            raise InvalidArgumentError(name, "a list of keys", keys) from error
        found = list(each)
    if len(found) < at_least:
        raise InvalidArgumentError(name, "at least one key", found)
    return found  # type: ignore[return-value]  # A tuple does as well.


def unique(keys: Iterable[Hashable]) -> list[Hashable]:
    """Return keys, each once, in their order; InvalidArgumentError if one is not hashable."""
    once: dict[Hashable, None] = {}
    for key in keys:
        try:
            once[key] = None
        except BaseException as error:
            raise unhashable("keys", key, error)  # noqa: B904 - it has its cause
    return list(once)


def raise_last(call: Callable[[Hashable], object], keys: Iterable[Hashable]) -> None:
    """Call `call` with each key once, then raise the last error of these calls, if any."""
    last: BaseException | None = None
    for key in unique(keys):
        try:
            call(key)
        except BaseException as error:
            last = error
    if last is not None:
        raise last
