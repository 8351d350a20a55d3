"""Timer tasks.

A task carries its own links: putting it into a bucket or taking it out allocates no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from request_purgatory._native import linked_list, primitives
from request_purgatory.errors import (
    InvalidArgumentError,
    TaskInUseError,
    refuse_copy,
    refuse_pickling,
    shown,
    whole_number,
)
from request_purgatory.timer._bucket import Bucket

#: The longest delay a timer takes: 10,000 years.
MAX_DELAY_MS = primitives.MAX_DELAY_MS


def whole_ms(name: str, value: object) -> int:
    """Return whole milliseconds from -2**62 + 1 to 10,000 years; InvalidArgumentError."""
    ms = primitives.clamp(
        value if type(value) is int else whole_number(name, value, "whole milliseconds (an int)")
    )
    if ms > primitives.MAX_DELAY_MS:
        raise InvalidArgumentError(name, f"at most {MAX_DELAY_MS} (10,000 years)", value)
    return ms


class TimerTask:
    """A task that a timer runs after a delay: subclass it and override `run`.

    A task is in at most one timer at a time. It may be added again after it ran or was cancelled.
    Adding a pending task moves it. Any thread may add or cancel a task.
    """

    # `_timer_expiration_ms` is when the task is due, on the timer's clock, rounded up to a tick;
    # `_timer_delay_ms` is the delay that the timer reads. Both change under the timer's lock.
    __slots__ = ("_timer_delay_ms", "_timer_expiration_ms", "node_list", "node_next", "node_prev")

    # In the compiled build the cyclic collector does not track tasks: its passes over a million of
    # them would cost more than all of the timer's work. A bucket reports to the collector what its
    # tasks refer to (`_native/collector_hooks.pyx`).

    def __init__(self, delay_ms: int) -> None:
        """Create a task that is in no timer.

        Args:
            delay_ms: Whole milliseconds from `SystemTimer.add` to `run`.

        Raises:
            InvalidArgumentError: `delay_ms` is not a whole number, or is more than 10,000 years.
            TaskInUseError: Called again while the task is pending.
        """
        self._init_task("delay_ms", delay_ms)

    def _init_task(self, name: str, delay_ms: int) -> None:
        # Subclasses call this instead of `super().__init__`, which would create a `super` object
        # and look the method up.
        if primitives.COMPILED:  # A constant. Interpreted, there are no links before.
            pending = linked_list.is_linked(self)
        else:
            pending = getattr(self, "node_list", None) is not None
        if pending:
            self._refuse_init()
        self._timer_delay_ms = whole_ms(name, delay_ms)
        # 0, the value of the field before any `__init__` ran, is never the expiration of a task:
        # a missing `__init__` is recognized by that.
        self._timer_expiration_ms = -1
        if not primitives.COMPILED:  # A constant. Compiled links start as none by themselves.
            self.node_list: Bucket | None = None
            self.node_prev: TimerTask | None = None
            self.node_next: TimerTask | None = None

    def _refuse_init(self) -> NoReturn:
        raise TaskInUseError(f"{self!r} is in use: its __init__ can't be called now")

    @property
    def _timer_list(self) -> Bucket | None:
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return linked_list.list_of(self)  # type: ignore[no-any-return]

    @property
    def delay_ms(self) -> int:
        """Whole milliseconds from `SystemTimer.add` to `run`; 0 or less runs at once.

        It may be set between two uses.

        Raises:
            InvalidArgumentError: Set to a value that is not a whole number, or to more than 10,000
                years.
            TaskInUseError: Set on an operation that is or was in a purgatory, which would ignore
                the change.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return self._timer_delay_ms

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        primitives.require_init(self._timer_expiration_ms != 0, self)
        if self._is_in_use():
            raise TaskInUseError(
                f"{shown(self)} is in use: its delay_ms can't be changed to {shown(delay_ms)} now"
            )
        self._timer_delay_ms = whole_ms("delay_ms", delay_ms)

    def _is_in_use(self) -> bool:
        """Return True if a change of `delay_ms` has no effect; a task reads it at each adding."""
        return False

    # A copy would share the original's links in timer and purgatory.
    __copy__ = __deepcopy__ = refuse_copy
    __reduce__ = refuse_pickling

    def run(self) -> None:
        """Do the task's work. Override this.

        The timer calls it once, on the thread that advances the clock or on the timer's executor.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError

    def _run_from_timer(self, now_ms: int) -> int:  # noqa: ARG002 - for operations
        """Run, and return when that ended, on the timer's clock.

        `now_ms` is the time: the timer runs many tasks in a row, and need not look again. Both are
        `primitives.LIMIT` where nobody has looked.
        """
        primitives.call_run(self)
        return primitives.LIMIT

    def drop(self) -> None:
        """Handle the loss of the task by its executor; the default does nothing.

        Called instead of `run` if the timer's executor was shut down with this task in its queue.
        """

    def _abandon_in_child(self) -> None:
        """Forget the timer in a forked child, in place of `run`: the parent runs the task."""

    def cancel(self) -> bool:
        """Remove the task from its timer, in O(1).

        Returns:
            True if the task was pending and will not run; False otherwise.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        return self._remove_from_timer()

    def _remove_from_timer(self) -> bool:
        """Remove the task from its timer; True if it was pending. Compiled, in C only."""
        bucket: Bucket | None = linked_list.list_of(self)
        while bucket is not None:
            if bucket.remove_if_linked(self):
                return True
            # Before this thread had the lock, the clock moved the task to a bucket of a finer
            # wheel, or another thread removed it.
            bucket = linked_list.list_of(self)
        return False

    def __repr__(self) -> str:
        kind = type(self).__name__
        if self._timer_expiration_ms == 0:
            return f"<{kind} not initialized>"
        state = "pending" if linked_list.is_linked(self) else "not pending"
        return f"<{kind} delay_ms={self._timer_delay_ms} {state}>"


def _unset(self: TimerTask, name: str) -> Any:
    if name == "_timer_expiration_ms":
        return 0
    raise AttributeError(
        f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
    )


if not primitives.COMPILED:  # Compiled, the field begins so by itself.
    TimerTask.__getattr__ = _unset  # type: ignore[attr-defined]


class TimerHandle(TimerTask):
    """The handle of one callback, as `SystemTimer.call_later_ms` returns it; it is used once.

    Attributes:
        callback: What to call; None after the call, `cancel()` or the timer's end.
        args: The callback's positional arguments; None then, too.
    """

    __slots__ = ("args", "callback")

    def __init__(
        self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        """Create a handle that is in no timer.

        Args:
            delay_ms: Whole milliseconds from `SystemTimer.add` to the call.
            callback: What to call.
            args: The callback's positional arguments.

        Raises:
            InvalidArgumentError: `delay_ms` is not a whole number, or is more than 10,000 years, or
                `args` is no tuple.
            TaskInUseError: Called again while the handle is pending.
        """
        if not isinstance(args, tuple):
            raise InvalidArgumentError("args", "a tuple", args)
        self._init_task("delay_ms", delay_ms)
        self.callback: Callable[..., object] | None = callback
        self.args: tuple[Any, ...] | None = tuple(args)

    def run(self) -> None:
        """Call the callback, once."""
        primitives.require_init(self._timer_expiration_ms != 0, self)
        callback = self.callback
        args = self.args
        self._drop_references()
        if callback is not None:
            if args:
                callback(*args)
            else:
                callback()

    def cancel(self) -> bool:
        """Cancel the call, in O(1).

        Returns:
            True if the call was pending and will not happen; False otherwise.
        """
        primitives.require_init(self._timer_expiration_ms != 0, self)
        if not self._remove_from_timer():
            return False
        self._drop_references()
        return True

    def _drop_references(self) -> None:
        # A program often keeps a handle long after the call; the callback and its arguments can be
        # freed now.
        self.callback = None
        self.args = None

    def __repr__(self) -> str:
        if self._timer_expiration_ms == 0:
            return f"<{type(self).__name__} not initialized>"
        state = "pending" if linked_list.is_linked(self) else "not pending"
        if primitives.COMPILED and primitives.FORKS_HOLD_LOCKS:
            # On free threads another thread may free the callback at this moment.
            return f"<TimerHandle delay_ms={self._timer_delay_ms} {state}>"
        return f"<TimerHandle delay_ms={self._timer_delay_ms} callback={self.callback!r} {state}>"


def append_to(bucket: Bucket, task: TimerTask) -> None:
    """Append a task to a bucket, for examples and tests; a timer does so under its lock."""
    if linked_list.is_linked(task):
        raise TaskInUseError(f"{task!r} is in a bucket")
    linked_list.append(bucket, task)


def remove_from(bucket: Bucket, task: TimerTask) -> None:
    """Remove a task from a bucket, for examples and tests; a timer does so under its lock."""
    if not linked_list.is_in(bucket, task):
        raise InvalidArgumentError("task", f"in {bucket!r}", task)
    linked_list.remove(bucket, task)
