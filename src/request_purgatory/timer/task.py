"""A timer's task.

It carries its own links, so putting it into a bucket or taking it out allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from request_purgatory._native import primitives
from request_purgatory.errors import (
    InvalidArgumentError,
    NotInitializedError,
    TaskInUseError,
    whole_number,
)

#: The longest delay a timer takes: 10,000 years.
MAX_DELAY_MS = primitives.MAX_DELAY_MS


def whole_ms(name: str, value: object) -> int:
    """`value` as whole milliseconds, or InvalidArgumentError that names it (floats and bools are refused).

    What is far below zero comes out as a number that is far below zero.
    """
    ms = primitives.clamp(
        value if type(value) is int else whole_number(name, value, "whole milliseconds (an int)")
    )
    if ms > primitives.MAX_DELAY_MS:
        raise InvalidArgumentError(name, f"at most {MAX_DELAY_MS} (10,000 years)", value)
    return ms


class PendingTasks:
    """What all buckets of one timer share: the lock that guards every link, and the number of tasks linked.

    One lock a timer, held for a few list operations and never while a task runs.
    """

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = primitives.CoreLock()
        self.count = 0


class TaskList:
    """A doubly linked list through the tasks themselves: what a task knows of the bucket it is in.

    Not safe by itself, but for `take_out`: callers hold `pending.lock`.

    Attributes:
        pending: shared by all lists of the timer.
        head, tail: the first and the last task.
    """

    __slots__ = ("head", "pending", "tail")

    def __init__(self, pending: PendingTasks) -> None:
        self.pending = pending
        self.head: TimerTask | None = None
        self.tail: TimerTask | None = None

    def _link(self, task: TimerTask) -> None:
        """Put a task that is in no list at the end."""
        tail = self.tail
        task._bucket = self
        task._prev = tail
        if tail is None:
            self.head = task
        else:
            tail._next = task
        self.tail = task

    def _unlink(self, task: TimerTask) -> None:
        """Take out a task that is in this list."""
        before = task._prev
        after = task._next
        if before is None:
            self.head = after
        else:
            before._next = after
            task._prev = None
        if after is None:
            self.tail = before
        else:
            after._prev = before
            task._next = None
        task._bucket = None

    def take_out(self, task: TimerTask) -> bool:
        """Take a task out of this list and its timer, under the timer's lock.

        False if it is not in this list (any more).
        """
        pending = self.pending
        pending.lock.acquire()
        found = task._bucket is self
        if found:
            self._unlink(task)
            pending.count -= 1
        pending.lock.release()
        return found


class TimerTask:
    """Something to run once its delay has passed: subclass it and write `run`.

    A task is in at most one timer at a time. It may be added again once it ran or was cancelled,
    and adding it while it is pending moves it. Any thread may add or cancel it.
    """

    __slots__ = ("_bucket", "_delay_ms", "_expiration_ms", "_next", "_prev")

    # In the compiled build tasks are not tracked by the cyclic collector: a million of them would
    # cost more in its passes than all the timer's work. A bucket shows the collector what its tasks
    # refer to (`collector.pyx`).

    def __init__(self, delay_ms: int) -> None:
        self._begin(delay_ms)

    def _begin(self, delay_ms: int) -> None:
        # Called by the subclasses' __init__ directly: `super().__init__` makes an object and looks
        # the method up.
        self._delay_ms = whole_ms("delay_ms", delay_ms)
        # These belong to the timer and change only under its lock. 0, as which it begins when
        # compiled, is no time of a task: it means that no `__init__` was called.
        self._expiration_ms = -1
        if not primitives.COMPILED:  # A constant: compiled, they begin as this.
            self._bucket: TaskList | None = None
            self._prev: TimerTask | None = None
            self._next: TimerTask | None = None

    @property
    def delay_ms(self) -> int:
        """Whole milliseconds from `SystemTimer.add` to `run`; 0 or less runs at once.

        May be set between two uses.

        Raises:
            InvalidArgumentError: set to what is not a whole number, or to more than 10,000 years.
            TaskInUseError: set on an operation that is or was in a purgatory, which would not look
                at it.
        """
        return self._delay_ms

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        if self._is_in_use():
            raise TaskInUseError(
                f"{self!r} is in use: its delay_ms can't be changed to {delay_ms!r} now"
            )
        self._delay_ms = whole_ms("delay_ms", delay_ms)

    def _is_in_use(self) -> bool:
        """Return True where a change of `delay_ms` would never be looked at.

        A task's own is read when it is added again.
        """
        return False

    def _require_init(self) -> None:
        """Raise NotInitializedError unless `TimerTask.__init__` was called."""
        if primitives.COMPILED:
            if self._expiration_ms == 0:
                raise NotInitializedError(type(self).__name__)
        elif not hasattr(self, "_expiration_ms"):
            raise NotInitializedError(type(self).__name__)

    def __copy__(self) -> NoReturn:
        """Refuse: a copy would share the original's place in the timer and in the watcher lists."""
        raise TypeError(f"{type(self).__name__} can't be copied: it may be pending")

    def __deepcopy__(self, memo: object) -> NoReturn:
        """Refuse, as `__copy__`."""
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled, for the same reason."""
        raise TypeError(f"{type(self).__name__} can't be pickled: it may be pending")

    def run(self) -> None:
        """Called once by the timer, on the thread that advances its clock or on its executor.

        Yours to write.
        """
        raise NotImplementedError

    def drop(self) -> None:
        """Called instead of `run` when the timer's executor was shut down with this task in its queue. Does nothing."""

    def _disown(self) -> None:
        """Called in a forked child instead of `run`: the parent runs it."""

    def cancel(self) -> bool:
        """Take the task out of its timer, in O(1).

        True if it was pending there, so that it will not run.
        """
        return self._unlink()

    def _unlink(self) -> bool:
        bucket = self._bucket
        while bucket is not None:
            if bucket.take_out(self):
                return True
            # The clock moved it to a bucket of a finer wheel, or another thread took it, before we
            # had the lock.
            bucket = self._bucket
        return False


class TimerHandle(TimerTask):
    """What `SystemTimer.call_later` returns: one callback, and `cancel()` to call it off."""

    __slots__ = ("_args", "_callback")

    def __init__(
        self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._begin(delay_ms)
        self._callback: Callable[..., object] | None = callback
        self._args: tuple[Any, ...] | None = args

    def run(self) -> None:
        self._fire()

    def _fire(self) -> None:
        callback = self._callback
        args = self._args
        self._forget()
        if callback is not None:
            if args:
                callback(*args)
            else:
                callback()

    def cancel(self) -> bool:
        if not self._unlink():
            return False
        self._forget()
        return True

    def _forget(self) -> None:
        # A handle is often kept long after it fired; what its callback refers to need not be.
        self._callback = None
        self._args = None

    def __repr__(self) -> str:
        if primitives.COMPILED and primitives.FORKS_HOLD_LOCKS:
            # On free threads another one may be about to free the callback.
            return f"<TimerHandle delay_ms={self.delay_ms}>"
        return f"<TimerHandle delay_ms={self.delay_ms} callback={self._callback!r}>"
