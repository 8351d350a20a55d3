"""uvloop's event loop with its timers on the timing wheel. Needs uvloop."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextvars import Context
from operator import attrgetter
from typing import Any

import uvloop

from request_purgatory.aio.clock import LoopClock
from request_purgatory.aio.loop import Ts, WheelHandle
from request_purgatory.timer.handle_task import call_at
from request_purgatory.timer.task import MAX_DELAY_MS
from request_purgatory.timer.timer import SystemTimer

# Where uvloop and asyncio log.
logger = logging.getLogger("asyncio")


class UvTimingWheelEventLoop(uvloop.Loop):
    """uvloop's loop, but `call_later` and `call_at` on a timing wheel that one timer of uvloop's drives.

    uvloop's time stands still during a round of its loop and its timers have whole milliseconds; those of the wheel run in the
    order of their times, never early, and less than 2 ms late on an idle loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self._wheel = SystemTimer("event loop", clock=LoopClock(self))
        self._wheel_due: list[WheelHandle] = []
        self._alarm: Any = None
        self._alarm_at = math.inf

    def call_later(
        self, delay: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> WheelHandle:
        """As uvloop's."""
        if delay is None:
            raise TypeError("delay must not be None")
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> WheelHandle:
        """As uvloop's."""
        if when is None:
            raise TypeError("when cannot be None")
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        handle = WheelHandle(when, callback, args, self, context)
        if when == math.inf:  # Never: only its caller has it.
            return handle
        # Rounded up, so that nothing is early; and not before the next millisecond, so that nothing runs inside this call.
        when_ms = max(math.ceil(min(when * 1000, MAX_DELAY_MS)), int(self.time() * 1000) + 1)
        # In the middle of that millisecond, as a float may lie below what it stands for.
        handle._task = call_at(self._wheel, (when_ms + 0.5) / 1000, self._wheel_due, handle)
        if when_ms / 1000 < self._alarm_at:
            self._set_alarm(when_ms / 1000)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """What asyncio's handles call."""

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = when
        self._alarm = super().call_later(max(when - self.time(), 0.0), self._look)

    def _look(self) -> None:
        """Run what is due, in the order of the timers' times."""
        self._alarm = None
        self._alarm_at = math.inf
        if self.is_closed():
            return
        self._wheel.advance_clock(0)
        # What these callbacks set is not due before the next millisecond, so none of it is among them.
        due = sorted(self._wheel_due, key=attrgetter("_when"))
        self._wheel_due.clear()
        for handle in due:
            handle._task = None
            if not handle.cancelled():
                self._run(handle)
        next_ms = self._wheel.next_expiration_ms
        if next_ms is not None and next_ms / 1000 < self._alarm_at:
            self._set_alarm(next_ms / 1000)

    def _run(self, handle: WheelHandle) -> None:
        if not self.get_debug():
            handle._run()
            return
        began = time.monotonic()
        handle._run()
        took = time.monotonic() - began
        if took >= self.slow_callback_duration:
            logger.warning("Executing %r took %.3f seconds", handle, took)

    def close(self) -> None:
        """As uvloop's; timers that are pending are dropped."""
        super().close()
        self._wheel.shutdown()
        self._alarm = None
