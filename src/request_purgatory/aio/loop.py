"""Event loops whose timers are on the timing wheel: O(1) to set, gone when they are cancelled."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVarTuple

from request_purgatory.aio.loop_clock import clock_of
from request_purgatory.aio.loop_handle import HandleTask, call_at, drop_all
from request_purgatory.timer.task import MAX_DELAY_MS
from request_purgatory.timer.timer import SystemTimer

Ts = TypeVarTuple("Ts")

#: 10,000 years in seconds: what is further ahead than a timer can count, infinity above all, is
#: left to the loop's own heap.
_HORIZON = MAX_DELAY_MS / 1000
_LONG_AGO = -_HORIZON

# Looked up once: they are called for every timer.
_cancel_handle = asyncio.Handle.cancel
_new_handle: Callable[[type[WheelHandle]], WheelHandle] = object.__new__

# Whether asyncio's handles consist of what they have consisted of since Python 3.7. If a new
# version adds to that, its own `__init__` makes them.
_SLOTS_KNOWN = {*asyncio.Handle.__slots__, *asyncio.TimerHandle.__slots__} == {
    *(
        "_callback",
        "_args",
        "_context",
        "_loop",
        "_when",
        "_cancelled",
        "_scheduled",
        "_repr",
        "_source_traceback",
    ),
    "__weakref__",
}


class WheelHandle(asyncio.TimerHandle):
    """What `call_later` and `call_at` return.

    As the standard loop's, and cancelling it leaves nothing behind in the wheel.
    """

    __slots__ = ("_task",)

    _task: HandleTask | None
    # asyncio's own, not documented: when it is due, whether it is in the loop's heap, and where it
    # was made, in debug mode.
    _when: float
    _scheduled: bool
    _source_traceback: list[Any] | None
    _loop: Any
    _callback: Callable[..., object] | None
    _context: Context
    _repr: str | None

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: Any,
        context: Context | None = None,
    ) -> None:
        super().__init__(when, callback, args, loop, context)
        if self._source_traceback:
            del self._source_traceback[-1]
        self._task = None

    def cancel(self) -> None:
        """Call it off. O(1)."""
        task = self._task
        if task is not None:
            self._task = None
            task.cancel()
        elif not self._cancelled:
            self._loop._timer_handle_cancelled(self)
        _cancel_handle(self)


if TYPE_CHECKING:

    class _Loop(asyncio.SelectorEventLoop):
        """What the mix-in uses of a loop in the standard library, beyond the documented."""

        _scheduled: list[asyncio.TimerHandle]
        _debug: bool
        _closed: bool
        _clock_resolution: float

        def _check_closed(self) -> None: ...
        def _check_thread(self) -> None: ...
        def _check_callback(self, callback: object, method: str) -> None: ...
        def _process_events(self, event_list: Any) -> None: ...
else:
    _Loop = object


class TimingWheelTimers(_Loop):
    """Puts the timers of an asyncio event loop on a timing wheel: mix it in before a loop class of the standard library.

    The wheel keeps what is not due. What is due at a loop's round goes to the loop's own heap,
    which is empty otherwise, and the loop takes it from there: so timers run in the same order and
    at the same instants as they would without the wheel, to the standard loop's resolution.
    Cancelled timers do not wait in a heap for their time.

    It rests on three things that `asyncio.BaseEventLoop` has had since 3.4, though they are not
    documented: `_scheduled`, the heap; `_process_events`, which a round calls between waiting and
    looking at the heap; and `TimerHandle._scheduled`, true while in it.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        # Made for the first timer, as it reads the time: a subclass may set what its `time` needs
        # after its own construction.
        self._wheel: SystemTimer | None = None
        self._wheel_due: list[WheelHandle] = []
        # The one entry of ours in the loop's heap, for the next bucket that is not empty, so that
        # the loop wakes for it.
        self._alarm: WheelHandle | None = None
        self._alarm_at = math.inf
        # Last: a class of the loop's may set timers while it is made.
        super().__init__(*args, **options)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> WheelHandle:
        """As the standard loop's."""
        if delay is None:
            raise TypeError("delay must not be None")
        handle = self.call_at(self.time() + delay, callback, *args, context=context)
        if handle._source_traceback:
            del handle._source_traceback[-1]
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> WheelHandle:
        """As the standard loop's.

        Raises:
            InvalidArgumentError: at the first timer, if the loop's time is negative or beyond 292
                years.
        """
        if when is None:
            raise TypeError("when cannot be None")
        if self._closed:
            self._check_closed()  # Raises the loop's own error.
        if self._debug or not _SLOTS_KNOWN:
            if self._debug:
                self._check_thread()
                self._check_callback(callback, "call_at")
            handle = WheelHandle(when, callback, args, self, context)
            if handle._source_traceback:
                del handle._source_traceback[-1]
        else:
            # What WheelHandle(...) makes, without its two calls: a fifth of a timer's cost.
            handle = _new_handle(WheelHandle)
            handle._callback = callback
            handle._args = args
            handle._context = copy_context() if context is None else context
            handle._loop = self
            handle._when = when
            handle._cancelled = False
            handle._scheduled = False
            handle._repr = None
            handle._source_traceback = None
        if not _LONG_AGO < when < _HORIZON:  # NaN is not either.
            self._to_heap(handle)
            return handle
        wheel = self._wheel
        if wheel is None:
            wheel = self._make_wheel()
        due = self._wheel_due
        handle._task = call_at(wheel, when, due, handle)
        if due and due[-1] is handle:
            # Due in this millisecond: it was appended at once. (What else may be there is for
            # `_look`, inside of which this may be called, by a finalizer.)
            del due[-1]
            self._to_heap(handle)
        elif when < self._alarm_at:
            self._set_alarm(when)
        return handle

    def _make_wheel(self) -> SystemTimer:
        """Return the wheel, which was not there a moment ago."""
        wheel = SystemTimer("event loop", clock=clock_of(self))
        if self._wheel is None:  # A finalizer may have set a timer meanwhile, and have made it.
            self._wheel = wheel
        return self._wheel

    def _to_heap(self, handle: WheelHandle) -> None:
        handle._task = None
        heapq.heappush(self._scheduled, handle)
        handle._scheduled = True

    def _set_alarm(self, when: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = alarm = WheelHandle(when, self._look, (), self)
        self._alarm_at = when
        self._to_heap(alarm)

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)
        # A wake-up for something else costs no look at the clock while nothing is in the wheel.
        if self._alarm is not None and self.time() + self._clock_resolution >= self._alarm_at:
            self._look()

    def _look(self) -> None:
        """Move what is due from the wheel to the loop's heap, and see to the next alarm.

        An alarm's own callback, too: should it come due between a round's two looks at the clock,
        nothing has been moved in that round, and it is now.
        """
        wheel = self._wheel
        if wheel is None or self.is_closed():
            return
        wheel.advance_clock(0)
        due = self._wheel_due
        handles = due[:]
        del due[: len(handles)]  # A finalizer may have come between, and left it as it was.
        for handle in handles:
            self._to_heap(handle)
        next_ms = wheel.next_expiration_ms
        if next_ms is None:
            self._alarm_at = math.inf
            alarm, self._alarm = self._alarm, None
            if alarm is not None:
                alarm.cancel()
        elif self._alarm is None or not self._alarm._scheduled or next_ms / 1000 != self._alarm_at:
            self._set_alarm(next_ms / 1000)

    def close(self) -> None:
        """As the standard loop's; timers that are pending are dropped."""
        super().close()
        if self._wheel is not None:
            drop_all(self._wheel)
            self._alarm = None


class TimingWheelEventLoop(TimingWheelTimers, asyncio.SelectorEventLoop):
    """The standard loop with its timers on a timing wheel: `asyncio.timeout`, `wait_for`, `sleep` and all that is built on them.

    `asyncio.Runner(loop_factory=TimingWheelEventLoop)`, and from Python 3.12 on
    `asyncio.run(main(), loop_factory=TimingWheelEventLoop)`.

    >>> with asyncio.Runner(loop_factory=TimingWheelEventLoop) as runner:
    ...     runner.run(asyncio.sleep(0.001, "woken by the wheel"))
    'woken by the wheel'
    """
