"""The purgatory on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import Any, NoReturn, cast

from request_purgatory._native import primitives, states
from request_purgatory._native.forks import Forkable, register_for_forks
from request_purgatory.aio._alarm import Alarm, unique_keys
from request_purgatory.aio._loop_entrance import LoopEntrance
from request_purgatory.aio._wait_answers import WaitAnswers
from request_purgatory.aio.hold import HoldFuture
from request_purgatory.aio.loop_clock import LoopClock, is_foreign_thread, running_loop
from request_purgatory.aio.sweep import Sweeper
from request_purgatory.errors import (
    NotInitializedError,
    PurgatoryClosedError,
    checked_name,
    number_within,
    refuse_copy,
    refuse_pickling,
    require_type,
)
from request_purgatory.purgatory._holds_requests import documented
from request_purgatory.purgatory._metric_table import PurgatoryMetrics
from request_purgatory.purgatory._purgatory_snapshot import PurgatorySnapshot
from request_purgatory.purgatory.core import (
    PurgatoryCore,
    both,
    check_hooks,
    checked_keys,
    checked_purge_interval,
    raise_last,
)
from request_purgatory.purgatory.hold import timeout_to_ms
from request_purgatory.purgatory.operation import DelayedOperation, Hook, Outcome, WatchHook
from request_purgatory.purgatory.quorum import FutureLike, Quorum, QuorumOperation
from request_purgatory.timer.task import MAX_DELAY_MS
from request_purgatory.timer.timer import (
    DEFAULT_TICK_MS,
    DEFAULT_WHEEL_SIZE,
    MAX_WHEEL_SIZE,
    SystemTimer,
)


class _Uninitialized:
    """Stands for a field that `__init__` sets."""

    def __get__(self, purgatory: object, _kind: type | None = None) -> Any:
        if purgatory is None:
            return self  # Asked of the class, as `inspect` does.
        raise NotInitializedError(type(purgatory).__name__)


@documented
class Purgatory(LoopEntrance, Forkable):
    """Holds requests of asyncio until their condition holds or their timeout expires.

    It has no thread: conditions, callbacks and the clock run on the event loop of its `async with`
    block. The loop has one timer for the whole purgatory, at the next bucket that is not empty.
    Every method that changes something belongs to that loop's thread, except `notify_threadsafe`,
    and so does cancelling a future: other threads get a RuntimeError, and use the loop's
    `call_soon_threadsafe`. Any thread may end an operation, and read what the purgatory holds. The
    methods have the names and errors of `request_purgatory.DelayedOperationPurgatory`.

    >>> import asyncio
    >>> async def main():
    ...     acks = set()
    ...     async with Purgatory("produce") as purgatory:
    ...         def ack(replica):
    ...             acks.add(replica)
    ...             purgatory.notify("orders-0")
    ...         loop = asyncio.get_running_loop()
    ...         loop.call_soon(ack, "broker-2")
    ...         loop.call_soon(ack, "broker-3")
    ...         ready = lambda: len(acks) >= 2 and sorted(acks)
    ...         print(await purgatory.hold(["orders-0"], until=ready, timeout=5))
    ...         try:
    ...             await purgatory.hold(["orders-0"], until=lambda: len(acks) > 2, timeout=0.02)
    ...         except TimeoutError as error:
    ...             print(error)
    >>> asyncio.run(main())
    ['broker-2', 'broker-3']
    the condition did not hold within 20 ms
    """

    _core: PurgatoryCore | None = cast("Any", _Uninitialized())

    def __init__(
        self,
        name: str = "purgatory",
        *,
        tick_ms: int = DEFAULT_TICK_MS,
        wheel_size: int = DEFAULT_WHEEL_SIZE,
        purge_interval: int = 1000,
        batch: int = 1000,
        on_watch: Callable[[DelayedOperation, Sequence[Hashable]], object] | None = None,
        on_try: Callable[[DelayedOperation], object] | None = None,
        on_end: Callable[[DelayedOperation], object] | None = None,
    ) -> None:
        """Make a purgatory for one `async with` block.

        Args:
            name: Shown in errors and logs.
            tick_ms: Resolution of timeouts in whole milliseconds. By the loop's time a timeout is
                never early, and late by less than a tick plus what the loop is busy with.
            wheel_size: Buckets per timing wheel, as of SystemTimer.
            purge_interval: Purge the watch table once about this many ended operations are in it.
            batch: The number of operations that one `notify`, or one instant at which many expire,
                runs before the loop runs other tasks.
            on_watch: As of DelayedOperationPurgatory.
            on_try: As of DelayedOperationPurgatory.
            on_end: As of DelayedOperationPurgatory.

        Raises:
            InvalidArgumentError: An argument is of another type than its description says, or out
                of range.
        """
        self.name = checked_name(name)
        check_hooks(on_watch, on_try, on_end)
        self.batch = number_within("batch", batch, 1, primitives.LIMIT)
        self._tick_ms = number_within("tick_ms", tick_ms, 1, MAX_DELAY_MS)
        self._wheel_size = number_within("wheel_size", wheel_size, 2, MAX_WHEEL_SIZE)
        self._purge_interval = checked_purge_interval(purge_interval)
        # Until the block is entered; from then on the core has them.
        self._hooks = (on_watch, on_try)
        self._answers = WaitAnswers(self.name, on_end)
        self._core: PurgatoryCore | None = None
        self._in_child = False

    def _add_hooks(self, on_watch: WatchHook, on_try: Hook, on_end: Hook) -> None:
        self._answers.on_end = both(self._answers.on_end, on_end)
        self._hooks = (on_watch, on_try)
        if self._core is not None:
            self._core.on_watch, self._core.on_try = self._hooks
            self._core.on_end = self._answers.operation_ended

    # A copy would share the original's operations.
    __copy__ = __deepcopy__ = refuse_copy
    __reduce__ = refuse_pickling

    async def __aenter__(self) -> Purgatory:
        if self._core is not None:
            raise RuntimeError(
                f"purgatory {self.name!r} was entered before: make a new one for each block"
            )
        self._loop = asyncio.get_running_loop()
        self._timer = SystemTimer(
            self.name,
            tick_ms=self._tick_ms,
            wheel_size=self._wheel_size,
            clock=LoopClock(self._loop),
        )
        on_watch, on_try = self._hooks
        self._core = PurgatoryCore(
            self.name,
            timer=self._timer,
            purge_interval=self._purge_interval,
            shards=1,
            reaper=False,
            on_watch=on_watch,
            on_try=on_try,
            # Without a need for it, the end of each operation is spared the call.
            on_end=None if self._answers.on_end is None else self._answers.operation_ended,
        )
        # A loop of `testing` fails the test of what callbacks raise.
        self._core._errors.listener = getattr(self._loop, "callback_failed", None)
        # Operations expire in the context of the block, not in that of the caller that happened to
        # set the alarm.
        context = contextvars.copy_context()
        self._alarm = Alarm(self._core, self._timer, self._loop, context, self.batch)
        self._core._alarm = self._answers.alarm = weakref.ref(self._alarm)
        self._sweeper = Sweeper(self._core, self._loop, self.batch)
        register_for_forks(self)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self.close()

    # -- requests as futures

    def gather(
        self,
        futures: Iterable[FutureLike],
        *,
        quorum: int | None = None,
        timeout: float | timedelta | None = None,
        deadline: float | None = None,
    ) -> asyncio.Future[Quorum]:
        """As `HoldsRequests.gather`."""
        alarm = self._here()
        timeout_ms = (
            timeout_to_ms(timeout)
            if deadline is None
            else self._entered()._remaining_ms(timeout, deadline)
        )
        future: HoldFuture[Quorum] = HoldFuture(loop=self._loop)
        operation = QuorumOperation(tuple(futures), quorum, timeout_ms, future)
        operation.watch_in(self._entered())
        if not future.done():
            alarm.set_first_for(operation)
        return future

    # -- requests as operations

    def wait(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> asyncio.Future[Outcome]:
        """Wait for an operation's end: `outcome = await purgatory.wait(operation, keys)`.

        The operation's methods are called on the loop, as DelayedOperationPurgatory calls them. Any
        thread may end it. Cancelling the awaiting task cancels the operation.

        Args:
            operation: One that has not been in a purgatory.
            keys: One or more watch keys.

        Returns:
            A future of the outcome. It raises PurgatoryClosedError where the block was left.

        Raises:
            InvalidArgumentError: There is no key.
            TaskInUseError: The operation is or was in a purgatory.
            PurgatoryClosedError: The block was left.
            RuntimeError: The block was not entered, or on another loop or thread.
            BaseException: What the operation's own code raises in its first try; the operation has
                ended then.
        """
        alarm = self._here()
        require_type("operation", operation, DelayedOperation)
        keys = unique_keys(keys)
        future: HoldFuture[Outcome] = HoldFuture(loop=self._loop)
        future.operation = operation
        # Before the first try: any thread may end the operation, and looks up the future once the
        # callbacks have run, if it finds the purgatory by then.
        new = getattr(operation, "_purgatory", None) is None  # Interpreted, without `__init__`.
        core = self._entered()
        try:
            if new:
                if core.on_end is None:
                    core.on_end = self._answers.operation_ended
                self._answers.add(operation, future)
            alarm.enter(operation, keys)
            if operation._try_state == states.OVER_BEFORE:
                self._answers.answer(operation)
            self._answers.hide(operation)
        except BaseException:
            if new:
                self._answers.drop(operation)
            raise
        return future

    def renew(self, operation: DelayedOperation, timeout: float | timedelta | None) -> bool:
        """As `HoldsRequests.renew`."""
        return self._here().renew(operation, timeout)

    # -- events

    def notify_many(self, keys: Iterable[Hashable]) -> None:
        """Call `notify` for each of `keys`, once for a key that is given twice.

        Raises:
            InvalidArgumentError: `keys` is one string.
            BaseException: What `notify` raised, once all keys were notified.
        """
        raise_last(self.notify, checked_keys("keys", keys, at_least=0))

    def notify_threadsafe(self, key: Hashable) -> None:
        """Have the loop call `notify` soon, from any thread; once for all calls until then.

        After the block it does nothing.

        Raises:
            RuntimeError: The block was not entered.
        """
        if not self._entered().is_closed:
            self._sweeper.post(key)

    def check_and_complete(self, key: Hashable) -> int:
        """Try all operations that watch `key` now, however many they are.

        The low level under `notify`, for callers that need the count: the loop runs nothing else
        meanwhile.

        Returns:
            The number of operations that this call completed.

        Raises:
            RuntimeError: The block was not entered, or on another loop or thread.
        """
        core = self._entered()
        if running_loop() is not self._loop:
            self._here()  # Raises.
        return core.check_and_complete(key)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch `key`, for a key that no longer exists.

        Returns:
            The operations that this call cancelled; none after the block.

        Raises:
            RuntimeError: The block was not entered, or its loop runs on another thread.
        """
        core = self._entered()
        if core.is_closed:
            return []
        self._refuse_other_threads("call_soon_threadsafe(purgatory.cancel_for_key, key)")
        return core.cancel_for_key(key)

    # -- what it holds

    @property
    def is_closed(self) -> bool:
        """True once the block was left."""
        return self._core is not None and self._core.is_closed

    @property
    def num_delayed(self) -> int:
        """The exact number of pending operations."""
        return 0 if self._core is None else self._core.num_delayed

    @property
    def watched(self) -> int:
        """The number of entries in all watcher lists."""
        return 0 if self._core is None else self._core.watched

    def num_watchers(self, key: Hashable) -> int:
        """Return the number of entries in the watcher list of `key`. O(1)."""
        return 0 if self._core is None else self._core.num_watchers(key)

    @property
    def timer(self) -> SystemTimer | None:
        """The timer of the timeouts, to look at; None until the block is entered.

        Nothing advances it for other tasks: set those on the loop, by `loop.call_later`.
        """
        return None if self._core is None else self._timer

    def metrics(self) -> PurgatoryMetrics:
        """Return one consistent reading of the counters.

        Raises:
            RuntimeError: The block was not entered.
        """
        return self._entered().metrics()

    def metrics_by_name(self) -> dict[str, PurgatoryMetrics]:
        """As `HoldsRequests.metrics_by_name`."""
        return self._entered().metrics_by_name()

    def snapshot(self, top: int = 10) -> PurgatorySnapshot:
        """As `HoldsRequests.snapshot`."""
        return self._entered().snapshot(top)

    def __repr__(self) -> str:
        if "_core" not in vars(self):
            return f"<{type(self).__module__}.{type(self).__name__} not initialized>"
        if self._core is None:
            state = "not entered"
        elif self.is_closed:
            state = "closed"
        else:
            state = f"pending={self.num_delayed}"
        return f"<{type(self).__module__}.{type(self).__name__} {self.name!r} {state}>"

    # -- the end

    def close(self) -> list[DelayedOperation]:
        """Close the purgatory and cancel every pending operation, as leaving the block does.

        The futures of `hold` and `wait` raise PurgatoryClosedError. Events that come later are
        ignored.

        Returns:
            The operations that this call cancelled. A second call returns what an interrupted first
            one has left, usually nothing.

        Raises:
            RuntimeError: The loop of the block runs on another thread.
        """
        if self._core is None or (self._core.is_closed and not self._core.num_delayed):
            return []
        self._refuse_other_threads("call_soon_threadsafe(purgatory.close)")
        return self._close(self._core)

    def close_threadsafe(self) -> None:
        """Have the loop call `close` soon, from any thread or signal handler.

        Before and after the block it does nothing.
        """
        if self._core is not None and not self._core.is_closed:
            try:
                self._loop.call_soon_threadsafe(self.close)
            except RuntimeError:
                pass  # The loop is closed: nobody waits any more.

    def _close(self, core: PurgatoryCore) -> list[DelayedOperation]:
        self._answers.is_closed = True
        try:
            return core.close()
        finally:
            if core.is_closed:
                self._timer.shutdown()
                self._sweeper.clear()
                if self._alarm is not None:
                    self._alarm.cancel()

    def _refuse_other_threads(self, instead: str) -> None:
        if is_foreign_thread(self._loop):
            raise RuntimeError(
                f"purgatory {self.name!r} belongs to its loop's thread: "
                f"call loop.{instead} from other threads"
            )

    def _refuse(self) -> NoReturn:
        if self._entered().is_closed:
            raise PurgatoryClosedError(self.name)
        raise RuntimeError(
            f"purgatory {self.name!r} belongs to the loop on which its block was entered, "
            "and to that loop's thread"
        )

    def _refuse_to_notify(self) -> None:
        if not self._entered().is_closed:
            raise RuntimeError(
                f"purgatory {self.name!r} belongs to its loop's thread: "
                "call notify_threadsafe from other threads"
            )

    def _entered(self) -> PurgatoryCore:
        if self._core is None:
            raise RuntimeError(
                f"purgatory {self.name!r} has not been entered: use it inside `async with`"
            )
        if self._in_child:
            raise RuntimeError(
                f"purgatory {self.name!r} belongs to a loop of the parent process: "
                "make a new one in this process"
            )
        return self._core

    # -- in a forked child

    def _reset_in_child(self) -> None:
        """Refuse every later use: an event loop does not run on in a forked child."""
        self._in_child = True
        if self._core is not None:
            self._sweeper.clear()
            self._answers.clear()
            # Before `close`, whether or not the core was reset by itself already.
            self._core._reset_in_child()
            if not self._core.is_closed:
                self._close(self._core)
