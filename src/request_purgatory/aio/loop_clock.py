"""An event loop's time as a clock."""

from __future__ import annotations

import asyncio
from typing import Any

from request_purgatory._native.parker import Parker
from request_purgatory.clock import Clock, MonotonicClock


class LoopClock(Clock):
    """`loop.time()` to the microsecond, for loops that keep a time of their own.

    Uvloop's, or a test's virtual one.
    """

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def now_ns(self) -> int:
        return self._read_ns()

    def _read_ns(self) -> int:
        # Rounded: at 1.005 s the loop may say 1.00499999, and where time stands still (a virtual
        # loop's) it would never be 1,005 ms.
        return round(self._loop.time() * 1e6) * 1000

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:  # noqa: ARG002
        """Refused: a loop's clock is waited for by the loop (RuntimeError)."""
        raise RuntimeError("nobody sleeps on an event loop's clock: the loop calls when it is time")


#: The event loop that runs on this thread, or None.
running_loop = asyncio._get_running_loop


def clock_of(loop: asyncio.AbstractEventLoop) -> Clock:
    """The clock that agrees with `loop.time()`.

    The machine's monotonic one, read by C, where the loop uses that.
    """
    time: Any = getattr(type(loop), "time", None)
    return (
        MonotonicClock()
        if time is asyncio.BaseEventLoop.time and "time" not in vars(loop)
        else LoopClock(loop)
    )
