"""What the operations behind `hold` have in common.

Compiled, as it is made, tried and ended for each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Protocol

from request_purgatory._native import states
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.timer.task import MAX_DELAY_MS


class Answerable(Protocol):
    """A future of `concurrent.futures` or of `asyncio`."""

    def set_result(self, result: Any, /) -> None: ...
    def set_exception(self, exception: BaseException, /) -> None: ...


def timeout_to_ms(timeout: float) -> int:
    """Seconds as whole milliseconds, rounded up.

    InvalidArgumentError if negative, not a number or beyond 10,000 years.
    """
    if (
        isinstance(timeout, bool)
        or not isinstance(timeout, (int, float))
        or not 0 <= timeout <= MAX_DELAY_MS / 1000
    ):
        raise InvalidArgumentError(
            "timeout", "a number of seconds, not negative and at most 10,000 years", timeout
        )
    # 0.07 * 1000 is 70.00000000000001, of which nobody asked for the last: less than half a
    # microsecond is not rounded up.
    return math.ceil(timeout * 1000 - 0.0005)


class HeldCondition(DelayedOperation):
    """Waits until a condition has a true value, which is its answer.

    Subclasses say who is answered.
    """

    __slots__ = ("_error", "_until", "_value")

    def __init__(self, until: Callable[[], object], delay_ms: int) -> None:
        if not callable(until):
            raise InvalidArgumentError("until", "callable", until)
        super().__init__(delay_ms)
        self._until: Callable[[], object] | None = until
        self._value: object = None
        self._error: BaseException | None = None

    def try_complete(self) -> bool:
        until = self._until
        if until is None:
            return False
        try:
            value = until()
            if not value:
                return False
            if type(value) is CoroutineType:
                value.close()
                raise InvalidArgumentError(
                    "until", "a plain function, as nobody awaits what it returns", until
                )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # Whoever waits has to hear of it, and now: a condition that raises is not going to
            # become true.
            self._error = error
            return self.force_complete()
        self._value = value
        return self.force_complete()

    def _answer(self, future: Answerable) -> None:
        if self._state == states.EXPIRED:
            future.set_exception(
                TimeoutError(f"the condition did not hold within {self.delay_ms} ms")
            )
        elif self._error is None:
            future.set_result(self._value)
        else:
            future.set_exception(self._error)
