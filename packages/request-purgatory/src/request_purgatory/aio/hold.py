"""The future of a request that is held on an event loop."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, TypeVar

from request_purgatory.aio.loop_clock import is_foreign_thread, running_loop
from request_purgatory.purgatory.hold import discard, wrap_error
from request_purgatory.purgatory.operation import DelayedOperation

T = TypeVar("T")


class HoldFuture(asyncio.Future[T]):
    """A future whose cancellation takes its operation out of the purgatory.

    Attributes:
        operation: What ends the future.
    """

    __slots__ = ("operation",)

    operation: DelayedOperation

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the future and its operation; RuntimeError on another thread than the loop's."""
        if self.done():
            return False
        if is_foreign_thread(self.get_loop()):
            purgatory = self.operation._purgatory
            raise RuntimeError(
                f"a future of purgatory {getattr(purgatory, 'name', None)!r} belongs to its loop's "
                "thread: call loop.call_soon_threadsafe(future.cancel) from other threads"
            )
        try:
            return super().cancel(msg)
        finally:
            # Also where a closed loop refuses the future's callbacks: it is cancelled all the same.
            discard(self.operation)

    def answer(self, value: Any, error: BaseException | None) -> None:
        """End the future, in the loop's next round from another thread; no-op if it has ended."""
        loop = self.get_loop()
        if running_loop() is loop:
            self._answer(value, error)
            return
        try:
            loop.call_soon_threadsafe(self._answer, value, error)
        except RuntimeError:
            if not loop.is_closed():
                raise
            # It refuses the future's callbacks, too: no task is left that waits.
            with suppress(RuntimeError):
                self._answer(value, error)

    def _answer(self, value: Any, error: BaseException | None) -> None:
        if self.done():
            return
        if error is None:
            self.set_result(value)
        elif issubclass(type(error), (StopIteration, asyncio.CancelledError)):
            self.set_exception(wrap_error(error))
        else:
            self.set_exception(error)

    def disown(self) -> None:
        """Do nothing: a forked child closes the purgatory, which ends its futures."""
