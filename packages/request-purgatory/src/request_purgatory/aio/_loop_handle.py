"""An event loop's timers, as tasks of a `SystemTimer`. Compiled."""

from __future__ import annotations

from typing import Any, cast

from request_purgatory._native import primitives
from request_purgatory.timer.task import TimerTask
from request_purgatory.timer.timer import SystemTimer


class HandleTask(TimerTask):
    """A task that appends an event loop's handle to a list when the handle is due.

    Unlike a `TimerHandle`, the cyclic collector tracks it, as handle and task refer to one another
    until the task has run or was cancelled.
    """

    __slots__ = ("due", "handle")

    due: list[Any] | None
    handle: Any

    def run(self) -> None:
        due = self.due
        handle = self.handle
        self.release()
        if due is not None:
            due.append(handle)

    def cancel(self) -> bool:
        cancelled = self._remove_from_timer()
        self.release()
        return cancelled

    def release(self) -> None:
        self.due = None
        self.handle = None


def shutdown_and_release(timer: SystemTimer) -> None:
    """Shut down a timer that has only HandleTasks; the collector finds no cycle of it."""
    for task in timer.shutdown():
        handle_task = cast("HandleTask", task)
        handle_task.release()


def schedule_handle(timer: SystemTimer, when: float, due: list[Any], handle: Any) -> HandleTask:
    """Append `handle` to `due` at `when`, seconds on the loop's clock; at once if it is past."""
    # Compiled, this skips `__init__`, as all fields are set below.
    task = HandleTask.__new__(HandleTask) if primitives.COMPILED else HandleTask(0)
    task._timer_expiration_ms = -1
    task.due = due
    task.handle = handle
    now_ms = primitives.floor_ms(timer.clock.read_ns())
    task._timer_delay_ms = primitives.seconds_to_ms(when) - now_ms
    timer._add_from(task, now_ms)
    return task
