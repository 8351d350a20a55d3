"""Event loops with their timers on a timing wheel: setting and cancelling a timer is O(1)."""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, TypeVarTuple

from request_purgatory.aio._loop_handle import HandleTask, schedule_handle, shutdown_and_release
from request_purgatory.aio.loop_clock import LoopClock
from request_purgatory.timer.task import MAX_DELAY_MS
from request_purgatory.timer.timer import SystemTimer

Ts = TypeVarTuple("Ts")

#: 10,000 years in seconds. Later times, such as infinity, are beyond a timer's range and stay in
#: the loop's own heap.
_HORIZON = MAX_DELAY_MS / 1000
_EARLIEST = -_HORIZON

# Looked up once, as they are called for every timer.
_cancel_handle = asyncio.Handle.cancel
_new_handle: Callable[[type[WheelHandle]], WheelHandle] = object.__new__

# True if asyncio's handles have the fields that they have had since Python 3.7. If a new version
# adds fields, handles are made by its own `__init__`.
_SLOTS_KNOWN = {*asyncio.Handle.__slots__, *asyncio.TimerHandle.__slots__} == {
    "_callback",
    "_args",
    "_context",
    "_loop",
    "_when",
    "_cancelled",
    "_scheduled",
    "_repr",
    "_source_traceback",
    "__weakref__",
}


class WheelHandle(asyncio.TimerHandle):
    """The handle that `call_later` and `call_at` return.

    It behaves as the standard loop's handle. Cancelling it also removes it from the wheel.

    Attributes:
        wheel_task: The handle's task in the wheel; None if the handle is not in the wheel.
    """

    __slots__ = ("wheel_task",)

    wheel_task: HandleTask | None
    # asyncio's undocumented fields: among them when the handle is due, whether it is in the loop's
    # heap, and, in debug mode, where it was created.
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
        self.drop_last_frame()
        self.wheel_task = None

    def cancel(self) -> None:
        task = self.wheel_task
        if task is None:
            super().cancel()
            return
        self.wheel_task = None
        task.cancel()
        _cancel_handle(self)

    def drop_last_frame(self) -> None:
        """Remove the last frame of the traceback to where the handle was created, if it has one.

        In debug mode, each function between the program and the handle removes its own frame.
        """
        if self._source_traceback:
            del self._source_traceback[-1]


if TYPE_CHECKING:

    class _Loop(asyncio.SelectorEventLoop):
        """The undocumented members of the standard library's loops that the mix-in uses."""

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
    """A mix-in that puts an asyncio event loop's timers on a timing wheel.

    List it before a loop class of the standard library. The wheel holds the timers that are not
    due. Each iteration of the loop moves due timers to the loop's own heap, which is otherwise
    empty, and the loop runs them from there. So timers run in the same order and at the same times
    as without the wheel, to the standard loop's resolution. Cancelled timers do not stay in a heap.

    The mix-in relies on three undocumented members that asyncio has had since Python 3.4:
    `BaseEventLoop._scheduled`, the heap; `BaseEventLoop._process_events`, which an iteration calls
    after waiting and before it reads the heap; and `TimerHandle._scheduled`, true while a handle is
    in the heap.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        # Created for the first timer, because it reads the loop's time: a subclass may set the
        # fields that its `time` needs after its own construction.
        self._wheel: SystemTimer | None = None
        self._due_handles: list[WheelHandle] = []
        # The mix-in's only entry in the loop's heap: wakes the loop for the next bucket that is not
        # empty.
        self._wakeup: WheelHandle | None = None
        self._wakeup_at = math.inf
        # Last, because the loop's own `__init__` may set timers.
        super().__init__(*args, **options)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> WheelHandle:
        """Call `callback(*args)` after `delay` seconds, as the standard loop's `call_later`.

        Returns:
            A handle whose `cancel()` cancels the call.

        Raises:
            TypeError: `delay` is None.
        """
        if delay is None:
            raise TypeError("delay must not be None")
        handle = self.call_at(self.time() + delay, callback, *args, context=context)
        if self._debug:
            handle.drop_last_frame()
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> WheelHandle:
        """Call `callback(*args)` at `when`, by `loop.time()`, as the standard loop's `call_at`.

        Returns:
            A handle whose `cancel()` cancels the call.

        Raises:
            TypeError: `when` is None.
            InvalidArgumentError: At the first timer, if the loop's time is negative or beyond 292
                years.
            MemoryError: The call will not happen.
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
            handle.drop_last_frame()
        else:
            # As WheelHandle(...), without its calls of `__init__`: a fifth of a timer's cost.
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
        if not _EARLIEST < when < _HORIZON:  # False for NaN, too.
            self._push_to_loop_heap(handle)
            return handle
        wheel = self._wheel
        if wheel is None:
            wheel = self._make_wheel()
        due = self._due_handles
        handle.wheel_task = schedule_handle(wheel, when, due, handle)
        try:
            if due and due[-1] is handle:
                # Due in this millisecond, and appended at once. (Other handles in the list are for
                # `_collect_due`: a finalizer may call this method inside of that one.)
                del due[-1]
                self._push_to_loop_heap(handle)
            elif when < self._wakeup_at:
                self._schedule_wakeup(when)
        except MemoryError:
            handle.cancel()  # The caller has no handle to cancel.
            raise
        return handle

    def _make_wheel(self) -> SystemTimer:
        wheel = SystemTimer("event loop", clock=LoopClock(self))
        if self._wheel is None:  # A finalizer may have set a timer, and created it, meanwhile.
            self._wheel = wheel
        return self._wheel

    def _push_to_loop_heap(self, handle: WheelHandle) -> None:
        handle.wheel_task = None
        heapq.heappush(self._scheduled, handle)
        handle._scheduled = True

    def _schedule_wakeup(self, when: float) -> None:
        # The new one first: where there is no memory for it, the old one stays.
        wakeup = WheelHandle(when, self._collect_due, (), self)
        self._push_to_loop_heap(wakeup)
        before, self._wakeup = self._wakeup, wakeup
        self._wakeup_at = when
        if before is not None:
            before.cancel()

    def _process_events(self, event_list: Any) -> None:
        super()._process_events(event_list)
        # Without timers in the wheel an iteration does not read the clock.
        if self._wakeup is not None and self.time() + self._clock_resolution >= self._wakeup_at:
            self._collect_due()

    def _collect_due(self) -> None:
        """Move due handles from the wheel to the loop's heap, and schedule the next wake-up.

        It is also the wake-up's own callback. The loop reads the clock twice in an iteration. If
        the wake-up is due at the second reading only, that iteration has moved no handles yet, and
        this call does.
        """
        wheel = self._wheel
        if wheel is None or self.is_closed():
            return
        wheel.advance_clock(0)
        due = self._due_handles
        handles = due[:]
        del due[: len(handles)]  # Only those: a finalizer may have appended a handle since.
        for handle in handles:
            self._push_to_loop_heap(handle)
        next_ms = wheel.next_expiration_ms
        if next_ms is None:
            self._wakeup_at = math.inf
            wakeup, self._wakeup = self._wakeup, None
            if wakeup is not None:
                wakeup.cancel()
        elif (
            self._wakeup is None or not self._wakeup._scheduled or next_ms / 1000 != self._wakeup_at
        ):
            self._schedule_wakeup(next_ms / 1000)

    def close(self) -> None:
        """Close the loop, as the standard loop's `close`, and drop pending timers."""
        super().close()
        if self._wheel is not None:
            shutdown_and_release(self._wheel)
            self._wakeup = None


class TimingWheelEventLoop(TimingWheelTimers, asyncio.SelectorEventLoop):
    """The standard selector event loop with its timers on a timing wheel.

    `asyncio.timeout`, `wait_for`, `sleep` and all code that uses them then use the wheel. Run it
    with `asyncio.Runner(loop_factory=TimingWheelEventLoop)`, or, from Python 3.12 on, with
    `asyncio.run(main(), loop_factory=TimingWheelEventLoop)`.

    >>> with asyncio.Runner(loop_factory=TimingWheelEventLoop) as runner:
    ...     runner.run(asyncio.sleep(0.001, "woken by the wheel"))
    'woken by the wheel'
    """
