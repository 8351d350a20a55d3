"""What is called on an event loop for each request and for each event. Compiled."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from typing import Literal, NoReturn, TypeVar

from request_purgatory._native import primitives
from request_purgatory.aio._alarm import Alarm
from request_purgatory.aio.sweep import Sweeper
from request_purgatory.purgatory._holds_requests import documented
from request_purgatory.purgatory.operation import DelayedOperation

T = TypeVar("T")


class LoopEntrance:
    """The base class of `aio.Purgatory`: the methods by which requests and events come in."""

    _alarm: Alarm | None
    _sweeper: Sweeper

    def hold(
        self,
        keys: Iterable[Hashable],
        *,
        until: Callable[[], T | Literal[False] | None],
        timeout: float | timedelta | None = None,
        deadline: float | None = None,
        not_yet: object = ...,
        name: str | None = None,
    ) -> asyncio.Future[T]:
        """As `HoldsRequests.hold`."""
        return self._opened().hold(keys, until, timeout, deadline, not_yet, name)

    def try_complete_else_watch(
        self, operation: DelayedOperation, watch_keys: Iterable[Hashable]
    ) -> bool:
        """Try the operation; if its condition is false, watch it under every key until it ends.

        For an operation that answers in its own `on_complete`; `wait` makes a future of its end.

        Args:
            operation: One that has not been in a purgatory.
            watch_keys: One or more keys.

        Returns:
            True if this call completed the operation.

        Raises:
            RuntimeError: The block was not entered, or on another loop or thread. All other errors
                as of DelayedOperationPurgatory.
        """
        return self._opened().enter(operation, watch_keys)

    def notify(self, key: Hashable) -> None:
        """Try the requests that watch `key`, in the order of their arrival.

        Call it after a change that conditions depend on. At most `batch` requests are tried before
        it returns; the loop tries the rest in its next rounds. A further call meanwhile has the
        requests that were tried before it tried again, once. Called by a condition or a callback,
        it returns at once, and the key is handled after the present one. After the block it does
        nothing.

        Raises:
            RuntimeError: The block was not entered, or on another thread than the loop's, which has
                to call `notify_threadsafe`. So has a handler of `signal.signal`: this call does not
                wake a loop that sleeps.
            NotificationLoopError, KeyboardInterrupt, SystemExit: As of
                `DelayedOperationPurgatory.check_and_complete`. The loop's later rounds leave them
                to the loop, which logs the first.
        """
        if self._alarm is not None and self._alarm.is_open():
            self._sweeper.notify(key)
        else:
            self._refuse_to_notify()

    def _here(self) -> Alarm:
        """Return the alarm, by which operations enter, on the loop of the open block."""
        return self._opened()

    def _opened(self) -> Alarm:
        alarm = self._alarm
        if alarm is None or not alarm.is_open():
            self._refuse()
        return alarm

    def _refuse(self) -> NoReturn:
        """Raise an error that says why nothing can enter here."""
        raise NotImplementedError

    def _refuse_to_notify(self) -> None:
        """Raise an error that says why no event can come here; return after the block."""
        raise NotImplementedError


if primitives.COMPILED:
    importlib.import_module("request_purgatory._native.class_signatures").document(LoopEntrance)
else:
    documented(LoopEntrance)
    LoopEntrance._alarm = None  # C's field begins so.
