"""A timer of an event loop, in the wheel."""

from __future__ import annotations

from typing import Any, cast

from request_purgatory._native import primitives
from request_purgatory.timer.task import TimerTask
from request_purgatory.timer.timer import SystemTimer


class HandleTask(TimerTask):
    """The place in the wheel of something that is to be appended to a list when its time has come: a handle of an event loop.

    Unlike a `TimerHandle` it is tracked by the cyclic collector, as its handle refers to it.
    """

    __slots__ = ("due", "handle")

    due: list[Any] | None
    handle: Any

    def run(self) -> None:
        due = self.due
        handle = self.handle
        self._forget()
        if due is not None:
            due.append(handle)

    def cancel(self) -> bool:
        cancelled = self._unlink()
        self._forget()
        return cancelled

    def _forget(self) -> None:
        # Handle and task refer to one another only while the timer is pending.
        self.due = None
        self.handle = None


def drop_all(timer: SystemTimer) -> None:
    """Shut a timer down that has no other tasks than these.

    Nothing of theirs is left for the cyclic collector.
    """
    for task in timer.shutdown():
        handle_task = cast("HandleTask", task)
        handle_task._forget()


def call_at(timer: SystemTimer, when: float, due: list[Any], handle: Any) -> HandleTask:
    """Append `handle` to `due` in the millisecond in which the timer's clock says `when`; at once if that is not ahead.

    Args:
        when: seconds, less than 10,000 years.

    Raises:
        TimerClosedError: the timer was shut down.
    """
    task = HandleTask.__new__(HandleTask)
    if not primitives.COMPILED:
        task._begin(0)
    task.due = due
    task.handle = handle
    now_ms = primitives.floor_ms(timer.clock._read_ns())
    task._delay_ms = primitives.whole_ms(when) - now_ms
    timer._add(task, now_ms)
    return task
