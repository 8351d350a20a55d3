"""The purgatory: delayed operations on watcher lists and a timer."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor, Future
from types import TracebackType
from typing import Any

from request_purgatory._native import primitives, states
from request_purgatory._native.failsafe import log_contained, warn
from request_purgatory._native.forks import begin_anew_in_children
from request_purgatory.clock import ManualClock
from request_purgatory.errors import (
    InvalidArgumentError,
    PurgatoryClosedError,
    TaskInUseError,
    TimerClosedError,
)
from request_purgatory.metrics import PurgatoryCounters, PurgatoryMetrics
from request_purgatory.purgatory import nested_checks
from request_purgatory.purgatory.operation import DelayedOperation, Keeper
from request_purgatory.purgatory.purge_backlog import Unpurged
from request_purgatory.purgatory.quorum import HeldRequest
from request_purgatory.purgatory.watch import Watch, WatcherList
from request_purgatory.purgatory.watch_table import WatcherLists
from request_purgatory.timer.clock_thread import ClockThread
from request_purgatory.timer.timer import SystemTimer, Timer

logger = logging.getLogger(__name__)


class DelayedOperationPurgatory(Keeper):
    """Holds operations until their condition holds or their time runs out, and ends each exactly once.

    An operation is watched under one or more *watch keys*. Whoever changes something that
    conditions depend on calls `check_and_complete(key)` afterwards, and the operations that watch
    the key are tried. Keys are anything hashable with quick `__hash__` and `__eq__` that do not
    call back into the purgatory: strings, tuples, ints.

    An operation's callbacks run on the thread that ends it: completions on the one that called
    `check_and_complete` or `force_complete`, time-outs on the reaper, or on the `executor`.
    Callbacks that take `warn_after_ms` (100) or longer there are logged, as is a time-out that
    comes so late; `metrics` has the longest of both.

    Every method may be called from any thread, from operations' callbacks too. Call
    `check_and_complete` holding no lock that a `try_complete` or `on_complete` needs.

    The story about locks, where the race is:

    1. A thread watches an operation under its keys, and tries it then. An event before the watch is
       seen by the try; an event after it finds the watcher. So one try is enough. (Kafka tries,
       watches, and tries again.)
    2. That try may meet a check by another thread. Tries of one operation never overlap, but nobody
       waits either: the thread that finds a try running leaves a note, and the one that is trying
       tries again (`DelayedOperation._try`).
    3. Only an operation that is pending after that enters the counts. Who ends it earlier leaves
       the counting to the thread that brought it, and who ends it later counts: `_enter` and `_end`
       are put in order by the operation's own lock.
    4. So no lock is held while user code runs, and none can be part of a deadlock with the locks
       that user code takes. (Kafka holds the operation's lock from the first try to the second, and
       has to ask callers not to hold theirs.)
    5. An operation that is still pending goes to the timer. If an end comes between that look and
       the adding, it found nothing in the timer to remove; so the thread looks again after adding,
       and takes it out.
    6. `shutdown` closes first and sweeps the lists then. An operation watched before the sweep is
       swept; one watched after it was watched by a thread that sees the purgatory closed at its
       last look, and ends it itself.
    """

    #: How long the reaper sleeps at most, in ms of the timer's clock. None is without limit: an
    #: idle purgatory uses no CPU, and a purge that falls due wakes the reaper.
    reap_interval_ms: int | None = None

    def __init__(
        self,
        name: str,
        *,
        timer: Timer | None = None,
        purge_interval: int = 1000,
        shards: int = 512,
        reaper: bool = True,
        executor: Executor | None = None,
    ) -> None:
        """An empty purgatory.

        Args:
            name: shown in errors, logs and the thread's name.
            timer: a SystemTimer of its own unless given. A given one is not shut down with the
                purgatory; it may serve several purgatories if they have no reaper and its owner
                calls `advance_clock` of each.
            purge_interval: purge the watcher lists once about this many ended operations are in
                them.
            shards: parts the keys are spread over by hash, each with a lock of its own.
            reaper: run a thread that advances the clock. Without it, call `advance_clock`.
            executor: ends the operations whose time has run out, and so runs their callbacks.
                Without one, the reaper does, and a slow callback delays every other time-out. The
                purgatory does not shut it down.

        Raises:
            InvalidArgumentError: purge_interval below 0, shards below 1, or both a timer and an
                executor: that is the timer's.
        """
        if timer is not None and executor is not None:
            raise InvalidArgumentError(
                "executor", "the timer's own, where a timer is given", executor
            )
        if purge_interval < 0:
            raise InvalidArgumentError("purge_interval", "at least 0", purge_interval)
        if shards < 1:
            raise InvalidArgumentError("shards", "at least 1", shards)
        self.name = name
        self.timer: Timer = timer if timer is not None else SystemTimer(name, executor=executor)
        self.warn_after_ms = 100
        self._warned_ms = -1000
        self.purge_interval = purge_interval
        self._owns_timer = timer is None
        # A SystemTimer is told when an operation's delay began, and spared a reading of the clock.
        self._wheel_timer = self.timer if type(self.timer) is SystemTimer else None
        self._hides = primitives.HIDES and self._wheel_timer is not None
        self._clock = self.timer.clock
        # A manual clock jumps, and what is late by it was so for nobody.
        self._measures = not isinstance(self._clock, ManualClock)
        self._shards = [WatcherLists(index) for index in range(shards)]
        self._counters = PurgatoryCounters()
        self._unpurged = Unpurged(self._shards)
        self._closed = False
        self._purge_requested = False
        self.end_listener = None
        self._be_called: Callable[[], None] | None = None
        if self._hides:
            # That module is made of this one and others. From here on a collection may ask for all
            # of the above.
            collector = importlib.import_module("request_purgatory._native.collector_hooks")
            collector.show_at_full_collections(self)
            self._be_called = collector.be_called
        self._reaper: ClockThread | None = None
        if reaper:
            self._reaper = self._make_reaper()
            self._reaper.start()
        self._reaper_unstarted = False
        begin_anew_in_children(self)

    # -- the way of a request

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        """Try the operation; if its condition is false, watch it under every key until it ends.

        Args:
            operation: one that no purgatory has had yet.
            watch_keys: one or more keys.

        Returns:
            True if this call completed it. False if it is pending, or something else ended it
            meanwhile.

        Raises:
            InvalidArgumentError: no key, or a string where a list of keys belongs.
            TaskInUseError: the operation is or was in a purgatory.
            NotInitializedError: the operation's class does not call `super().__init__(delay_ms)`.
            PurgatoryClosedError: after `shutdown`; the operation has been cancelled if it was
                watched already.
            Exception: what the operation's own code raises in these tries. The operation has left
                the purgatory then, and has ended as cancelled if it had not ended otherwise.
        """
        if isinstance(watch_keys, (str, bytes)):
            raise InvalidArgumentError("watch_keys", "a list of keys, not one string", watch_keys)
        keys = (
            watch_keys
            if type(watch_keys) is list or type(watch_keys) is tuple
            else list(watch_keys)
        )
        if not keys:
            raise InvalidArgumentError("watch_keys", "at least one key", keys)
        if self._closed:
            raise PurgatoryClosedError(self.name)
        operation._require_init()
        if not operation._meet(self):
            name = getattr(operation._purgatory, "name", None)
            raise TaskInUseError(f"{operation!r} has been in purgatory {name!r}: use a new one")

        counters = self._counters
        now_ns = 0
        try:
            self._watch(operation, keys)
            completed = operation._try()
            if operation._state == states.PENDING:
                # A clock may be anybody's. So it is read before anything is counted, as is all that
                # may raise.
                now_ns = self._clock._read_ns()
        except BaseException:
            operation._end(states.CANCELLED)
            self._unpurged.drop_watches(operation)
            counters.end_at_once(operation._state)
            raise
        state = operation._state
        if state != states.PENDING:
            self._unpurged.drop_watches(operation)
            counters.end_at_once(state)
            return completed

        unpurged = counters.enter()
        state = operation._enter(primitives.floor_ms(now_ns))
        if state != states.PENDING:
            self._unpurged.drop_watches(operation)
            counters.end(state, 0)
            return False
        try:
            if self._reaper_unstarted:
                self._start_reaper()
            if self._purge_due(unpurged):
                self._request_purge()
            self._await_timeout(operation, primitives.ceil_ms(now_ns))
        except BaseException as error:
            cancelled = self._forget(operation)
            if not (self._closed and isinstance(error, TimerClosedError)):
                raise
            # The shutdown closed the timer before this operation came to it. If something else
            # ended it meanwhile, somebody has been told of that already.
            if cancelled:
                raise PurgatoryClosedError(self.name) from None
            return False
        if self._closed and self._forget(operation):
            raise PurgatoryClosedError(self.name)
        return False

    def _watch(
        self, operation: DelayedOperation, keys: list[Hashable] | tuple[Hashable, ...]
    ) -> None:
        shards = self._shards
        for key in keys:
            if operation._state != states.PENDING:
                break
            shard = shards[hash(key) % len(shards)]
            operation._watches = shard.watch(key, operation, operation._watches)

    def _await_timeout(self, operation: DelayedOperation, start_ms: int) -> None:
        if operation._delay_ms <= 0:
            # Not by way of the timer, which would contain what the callbacks raise: here it is the
            # caller's.
            operation._expire()
            return
        if self._wheel_timer is not None and operation._bucket is None:
            self._wheel_timer._add(operation, start_ms)
        else:
            self.timer.add(operation)
        if operation._state != states.PENDING:
            operation._unlink()
        elif self._hides:
            primitives.hide(operation)  # No other thread comes between the look and this.

    def _forget(self, operation: DelayedOperation) -> bool:
        """Leave nothing behind of an operation that the purgatory will not keep.

        True if this ended it.
        """
        cancelled = operation._end(states.CANCELLED)
        self._unpurged.drop_watches(operation)
        return cancelled

    def _leave_to_purge(self, operation: DelayedOperation) -> None:
        """An operation has ended and may still be watched."""
        self._unpurged.remember(operation)

    def check_and_complete(self, key: Hashable) -> int:
        """Try the operations that watch `key`, in the order in which they came; how many this call completed.

        Call it after a change that their conditions depend on. An operation that raises stays
        pending if it has not ended; it is logged and counted, and the others are tried. After
        `shutdown` nothing waits for events, and they are ignored.

        Called by callbacks that checks call, and so on, 20 deep, it returns 0: the outermost check
        makes this one before it returns, so a chain of completions may have any length.

        Raises:
            NotificationLoopError: such a check comes back 1,000 times and never completes anything.
            KeyboardInterrupt, SystemExit: out of an operation, once all the others have been tried:
                no event is lost if the program goes on.
        """
        shards = self._shards
        shard = shards[hash(key) % len(shards)]
        watchers = shard.get(key)
        if watchers is None:
            return 0
        depth = primitives.deeper()
        try:
            if depth > primitives.DEEPEST:
                nested_checks.postpone(self, key)
                primitives.set_postponed(True)
                return 0
            return self._check_all(shard, watchers)
        finally:
            try:
                if depth == 1 and primitives.has_postponed():
                    primitives.set_postponed(False)
                    nested_checks.check_postponed()
            finally:
                primitives.shallower()

    def _check_all(self, shard: WatcherLists, watchers: WatcherList) -> int:
        """Try the operations of a list; how many this call completed."""
        only = shard.first(watchers)
        if only is not None:
            return 1 if self._check(shard, only) else 0
        completed = 0
        leaving: BaseException | None = None
        for watch in shard.watches_of(watchers):
            try:
                if self._check(shard, watch):
                    completed += 1
            except (KeyboardInterrupt, SystemExit) as error:
                leaving = error
        if leaving is not None:
            raise leaving
        return completed

    def _check(self, shard: WatcherLists, watch: Watch) -> bool:
        """Try a watch's operation; True if this completed it.

        What has ended is taken out of the list.
        """
        operation = shard.operation_of(watch)
        if operation is None:
            return False
        completed = False
        failure: BaseException | None = None
        if operation._state == states.PENDING:
            try:
                completed = operation._try()
            except BaseException as error:
                failure = error
                completed = operation._state == states.COMPLETED
            if operation._state != states.PENDING:
                shard.drop(watch)
                watches = operation._watches
                if watches is not watch or watch.sibling is not None:
                    # An end inside a try is left to whoever called for the try
                    # (`_operation_ended`): here are its other keys.
                    self._leave_to_purge(operation)
                elif self._hides:
                    primitives.show(operation)
            if failure is not None:
                self._callback_failed(operation, failure)
        else:
            shard.drop(watch)
        return completed

    def watched_under(self, key: Hashable) -> int:
        """How many entries the watcher list of `key` has, ended ones that were not met or purged yet among them. O(1)."""
        shards = self._shards
        shard = shards[hash(key) % len(shards)]
        watchers = shard.get(key)
        return 0 if watchers is None else watchers.size

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch `key`, which is gone; those that this call cancelled, for the caller to answer.

        After `shutdown` there are none.
        """
        shard = self._shards[hash(key) % len(self._shards)]
        return self._cancel_all(shard.remove(key))

    def discard(self, operation: DelayedOperation) -> bool:
        """Cancel an operation that nobody waits for any more, and take it out of every watcher list at once; True if this ended
        it.

        What its `on_cancellation` raises is logged and counted.

        Raises:
            InvalidArgumentError: the operation is not this purgatory's.
        """
        if operation._purgatory is not self:
            raise InvalidArgumentError("operation", f"one of purgatory {self.name!r}", operation)
        cancelled = self._cancel_all([operation])
        self._unpurged.drop_watches(operation)
        return len(cancelled) > 0

    def hold(
        self, keys: Iterable[Hashable], *, until: Callable[[], object], timeout: float
    ) -> Future[Any]:
        """Wait without a subclass: a future for the first true value that `until` returns.

        `until` is called now, and whenever one of `keys` is checked, never by two threads at a
        time. The future gets what it returned; TimeoutError after `timeout`; what it raised, if it
        raises; PurgatoryClosedError if the purgatory is shut down; and is cancelled by
        `cancel_for_key`. Cancelling the future takes the request out.

        Args:
            keys: one or more watch keys.
            until: the condition.
            timeout: seconds, not negative; rounded up to whole milliseconds.

        Raises:
            InvalidArgumentError: no key, or a timeout that is negative or not a finite number.
            PurgatoryClosedError: after `shutdown`.
        """
        request = HeldRequest(until, timeout)
        self.try_complete_else_watch(request, keys)
        request.future.add_done_callback(request.future_done)
        return request.future

    # -- the clock

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for the next expirations, run them, and purge if it is time to.

        Args:
            timeout_ms: whole milliseconds on the timer's clock; 0 only looks, None waits until
                there is something.

        Returns:
            True if a bucket of the timer came due.

        Raises:
            PurgatoryClosedError: after `shutdown`.
        """
        if self._closed:
            raise PurgatoryClosedError(self.name)
        try:
            came_due = self.timer.advance_clock(timeout_ms)
        except TimerClosedError:
            if self._closed:
                raise PurgatoryClosedError(self.name) from None
            raise
        self.purge_if_due()
        return came_due

    def purge_if_due(self) -> None:
        """Purge if it is time to; `advance_clock` does that."""
        # Taken back before the look, and whether or not a purge turns out to be due: a request that
        # is never taken back would be the last one that wakes the reaper.
        self._purge_requested = False
        if self._purge_due(self._counters.unpurged):
            self.purge()

    def _reap(self) -> None:
        self.advance_clock(self.reap_interval_ms)

    @property
    def purge_due(self) -> bool:
        """True if the next `advance_clock` will purge."""
        return self._purge_due(self._counters.unpurged)

    def _purge_due(self, unpurged: int) -> bool:
        return unpurged > self.purge_interval

    def _request_purge(self) -> None:
        if not self._purge_requested:
            self._purge_requested = True
            if self._reaper is not None:
                self.timer.wake()

    def purge(self) -> int:
        """Drop the ended operations from every watcher list; how many entries went.

        `advance_clock` calls it when due.
        """
        if self._be_called is not None:
            self._be_called()
        # First the estimate, then the lists: what ends during the purge makes the estimate a little
        # too high, never too low.
        self._counters.begin_purge()
        dropped = self._drop_ended()
        self._counters.end_purge(dropped)
        logger.debug("purgatory %r: purged %d entries", self.name, dropped)
        return dropped

    def _drop_ended(self) -> int:
        """Take what has ended out of the watcher lists; how many entries went."""
        return self._unpurged.drop()

    # -- in a forked child

    def _make_reaper(self) -> ClockThread:
        return ClockThread(f"{self.name}-reaper", self._reap, self.timer.wake)

    def _start_reaper(self) -> None:
        assert self._reaper is not None, "a purgatory without a reaper has none to start"
        self._reaper.start()
        self._reaper_unstarted = False

    def _fork_locks(self) -> list[primitives.CoreLock]:
        return [self._counters.fork_lock(), *(shard.fork_lock() for shard in self._shards)]

    def _renew_locks(self) -> None:
        for shard in self._shards:
            shard.renew_lock()

    def _begin_in_child(self) -> None:
        """Begin empty: the parent answers what it holds.

        The reaper is started by the first operation that waits.
        """
        operations = [operation for shard in self._shards for operation in shard.remove_all()]
        # One that was about to be cancelled or has ended a moment ago is in the timer or waits for
        # the purge alone.
        tasks: list[object] = getattr(self.timer, "_tasks", list)()
        operations += [
            task for task in tasks if isinstance(task, DelayedOperation) and task._purgatory is self
        ]
        self._counters.begin()
        self._unpurged.begin()
        self._purge_requested = False
        for operation in operations:
            operation._disown()
            if self._hides:
                primitives.show(operation)
        if self._reaper is not None:
            self._reaper = self._make_reaper()
            self._reaper_unstarted = True

    # -- what it holds

    @property
    def is_closed(self) -> bool:
        """True once `shutdown` was called."""
        return self._closed

    @property
    def num_delayed(self) -> int:
        """Exactly how many operations are pending."""
        return self._counters.pending

    @property
    def watched(self) -> int:
        """Entries in all watcher lists: an operation counts once a key, and until it is met or purged after its end.

        O(keys): for a gauge, not for a hot path.
        """
        return sum(shard.watched for shard in self._shards)

    def operations(self) -> list[DelayedOperation]:
        """The operations in the watcher lists, each once, ended ones that were not purged yet among them. O(watched)."""
        return list({id(op): op for shard in self._shards for op in shard.operations()}.values())

    def metrics(self) -> PurgatoryMetrics:
        """The counters at this moment."""
        return self._counters.read(self.watched)

    # -- the end

    def shutdown(self) -> list[DelayedOperation]:
        """Close, cancel every pending operation and return those; later calls raise PurgatoryClosedError.

        Waits for the reaper to end, up to 10 seconds, unless called on it. A repeated shutdown
        returns what an interrupted one has left, usually nothing. Events that come later are
        ignored.
        """
        self._closed = True
        cancelled: list[DelayedOperation] = []
        try:
            if self._reaper is not None:
                self._reaper.stop()
        finally:
            # In any case: a Ctrl-C while the reaper is waited for must leave nobody waiting. And in
            # each call, as the one before may have been interrupted here.
            try:
                cancelled = self._cancel_all(
                    [operation for shard in self._shards for operation in shard.remove_all()]
                )
            finally:
                self._unpurged.drop()
                if self._owns_timer:
                    self.timer.shutdown()
                else:
                    self.timer.wake()  # Whoever sleeps in `advance_clock`, to find the purgatory closed.
        if cancelled:
            logger.info(
                "purgatory %r: shut down with %d operations pending, now cancelled",
                self.name,
                len(cancelled),
            )
        return cancelled

    def __enter__(self) -> DelayedOperationPurgatory:
        return self

    def __del__(self) -> None:
        # A purgatory that is dropped with operations pending: lists and operations refer to one
        # another, and in the compiled build nobody else takes that apart.
        self._closed = True  # A finalizer of the ring may bring it back.
        for shard in (
            getattr(self, "_shards", None) or ()
        ):  # None yet if the arguments were refused.
            for operation in shard.remove_all():
                operation._disown()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    def _cancel_all(self, operations: list[DelayedOperation]) -> list[DelayedOperation]:
        cancelled = []
        leaving: BaseException | None = None
        for operation in operations:
            # Only its own on_cancellation can raise, and it is called by the thread that ended the
            # operation.
            try:
                if not operation.cancel():
                    continue
            except (KeyboardInterrupt, SystemExit) as error:
                leaving = error  # Not before the others were told: nobody else will.
            except BaseException as error:
                self._callback_failed(operation, error)
            cancelled.append(operation)
        if leaving is not None:
            raise leaving
        return cancelled

    # -- called by operations

    def _operation_ended(self, operation: DelayedOperation, state: int) -> None:
        waited_ms = primitives.floor_ms(self._clock._read_ns()) - operation._entered_ms
        if operation._try_state == states.IDLE:
            self._leave_to_purge(operation)
        if self._purge_due(self._counters.end(state, waited_ms)):
            self._request_purge()

    def _callback_failed(self, operation: DelayedOperation, error: BaseException) -> None:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise error
        self._counters.callback_failed()
        log_contained(logger, error, "purgatory %r: %r raised", self.name, operation)

    def _now_ms(self) -> int:
        return primitives.floor_ms(self._clock._read_ns())

    def _callbacks_ran(self, operation: DelayedOperation, began_ms: int) -> None:
        if not self._measures:
            return
        now_ms = self._now_ms()
        late_ms = began_ms - operation._entered_ms - operation._delay_ms
        took_ms = now_ms - began_ms
        self._counters.callbacks_ran(late_ms, took_ms)
        if took_ms >= self.warn_after_ms:
            warn(
                logger,
                "purgatory %r: the callbacks of %r took %d ms; without an executor, time-outs wait for them",
                self.name,
                operation,
                took_ms,
            )
        elif late_ms >= self.warn_after_ms and now_ms >= self._warned_ms + 1000:
            self._warned_ms = now_ms
            warn(logger, "purgatory %r: %r timed out %d ms late", self.name, operation, late_ms)

    def check(self) -> None:
        """Assert every invariant of the purgatory and its timer.

        For tests, while no other thread is at work: O(watched).
        """
        self.timer.check()
        pending = 0
        for shard in self._shards:
            shard.check()
        for operation in self.operations():
            assert operation._purgatory is self, (
                f"{operation!r} is watched but belongs to another purgatory"
            )
            if operation._state == states.PENDING:
                pending += 1
            else:
                assert operation._bucket is None, (
                    f"{operation!r} has ended but is still in the timer"
                )
        assert pending == self.num_delayed, (
            f"{pending} pending operations are watched but {self.num_delayed} are counted"
        )
        if self._owns_timer:
            assert self.timer.size == pending, (
                f"the timer holds {self.timer.size} of {pending} pending operations"
            )
