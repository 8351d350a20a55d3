"""The operation that most tests use.

A condition that the test switches, and a record of all that was called.
"""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory import DelayedOperation


class Fault(Exception):  # noqa: N818 - not an error of the program's
    """What a test's callback raises."""


def fail() -> None:
    """A callback that raises."""
    raise Fault


class Request(DelayedOperation):
    """Completes once `ready` is set.

    Attributes:
        ready: the condition.
        tries: how often try_complete was called.
        calls: the callbacks that were called, in order.
        during: what to do inside a callback, by its name; "try" runs after a look at a condition
            that was false.
    """

    def __init__(
        self, delay_ms: int = 1000, *, ready: bool = False, **during: Callable[[], object]
    ) -> None:
        super().__init__(delay_ms)
        self.ready = ready
        self.tries = 0
        self.calls: list[str] = []
        self.during = during

    def try_complete(self) -> bool:
        self.tries += 1
        if self.ready:
            return self.force_complete()
        self._interrupt("try")
        return False

    def on_complete(self) -> None:
        self.calls.append("complete")
        self._interrupt("complete")

    def on_expiration(self) -> None:
        self.calls.append("expiration")
        self._interrupt("expiration")

    def on_cancellation(self) -> None:
        self.calls.append("cancellation")
        self._interrupt("cancellation")

    def _interrupt(self, callback: str) -> None:
        action = self.during.get(callback)
        if action is not None:
            action()
