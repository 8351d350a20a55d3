"""The future of a request that is held on an event loop."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

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
        """Cancel the future and its operation, which leaves every watcher list and the timer.

        Returns:
            False if the future was done.
        """
        if not super().cancel(msg):
            return False
        discard(self.operation)
        return True

    def answer(self, value: Any, error: BaseException | None) -> None:
        """End the future with a value or an error; no-op if it was cancelled."""
        if self.done():
            return
        if error is None:
            self.set_result(value)
        elif isinstance(error, (StopIteration, asyncio.CancelledError)):
            self.set_exception(wrap_error(error))
        else:
            self.set_exception(error)

    def disown(self) -> None:
        """Do nothing: a forked child closes the purgatory, which ends its futures."""
