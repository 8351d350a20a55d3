"""The operation that most tests use: its condition is a switch, and it records its callbacks."""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory import DelayedOperation


class Fault(Exception):  # noqa: N818 - not an error of the program's
    """An error that a test's callback raises on purpose."""


def fail() -> None:
    """Raise `Fault`, as a callback."""
    raise Fault


class Request(DelayedOperation):
    """An operation that completes once `ready` is set.

    Attributes:
        ready: The condition.
        tries: Number of calls of `try_complete`.
        calls: The callbacks that were called, in order.
        during: Functions to call inside callbacks, by the callback's name; "try" is called when
            `try_complete` has found the condition false.
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
