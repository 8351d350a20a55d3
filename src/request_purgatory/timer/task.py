"""A timer's task. It carries its own links, so putting it into a bucket or taking it out allocates nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from request_purgatory.errors import InvalidArgumentError, whole_number

if TYPE_CHECKING:
    from request_purgatory.timer.bucket import Bucket

#: The longest delay a timer takes: 10,000 years. Far beyond use, and every sum with it still fits 64 bits.
MAX_DELAY_MS = 10_000 * 31_557_600_000


def whole_ms(name: str, value: object) -> int:
    """`value` as whole milliseconds, or InvalidArgumentError that names it (floats and bools are refused)."""
    ms = value if type(value) is int else whole_number(name, value, "whole milliseconds (an int)")
    if ms > MAX_DELAY_MS:
        raise InvalidArgumentError(name, f"at most {MAX_DELAY_MS} (10,000 years)", value)
    return ms


class TimerTask:
    """Something to run once its delay has passed: subclass it and write `run`.

    A task is in at most one timer at a time. It may be added again once it ran or was cancelled, and adding it while it is
    pending moves it. Any thread may add or cancel it.

    Attributes:
        delay_ms: whole milliseconds from `SystemTimer.add` to `run`; 0 or less runs at once.
    """

    __slots__ = ("_bucket", "_expiration_ms", "_next", "_prev", "delay_ms")

    delay_ms: int

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = whole_ms("delay_ms", delay_ms)
        # The four below belong to the timer and change only under its lock.
        self._expiration_ms = 0
        self._bucket: Bucket | None = None
        self._prev: TimerTask | None = None
        self._next: TimerTask | None = None

    def run(self) -> None:
        """Called once by the timer, on the thread that advances its clock or on its executor. Yours to write."""
        raise NotImplementedError

    def cancel(self) -> bool:
        """Take the task out of its timer, in O(1). True if it was pending there, so that it will not run."""
        bucket = self._bucket
        while bucket is not None:
            pending = bucket.pending
            with pending.lock:
                if self._bucket is bucket:
                    bucket.remove(self)
                    pending.count -= 1
                    return True
            # The clock moved it to a bucket of a finer wheel, or another thread took it, before we had the lock.
            bucket = self._bucket
        return False


class TimerHandle(TimerTask):
    """What `SystemTimer.call_later` returns: one callback, and `cancel()` to call it off."""

    __slots__ = ("_args", "_callback")

    def __init__(self, delay_ms: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        super().__init__(delay_ms)
        self._callback: Callable[..., object] | None = callback
        self._args = args

    def run(self) -> None:
        callback = self._callback
        args = self._args
        self._forget()
        if callback is not None:
            callback(*args)

    def cancel(self) -> bool:
        # By its class's name, as DelayedOperation does too: `super()` in an overridden method does not survive compilation.
        cancelled = TimerTask.cancel(self)
        if cancelled:
            self._forget()
        return cancelled

    def _forget(self) -> None:
        # A handle is often kept long after it fired; what its callback refers to need not be.
        self._callback = None
        self._args = ()

    def __repr__(self) -> str:
        return f"<TimerHandle delay_ms={self.delay_ms} callback={self._callback!r}>"
