"""The operation behind a waiter on an event loop. Compiled, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from request_purgatory.aio.waiting import end_unanswered
from request_purgatory.purgatory.hold import HeldCondition, timeout_to_ms
from request_purgatory.timer.task import MAX_DELAY_MS

if TYPE_CHECKING:
    from request_purgatory.aio.waiting import Waiting


class HeldRequest(HeldCondition):
    """What `Purgatory.hold` puts into the purgatory.

    A condition, and whoever waits for its value.
    """

    __slots__ = ("waiting",)

    def __init__(self, until: Callable[[], object], timeout: float | None) -> None:
        super().__init__(until, MAX_DELAY_MS if timeout is None else timeout_to_ms(timeout))
        self.waiting: Waiting | None = None

    def on_complete(self) -> None:
        waiting = self._leave()
        if waiting is None or waiting.done():
            return
        error = self._error
        if isinstance(error, (StopIteration, asyncio.CancelledError)):
            # In whoever waits these would mean something else: the end of a generator, a cancelled
            # task.
            self._error = RuntimeError(f"the condition raised {error!r}")
            self._error.__cause__ = error
        self._answer(waiting)

    def on_cancellation(self) -> None:
        waiting = self._leave()
        if waiting is not None:
            end_unanswered(waiting, self)

    def _leave(self) -> Waiting | None:
        # Whoever keeps the future need not keep the condition, and the two need not keep one
        # another for the collector to find.
        waiting = self.waiting
        self.waiting = None
        self._until = None
        return waiting
