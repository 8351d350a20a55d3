"""The one timer that a purgatory has on its event loop. Compiled."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Hashable, Iterable
from contextvars import Context
from datetime import timedelta
from typing import Any

from request_purgatory._native import linked_list, loops
from request_purgatory.aio.hold import MAX_ATTEMPTS, HoldFuture
from request_purgatory.aio.loop_clock import running_loop
from request_purgatory.purgatory.core import PurgatoryCore, checked_keys, unique
from request_purgatory.purgatory.hold import new_hold, timeout_to_ms
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.timer.timer import SystemTimer


class Alarm:
    """Has the loop run a purgatory's timeouts: set to the first bucket that falls due.

    An exception that leaves the loop, such as a signal handler's, may take along what the loop was
    about to call. So an alarm whose time has passed when an operation enters counts as none.

    Attributes:
        handle: What the loop will call; None if nothing is pending.
        at_ms: The time for which it is set, on the timer's clock; infinity if it is not.
    """

    __slots__ = (
        "__weakref__",
        "_batch",
        "_context",
        "_core",
        "_has_strays",
        "_loop",
        "_named",
        "_rings",
        "_timer",
        "at_ms",
        "handle",
    )

    def __init__(
        self,
        core: PurgatoryCore,
        timer: SystemTimer,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        batch: int,
    ) -> None:
        """Make an alarm that is not set; operations expire in `context`, `batch` in a row."""
        self._core = core
        self._timer = timer
        self._loop = loop
        self._named = {"loop": loop}  # The arguments of a future.
        self._context = context
        self._batch = batch
        # True once the loop's code raised: an alarm may be set that nobody knows of.
        self._has_strays = False
        self._rings = False
        self.handle: asyncio.TimerHandle | None = None
        self.at_ms: float = math.inf

    @property
    def is_running(self) -> bool:
        """True if the loop that runs here refers to the alarm, and so to the purgatory.

        No code in Python: a signal handler that raises there would be lost in a collection.
        """
        return (self.handle is not None or self._rings) and running_loop() is self._loop

    def is_open(self) -> bool:
        """Return True on the loop's thread, as long as the block is open."""
        return not self._core._closed and loops.runs_here(self._loop)

    def hold(
        self,
        keys: Iterable[Hashable],
        until: Callable[[], object],
        timeout: float | timedelta | None,
        deadline: float | None,
        not_yet: object,
        name: str | None,
    ) -> HoldFuture[Any]:
        """As `HoldsRequests.hold`; the caller has asked `is_open`."""
        keys = unique_keys(keys)
        timeout_ms = (
            timeout_to_ms(timeout)
            if deadline is None
            else self._core._remaining_ms(timeout, deadline)
        )
        future: HoldFuture[Any] = loops.call_with(HoldFuture, self._named)
        operation = new_hold(until, timeout_ms, future, not_yet)
        if name is None:
            self.enter(operation, keys)
        else:
            self._core._enter_named(operation, keys, name)
            self.set_first_for(operation)
        return future

    def enter(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Put an operation into the purgatory and set the alarm, or leave nothing of it behind."""
        completed = self._core.try_complete_else_watch(operation, keys)
        self.set_first_for(operation)
        return completed

    def renew(self, operation: DelayedOperation, timeout: float | timedelta | None) -> bool:
        renewed = self._core.renew(operation, timeout)
        try:
            self.set_for(operation)
        except MemoryError:
            self.set_for(operation)  # It has its new deadline already.
        except BaseException:
            self._insist()
            raise
        return renewed

    def set_first_for(self, operation: DelayedOperation) -> None:
        """Set the alarm for an operation that has just entered, or leave nothing of it behind."""
        try:
            self.set_for(operation)
        except BaseException:
            self._core._discard(operation)
            raise

    def set_for(self, operation: DelayedOperation) -> None:
        """Set the alarm earlier if the operation's bucket is the first that falls due."""
        if linked_list.is_linked(operation):
            if operation._timer_expiration_ms < self.at_ms:
                if self.handle is None:
                    self.set_next()  # The last one may have found no memory for this.
                else:
                    self._set(operation._timer_expiration_ms)
            elif operation._entered_ms > self.at_ms:
                # It should have come before now. Either the loop is about to come to it, or never.
                self._set(operation._entered_ms)
        if self._core._purge_requested:
            self._core._purge_if_due()

    def set_next(self) -> None:
        """Set the alarm to the next bucket, if that is earlier."""
        next_ms = self._timer._peek_expiration_ms()
        # What ran may have added an operation and set an alarm for it, or closed the purgatory.
        if 0 <= next_ms < self.at_ms and not self._core.is_closed:
            self._set(next_ms)

    def _set(self, at_ms: float) -> None:
        # The new alarm first: where the loop finds no memory for it, the old one stays. Each in a
        # context of its own: under nest_asyncio the alarm before may still run, in its context.
        try:
            handle = self._loop.call_at(at_ms / 1000, self.ring, context=self._context.copy())
            self.at_ms = at_ms
            before = self.handle
            self.handle = handle
            if before is not None:
                before.cancel()
        except BaseException:
            self._has_strays = True
            raise

    def _insist(self) -> None:
        """Set the alarm to the next bucket after a call that could not."""
        attempts = MAX_ATTEMPTS
        while attempts:
            attempts -= 1
            try:
                self.set_next()
                return
            except BaseException:
                if not attempts:
                    raise

    def cancel(self) -> None:
        """Call the alarm off."""
        before = self.handle
        self.handle = None
        self.at_ms = math.inf
        if before is not None:
            before.cancel()

    def ring(self) -> None:
        """Run a batch of what is due, and set the next alarm; called by the loop."""
        before = self.handle
        self.handle = None
        self.at_ms = math.inf
        if self._core.is_closed:
            return
        self._rings = True
        try:
            if before is not None and self._has_strays:
                before.cancel()  # This call may be a stray one.
            self._timer.run_due(self._batch)
            self._core._purge_if_due()
        finally:
            self._ring_on()

    def _ring_on(self) -> None:
        """Set the next alarm: without one no timeout would come."""
        self._rings = False
        try:
            self.set_next()
        except BaseException as failure:
            self._insist()
            if not issubclass(type(failure), MemoryError):
                raise


def unique_keys(keys: Iterable[Hashable]) -> list[Hashable]:
    checked = checked_keys("keys", keys)
    return checked if len(checked) == 1 else unique(checked)
