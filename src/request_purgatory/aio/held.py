"""The operation behind a waiter. Compiled, as it is made, tried and ended for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from request_purgatory import states
from request_purgatory.aio.waiting import end_unanswered
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.futures import timeout_to_ms
from request_purgatory.operation import DelayedOperation
from request_purgatory.timer.task import MAX_DELAY_MS

if TYPE_CHECKING:
    from request_purgatory.aio.waiting import Waiting


class HeldRequest(DelayedOperation):
    """What `Purgatory.hold` puts into the purgatory: a condition, and whoever waits for its value."""

    __slots__ = ("_error", "_until", "_value", "waiting")

    def __init__(self, until: Callable[[], object], timeout: float | None) -> None:
        if not callable(until):
            raise InvalidArgumentError("until", "callable", until)
        super().__init__(MAX_DELAY_MS if timeout is None else timeout_to_ms(timeout))
        self._until: Callable[[], object] | None = until
        self._value: object = None
        self._error: Exception | None = None
        self.waiting: Waiting | None = None

    def try_complete(self) -> bool:
        until = self._until
        if until is None:
            return False
        try:
            value = until()
        except StopIteration as error:
            # No future takes this one: in a coroutine it would mean something else.
            self._error = RuntimeError(f"the condition raised {error!r}")
            return self.force_complete()
        except Exception as error:
            # Whoever waits has to hear of it, and now: a condition that raises is not going to become true.
            self._error = error
            return self.force_complete()
        if not value:
            return False
        self._value = value
        return self.force_complete()

    def on_complete(self) -> None:
        waiting = self._leave()
        if waiting is None or waiting.done():
            return
        if self._state == states.EXPIRED:
            waiting.set_exception(TimeoutError(f"the condition did not hold within {self.delay_ms} ms"))
        elif self._error is not None:
            waiting.set_exception(self._error)
        else:
            waiting.set_result(self._value)

    def on_cancellation(self) -> None:
        waiting = self._leave()
        if waiting is not None:
            end_unanswered(waiting, self)

    def _leave(self) -> Waiting | None:
        # Whoever keeps the future need not keep the condition, and the two need not keep one another for the collector to find.
        waiting = self.waiting
        self.waiting = None
        self._until = None
        return waiting
