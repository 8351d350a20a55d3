"""An event loop's timers, as tasks of a `SystemTimer`. Compiled."""

from __future__ import annotations

from typing import Any, cast

from request_purgatory._native import primitives
from request_purgatory.timer.task import TimerTask
from request_purgatory.timer.timer import SystemTimer


class HandleTask(TimerTask):
    """A task that appends an event loop's handle to a list when the handle is due.

    Unlike a `TimerHandle`, the cyclic collector tracks it, as handle and task refer to one another.

    Attributes:
        due: The list to append to; None once the task ran or was cancelled.
        handle: The handle; None once the task ran or was cancelled.
    """

    __slots__ = ("due", "handle")

    due: list[Any] | None
    handle: Any

    def run(self) -> None:
        """Append the handle to the list of due handles."""
        due = self.due
        handle = self.handle
        self.release()
        if due is not None:
            due.append(handle)

    def cancel(self) -> bool:
        """Remove the task from the timer, in O(1).

        Returns:
            True if the task was pending.
        """
        cancelled = self._remove_from_timer()
        self.release()
        return cancelled

    def release(self) -> None:
        """Drop the handle: handle and task refer to one another only while the task is pending."""
        self.due = None
        self.handle = None


def shutdown_and_release(timer: SystemTimer) -> None:
    """Shut down a timer that has only HandleTasks.

    This breaks the cycles of tasks and handles, so that the cyclic collector has nothing to find.
    """
    for task in timer.shutdown():
        handle_task = cast("HandleTask", task)
        handle_task.release()


def schedule_handle(timer: SystemTimer, when: float, due: list[Any], handle: Any) -> HandleTask:
    """Append `handle` to `due` in the millisecond of `when`, or at once if that has passed.

    Args:
        timer: The timer, on the event loop's clock.
        when: Seconds on that clock, less than 10,000 years.
        due: The list of due handles.
        handle: The event loop's handle.

    Returns:
        The task, for cancelling.

    Raises:
        TimerClosedError: The timer has been shut down.
    """
    # Compiled, this skips `__init__`, as all fields are set below.
    task = HandleTask.__new__(HandleTask) if primitives.COMPILED else HandleTask(0)
    task.timer_expiration_ms = -1
    task.due = due
    task.handle = handle
    now_ms = primitives.floor_ms(timer.clock.read_ns())
    task.timer_delay_ms = primitives.seconds_to_ms(when) - now_ms
    timer._add_from(task, now_ms)
    return task
