"""A client over its quota.

Its connection is not read on for a while, as Kafka's throttled channels are.
"""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory.purgatory.operation import DelayedOperation


class ThrottledChannel(DelayedOperation):
    """Waits for its time to run out, and lets the connection be read on.

    Watch key: the client's id.
    """

    __slots__ = ("unmute",)

    def __init__(self, throttle_ms: int, unmute: Callable[[], None]) -> None:
        super().__init__(throttle_ms)
        self.unmute = unmute

    def try_complete(self) -> bool:
        return False

    def on_complete(self) -> None:
        self.unmute()
