"""A timer's task. It carries its own links, so putting it into a bucket or taking it out allocates nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from request_purgatory import native
from request_purgatory.errors import InvalidArgumentError, whole_number

#: The longest delay a timer takes: 10,000 years. Far beyond use, and every sum with it still fits 64 bits.
MAX_DELAY_MS = 10_000 * 31_557_600_000


def whole_ms(name: str, value: object) -> int:
    """`value` as whole milliseconds, or InvalidArgumentError that names it (floats and bools are refused).

    What is far below zero comes out as a number that is far below zero.
    """
    ms = native.clamp(value if type(value) is int else whole_number(name, value, "whole milliseconds (an int)"))
    if ms > 315_576_000_000_000:  # MAX_DELAY_MS: a constant for the compiler, too
        raise InvalidArgumentError(name, f"at most {MAX_DELAY_MS} (10,000 years)", value)
    return ms


class TaskList:
    """What a task knows of the bucket it is in."""

    __slots__ = ()

    def take_out(self, task: TimerTask) -> bool:
        """Take a task out of this list and its timer, under the timer's lock. False if it is not in this list (any more)."""
        raise NotImplementedError


class TimerTask:
    """Something to run once its delay has passed: subclass it and write `run`.

    A task is in at most one timer at a time. It may be added again once it ran or was cancelled, and adding it while it is
    pending moves it. Any thread may add or cancel it.
    """

    __slots__ = ("_bucket", "_delay_ms", "_expiration_ms", "_next", "_prev")

    # In the compiled build tasks are not tracked by the cyclic collector: a million of them would cost more in its passes than all
    # the timer's work. A bucket shows the collector what its tasks refer to (`collector.pyx`).

    def __init__(self, delay_ms: int) -> None:
        self._delay_ms = whole_ms("delay_ms", delay_ms)
        # The four below belong to the timer and change only under its lock.
        self._expiration_ms = 0
        self._bucket: TaskList | None = None
        self._prev: TimerTask | None = None
        self._next: TimerTask | None = None

    @property
    def delay_ms(self) -> int:
        """Whole milliseconds from `SystemTimer.add` to `run`; 0 or less runs at once. May be set between two uses.

        Raises:
            InvalidArgumentError: set to what is not a whole number, or to more than 10,000 years.
        """
        return self._delay_ms

    @delay_ms.setter
    def delay_ms(self, delay_ms: int) -> None:
        self._delay_ms = whole_ms("delay_ms", delay_ms)

    def run(self) -> None:
        """Called once by the timer, on the thread that advances its clock or on its executor. Yours to write."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Take the task out of its timer, in O(1). True if it was pending there, so that it will not run."""
        return self._unlink()

    def _unlink(self) -> bool:
        bucket = self._bucket
        while bucket is not None:
            if bucket.take_out(self):
                return True
            # The clock moved it to a bucket of a finer wheel, or another thread took it, before we had the lock.
            bucket = self._bucket
        return False


class TimerHandle(TimerTask):
    """What `SystemTimer.call_later` returns: one callback, and `cancel()` to call it off."""

    __slots__ = ("_args", "_callback")

    def __init__(self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._begin(delay_ms, callback, args)

    def _begin(self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """In place of __init__ where a call of the type would cost more than all the rest."""
        self._delay_ms = whole_ms("delay_ms", delay_ms)
        self._expiration_ms = 0
        self._bucket = None
        self._prev = None
        self._next = None
        self._callback: Callable[..., object] | None = callback
        self._args: tuple[Any, ...] | None = args

    def run(self) -> None:
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
        return f"<TimerHandle delay_ms={self.delay_ms} callback={self._callback!r}>"
