"""The delayed operation of a client over its quota, whose connection is not read for a while."""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory.purgatory.operation import DelayedOperation


class ThrottledChannel(DelayedOperation):
    """A throttled connection: reading resumes when the timeout expires.

    The watch key is the connection's identity.
    """

    __slots__ = ("unmute",)

    def __init__(self, throttle_ms: int, unmute: Callable[[], None]) -> None:
        super().__init__(throttle_ms)
        self.unmute = unmute

    def try_complete(self) -> bool:
        """Return False: only the timeout completes the operation."""
        return False

    def on_complete(self) -> None:
        """Resume reading the connection."""
        self.unmute()
