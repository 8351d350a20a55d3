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

from request_purgatory.aio.clock import LoopClock, running_loop
from request_purgatory.aio.loop import Ts, WheelHandle
from request_purgatory.timer.handle_task import call_at, drop_all
from request_purgatory.timer.task import MAX_DELAY_MS
from request_purgatory.timer.timer import SystemTimer

# Where uvloop and asyncio log.
logger = logging.getLogger("asyncio")


class UvTimingWheelEventLoop(uvloop.Loop):
    """uvloop's loop, but `call_later` and `call_at` on a timing wheel that one timer of uvloop's drives.

    Timers of uvloop have whole milliseconds, by a time that the loop reads once a round; those of the wheel run in the order of
    their times, never before `loop.time()` says so, and less than 2 ms late on an idle loop.
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
        handle = self.call_at(self.time() + float(delay), callback, *args, context=context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        return handle

    def call_at(self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None) -> WheelHandle:
        """As uvloop's."""
        if when is None:
            raise TypeError("when cannot be None")
        if self.is_closed():
            raise RuntimeError("Event loop is closed")
        if self.get_debug() and self.is_running() and running_loop() is not self:
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than the current one")
        handle = WheelHandle(when, callback, args, self, context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        if when == math.inf:  # Never: only its caller has it.
            return handle
        now = self.time()
        if not when > now:  # NaN is not, either.
            self._wheel_due.append(handle)
            self._set_alarm(now)
            return handle
        # Rounded up, so that nothing is early; and not before the next millisecond, so that nothing runs inside this call.
        when_ms = max(math.ceil(min(when * 1000, MAX_DELAY_MS)), int(now * 1000) + 1)
        # In the middle of that millisecond, as a float may lie below what it stands for.
        handle._task = call_at(self._wheel, (when_ms + 0.5) / 1000, self._wheel_due, handle)
        if when_ms / 1000 < self._alarm_at:
            self._set_alarm(when_ms / 1000)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """What asyncio's handles call."""

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            if when == self._alarm_at:
                return
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
        due = self._wheel_due
        # What these callbacks set is not among them: it is run in another round.
        handles = due[:]
        del due[: len(handles)]
        handles.sort(key=attrgetter("_when"), reverse=True)
        try:
            while handles:
                handle = handles.pop()
                handle._task = None
                if not handle.cancelled():
                    self._run(handle)
        finally:
            # A callback that ends the loop, by SystemExit say, has left some.
            due.extend(handles)
            next_ms = None if self.is_closed() else self._wheel.next_expiration_ms
            if due and not self.is_closed():
                self._set_alarm(self.time())
            elif next_ms is not None and next_ms / 1000 < self._alarm_at:
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
        drop_all(self._wheel)
        self._wheel_due.clear()
        self._alarm = None
