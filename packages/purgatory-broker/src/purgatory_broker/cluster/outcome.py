"""What a thread waits for, and signal handlers of the thread meanwhile."""

from __future__ import annotations

import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Outcome(Generic[T]):
    """A result or an exception that one thread sets and others wait for.

    A `concurrent.futures.Future` has a lock for both: a signal handler that interrupts its waiter
    would hold up the thread that sets it. Here `set` and `fail` never wait.
    """

    def __init__(self) -> None:
        self._pending = threading.Lock()
        self._pending.acquire()
        self._is_set = False
        self._result: T | None = None
        self._error: BaseException | None = None

    @property
    def is_set(self) -> bool:
        return self._is_set

    def set(self, result: T) -> None:
        """Set the result; no-op if there is an outcome."""
        if not self._is_set:
            self._result = result
            self._end()

    def fail(self, error: BaseException) -> None:
        """Set the exception; no-op if there is an outcome."""
        if not self._is_set:
            self._error = error
            self._end()

    def _end(self) -> None:
        self._is_set = True
        self._pending.release()

    def wait(self, timeout: float) -> bool:
        """Wait for some seconds; return whether there is an outcome."""
        if not self._is_set and self._pending.acquire(timeout=timeout):
            self._pending.release()  # For others that wait.
        return self._is_set

    def take(self) -> T:
        """Return the result, or raise the exception, which is forgotten."""
        error, self._error = self._error, None
        if error is not None:
            try:
                raise error
            finally:
                del error  # Whose traceback has this frame.
        return self._result  # type: ignore[return-value]
