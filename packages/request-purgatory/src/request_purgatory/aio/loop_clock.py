"""A clock that reads an event loop's time. Compiled."""

from __future__ import annotations

import asyncio
import time
from asyncio import _get_running_loop as running_loop

from request_purgatory._native import loops, primitives
from request_purgatory._native.parker import Parker
from request_purgatory.clock import MAX_NOW_MS, Clock
from request_purgatory.errors import InvalidArgumentError

__all__ = ["LoopClock", "is_foreign_thread", "running_loop"]

_monotonic = time.monotonic
_time_module = vars(time)
_standard_time = asyncio.BaseEventLoop.time
_max_seconds = MAX_NOW_MS / 1000


class LoopClock(Clock):
    """`loop.time()`, to the microsecond.

    Where that is `time.monotonic()`, the compiled build reads the machine's clock in C. A test may
    replace either function at any time, as freezegun does, so each reading looks at both.
    """

    __slots__ = ("_loop",)

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    @property
    def now_ns(self) -> int:
        return round(self._loop.time() * 1e6) * 1000  # Compiled, no limit but the reader's.

    def read_ns(self) -> int:
        if (
            primitives.COMPILED
            and loops.has_method(self._loop, "time", _standard_time)
            and _time_module["monotonic"] is _monotonic
        ):
            return primitives.monotonic_ns()
        given = self._loop.time()
        seconds = given
        if not 0 <= seconds <= _max_seconds:
            raise InvalidArgumentError("loop.time()", "from 0 to 292 years", given)
        # Rounded: at 1.005 s the loop may return 1.00499999. In virtual time, which stands still,
        # it would never be 1,005 ms.
        return primitives.round_to_ns(seconds)

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:  # noqa: ARG002
        raise RuntimeError("a thread can't sleep on an event loop's clock: use the loop's timers")


def is_foreign_thread(loop: asyncio.AbstractEventLoop) -> bool:
    """Return True if the loop runs, and on another thread than this one."""
    return running_loop() is not loop and loop.is_running()
