"""A clock that reads an event loop's time. Compiled."""

from __future__ import annotations

import asyncio
from asyncio import _get_running_loop as running_loop
from typing import Any

from request_purgatory._native.parker import Parker
from request_purgatory.clock import Clock, MonotonicClock


class LoopClock(Clock):
    """`loop.time()` to the microsecond, for loops with their own time, such as uvloop."""

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def now_ns(self) -> int:
        return round(self._loop.time() * 1e6) * 1000  # Compiled, no limit but the reader's.

    def read_ns(self) -> int:
        # Rounded: at 1.005 s the loop may return 1.00499999. In virtual time, which stands still,
        # it would never be 1,005 ms.
        return round(self._loop.time() * 1e6) * 1000

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:  # noqa: ARG002
        raise RuntimeError("a thread can't sleep on an event loop's clock: use the loop's timers")


__all__ = ["LoopClock", "clock_of", "is_foreign_thread", "running_loop"]


def clock_of(loop: asyncio.AbstractEventLoop) -> Clock:
    """Return a clock that agrees with `loop.time()`, one that is read in C where it can be."""
    time: Any = getattr(type(loop), "time", None)
    if time is asyncio.BaseEventLoop.time and "time" not in vars(loop):
        return MonotonicClock()
    return LoopClock(loop)


def is_foreign_thread(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if the loop runs, and on another thread than this one."""
    return running_loop() is not loop and loop.is_running()
