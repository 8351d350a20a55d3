"""The purgatory on an event loop."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from types import TracebackType
from typing import Any

from request_purgatory._native import primitives
from request_purgatory._native.forks import begin_anew_in_children
from request_purgatory.aio.hold import HeldRequest
from request_purgatory.aio.loop_clock import clock_of, running_loop
from request_purgatory.aio.sweep import Sweep
from request_purgatory.aio.waiting import Waiting, checked_keys, end_unanswered
from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError, whole_number
from request_purgatory.metrics import PurgatoryMetrics
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.timer.timer import SystemTimer


class Purgatory:
    """Holds asyncio's waiters until their condition is met or their time runs out, and ends each exactly once.

    Without a thread: conditions, callbacks and the clock run on the event loop that the block was
    entered on, and the loop has one timer for the whole purgatory, at the next bucket that is not
    empty. Every method belongs to that loop's thread, but `notify_threadsafe`.

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
    ...         print(await purgatory.hold(["orders-0"], until=lambda: len(acks) >= 2 and sorted(acks), timeout=5))
    ...         try:
    ...             await purgatory.hold(["orders-0"], until=lambda: len(acks) >= 3, timeout=0.02)
    ...         except TimeoutError as error:
    ...             print(error)
    >>> asyncio.run(main())
    ['broker-2', 'broker-3']
    the condition did not hold within 20 ms
    """

    def __init__(
        self, name: str = "aio", *, tick_ms: int = 1, purge_interval: int = 1000, batch: int = 1000
    ) -> None:
        """A purgatory for one `async with` block.

        Args:
            name: shown in errors and logs.
            tick_ms: resolution of timeouts in whole milliseconds; by the loop's time a timeout is
                never early, and late by less than a tick plus what the loop is busy with.
            purge_interval: purge the watcher lists once about this many ended operations are in
                them.
            batch: how many operations one `notify`, or one moment at which many time out, runs
                before the loop has its turn.

        Raises:
            InvalidArgumentError: tick_ms or batch below 1, or purge_interval below 0.
        """
        if whole_number("batch", batch) < 1:
            raise InvalidArgumentError("batch", "at least 1", batch)
        if whole_number("purge_interval", purge_interval) < 0:
            raise InvalidArgumentError("purge_interval", "at least 0", purge_interval)
        if whole_number("tick_ms", tick_ms) < 1:
            raise InvalidArgumentError("tick_ms", "at least 1", tick_ms)
        self.name = name
        self.batch = batch
        self._tick_ms = tick_ms
        self._purge_interval = purge_interval
        self._core: DelayedOperationPurgatory | None = None
        # The keys that are being notified; those whose turn is now, and those that wait for the
        # loop's next round.
        self._sweeps: dict[Hashable, Sweep] = {}
        self._turn: deque[Sweep] = deque()
        self._rest: deque[Sweep] = deque()
        self._sweeping = False
        # The keys that other threads have notified and the loop has not come to.
        self._posted: set[Hashable] = set()
        self._waitings: dict[int, Waiting] = {}
        self._in_child = False
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: float = math.inf

    async def __aenter__(self) -> Purgatory:
        if self._core is not None:
            raise RuntimeError(
                f"purgatory {self.name!r} was entered before: make a new one for each block"
            )
        self._loop = asyncio.get_running_loop()
        # What times out does so in the context of the block, not in that of whoever happened to set
        # the alarm.
        self._context = contextvars.copy_context()
        self._timer = SystemTimer(self.name, tick_ms=self._tick_ms, clock=clock_of(self._loop))
        self._core = DelayedOperationPurgatory(
            self.name,
            timer=self._timer,
            purge_interval=self._purge_interval,
            shards=1,
            reaper=False,
        )
        self._core.end_listener = self._operation_ended
        begin_anew_in_children(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- waiting

    def hold(
        self, keys: Iterable[Hashable], *, until: Callable[[], object], timeout: float | None
    ) -> asyncio.Future[Any]:
        """Wait until a condition holds: `value = await purgatory.hold(...)`.

        `until` is called now, and whenever one of `keys` is notified, until it returns a true
        value. Cancelling whoever awaits this, or the future itself, takes the request out at once.

        Args:
            keys: one or more watch keys, anything hashable.
            until: the condition; it must not block.
            timeout: seconds, not negative; rounded up to whole milliseconds. None waits for ever.

        Returns:
            A future for the first true value that `until` returns. It raises TimeoutError when time
            runs out; what `until` raised, if it raises; PurgatoryClosedError when the block is
            left; OperationCancelledError after `cancel_for_key`.

        Raises:
            InvalidArgumentError: no key, or a timeout that is no number of seconds, negative, or
                beyond 10,000 years.
            PurgatoryClosedError: after the block; RuntimeError before it, and on another loop or
                thread than the block's.
        """
        core = self._core
        if core is None or core.is_closed or running_loop() is not self._loop:
            core = self._here()  # Raises.
        keys = checked_keys(keys)
        request = HeldRequest(until, timeout)
        request.waiting = waiting = Waiting(loop=self._loop)
        waiting.purgatory = core
        waiting.operation = request
        core.try_complete_else_watch(request, keys)
        if not waiting.done():
            self._await_alarm(core, request)
        return waiting

    def wait(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> asyncio.Future[str]:
        """Wait for an operation of a class of yours: `outcome = await purgatory.wait(operation, keys)`.

        Its methods are called on the loop, as `DelayedOperationPurgatory` calls them, and it may be
        ended by any thread. Cancelling whoever awaits this cancels the operation.

        Returns:
            A future for the operation's outcome: "completed", "expired", or "cancelled". It raises
            PurgatoryClosedError when the block is left.

        Raises:
            InvalidArgumentError: no key.
            TaskInUseError: the operation is or was in a purgatory.
            PurgatoryClosedError: after the block; RuntimeError before it, and on another loop or
                thread than the block's.
            Exception: what the operation's own code raises in its first try; the operation has
                ended then.
        """
        core = self._here()
        keys = checked_keys(keys)
        waiting = Waiting(loop=self._loop)
        waiting.purgatory = core
        waiting.operation = operation
        # Before it is tried: from then on any thread may end it, and looks for the waiter once its
        # callbacks have run.
        new = operation._purgatory is None
        ended_before = operation.is_completed
        if new:
            self._waitings[id(operation)] = waiting
        try:
            core.try_complete_else_watch(operation, keys)
        except BaseException:
            if new:
                self._waitings.pop(id(operation), None)
            raise
        if ended_before:
            # Its callbacks ran before it came here, and nobody will report its end once more.
            self._operation_ended(operation)
        self._await_alarm(core, operation)
        return waiting

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable]
    ) -> bool:
        """`wait` for an operation that answers by itself, in its `on_complete`: nobody awaits it, and there is no future.

        Returns and raises as `DelayedOperationPurgatory.try_complete_else_watch` does; RuntimeError
        before the block, and on another loop or thread than the block's.
        """
        core = self._here()
        completed = core.try_complete_else_watch(operation, keys)
        self._await_alarm(core, operation)
        return completed

    def _operation_ended(self, operation: DelayedOperation) -> None:
        """Called by whoever ended an operation, on any thread, after its callbacks."""
        waiting = self._waitings.pop(id(operation), None)
        if waiting is None:
            return
        if running_loop() is self._loop:
            _tell(waiting, operation)
            return
        try:
            self._loop.call_soon_threadsafe(_tell, waiting, operation)
        except RuntimeError:
            # A loop that is closed has nobody left who could be told.
            if not self._loop.is_closed():
                raise

    # -- events

    def notify(self, key: Hashable) -> None:
        """Try the operations that watch `key`, in the order in which they came: call it after a change that conditions depend on.

        At most `batch` of them before this returns; the loop runs the rest in its next rounds. A
        further call meanwhile makes those that were tried before it be tried again, once. Called by
        a condition or a callback, it returns at once, and the key's turn comes after the present
        one. After the block nothing waits for events, and they are ignored.

        Raises:
            RuntimeError: before the block, and on another thread than the loop's, where
                `notify_threadsafe` is the one to call.
        """
        core = self._core
        if core is None or core.is_closed:
            self._entered()
            return
        if running_loop() is not self._loop:
            raise RuntimeError(
                f"purgatory {self.name!r} belongs to its loop's thread: call notify_threadsafe from others"
            )
        sweep = self._sweeps.get(key)
        if sweep is not None:
            sweep.again = sweep.begun
            return
        count = core.watched_under(key)
        if not count:
            return
        if self._sweeping or count > self.batch:
            self._plan(core, key)
            if not self._sweeping:
                self._sweep(core, self.batch)
            return
        # The usual case, without a sweep to remember how far it came.
        self._sweeping = True
        try:
            core.check_and_complete(key)
        except BaseException:
            # The program is to end, or so it seems: if not, nobody who watches the key has missed
            # the event.
            self._sweeping = False
            self._plan(core, key)
            self._put_off(core)
            raise
        self._sweeping = False
        if self._turn:
            self._sweep(core, self.batch - count)

    def _plan(self, core: DelayedOperationPurgatory, key: Hashable) -> None:
        self._sweeps[key] = sweep = Sweep(core, key)
        self._turn.append(sweep)

    def _sweep(self, core: DelayedOperationPurgatory, left: int) -> None:
        """Go on with the keys whose turn it is, until `left` operations have been tried."""
        turn = self._turn
        self._sweeping = True
        try:
            while turn and left > 0 and not core.is_closed:
                sweep = turn[0]
                left -= sweep.step(left)
                if sweep.done:
                    self._sweeps.pop(sweep.key, None)
                    turn.popleft()
        finally:
            self._sweeping = False
            if turn:
                self._put_off(core)

    def _put_off(self, core: DelayedOperationPurgatory) -> None:
        """Leave to the loop's next round what is left of this turn."""
        if not core.is_closed:
            if not self._rest:
                self._loop.call_soon(self._next_round, core)
            self._rest.extend(self._turn)
        self._turn.clear()

    def _next_round(self, core: DelayedOperationPurgatory) -> None:
        self._turn.extend(self._rest)
        self._rest.clear()
        self._sweep(core, self.batch)

    def notify_threadsafe(self, key: Hashable) -> None:
        """`notify`, from any thread: the loop does it soon, once for all calls with that key until then.

        After the block nothing waits for events, and they are ignored.

        Raises:
            RuntimeError: before the block.
        """
        if self._entered().is_closed:
            return
        # What changed before a key was posted is seen when the loop comes to it: it takes the key
        # out before it looks.
        if key in self._posted and not self._loop.is_closed():
            return
        try:
            self._posted.add(key)
            self._loop.call_soon_threadsafe(self._notify_posted, key)
        except BaseException as error:
            # Whatever it was, a signal handler's exception for instance: the next call posts the
            # key again.
            self._posted.discard(key)
            if not (isinstance(error, RuntimeError) and self._loop.is_closed()):
                raise

    def _notify_posted(self, key: Hashable) -> None:
        self._posted.discard(key)
        if not self.is_closed:
            self.notify(key)

    def cancel_for_key(self, key: Hashable) -> list[DelayedOperation]:
        """Cancel the operations that watch `key`, which is gone; those that this call cancelled.

        Whoever awaits a `hold` gets OperationCancelledError. After the block there are none.

        Raises:
            RuntimeError: before the block.
        """
        return self._entered().cancel_for_key(key)

    # -- the clock

    def _await_alarm(self, core: DelayedOperationPurgatory, operation: DelayedOperation) -> None:
        """See to it that the loop calls when an operation's time has come, or its bucket's, if that is earlier than all else."""
        if operation._bucket is not None and operation._expiration_ms < self._alarm_ms:
            self._set_alarm(operation._expiration_ms)
        if core._purge_requested:
            core.purge_if_due()

    def _set_alarm(self, now_ms: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self._alarm_ms = now_ms
        if now_ms < math.inf:
            self._alarm = self._loop.call_at(now_ms / 1000, self._on_alarm, context=self._context)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._alarm_ms = math.inf
        core = self._core
        if core is None or core.is_closed:
            return
        try:
            self._timer.run_due(self.batch)
            core.purge_if_due()
        finally:
            next_ms = self._timer.next_expiration_ms
            # What ran may have put something in, and set an alarm for it; or closed the purgatory.
            if next_ms is not None and next_ms < self._alarm_ms and not core.is_closed:
                self._set_alarm(next_ms)

    # -- what it holds

    @property
    def is_closed(self) -> bool:
        """True once the block was left."""
        return self._core is not None and self._core.is_closed

    @property
    def num_delayed(self) -> int:
        """Exactly how many operations are pending."""
        return 0 if self._core is None else self._core.num_delayed

    @property
    def watched(self) -> int:
        """Entries in all watcher lists. O(keys)."""
        return 0 if self._core is None else self._core.watched

    @property
    def alarms(self) -> int:
        """How many timers the purgatory has on the loop.

        1 while anything is pending or was a moment ago, else 0.
        """
        return 0 if self._alarm is None else 1

    def metrics(self) -> PurgatoryMetrics:
        """The counters at this moment; RuntimeError before the block."""
        return self._entered().metrics()

    def check(self) -> None:
        """Assert every invariant. O(watched)."""
        core = self._entered()
        core.check()
        assert self._alarm is None or not self._alarm.cancelled(), "the alarm was cancelled"
        next_ms = self._timer.next_expiration_ms
        assert next_ms is None or core.is_closed or self._alarm is not None, (
            "something is pending and no alarm is set"
        )
        assert len(self._waitings) <= core.num_delayed, "a waiter of an ended operation is kept"

    # -- the end

    def close(self) -> list[DelayedOperation]:
        """What leaving the block does; may be repeated.

        The operations that were pending; who waits gets PurgatoryClosedError.
        """
        core = self._core
        if core is None or core.is_closed:
            return []
        try:
            return core.shutdown()
        finally:
            self._timer.shutdown()
            self._sweeps.clear()
            self._rest.clear()
            if not self._sweeping:
                self._turn.clear()
            self._set_alarm(math.inf)

    def _here(self) -> DelayedOperationPurgatory:
        core = self._opened()
        if running_loop() is not self._loop:
            raise RuntimeError(
                f"purgatory {self.name!r} belongs to the running loop on which its block was entered"
            )
        return core

    def _opened(self) -> DelayedOperationPurgatory:
        core = self._entered()
        if core.is_closed:
            raise PurgatoryClosedError(self.name)
        return core

    def _entered(self) -> DelayedOperationPurgatory:
        if self._core is None:
            raise RuntimeError(
                f"purgatory {self.name!r} has not been entered: use it inside `async with`"
            )
        if self._in_child:
            raise RuntimeError(
                f"purgatory {self.name!r} belongs to a loop of the parent process: make one on this process's own"
            )
        return self._core

    # -- in a forked child

    def _fork_locks(self) -> list[primitives.CoreLock]:
        return []

    def _renew_locks(self) -> None:
        """The core's are its own matter."""

    def _begin_in_child(self) -> None:
        """Refuse from here on: a loop does not run on in a child."""
        self._in_child = True
        self._waitings.clear()
        self._posted.clear()
        if self._core is not None:
            self._core._begin_in_child()  # Whether its own turn comes sooner or later: before the end, which tells of it.
        self.close()


def _tell(waiting: Waiting, operation: DelayedOperation) -> None:
    if waiting.done():
        return
    if operation.outcome == "cancelled" and waiting.purgatory.is_closed:
        end_unanswered(waiting, operation)
    else:
        waiting.set_result(operation.outcome)
