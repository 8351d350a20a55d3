"""Races without a second thread: the test does what that one might do at the worst moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import request_purgatory
from request_purgatory import ManualClock, SystemTimer
from request_purgatory.purgatory.watch_table import WatcherLists

#: For tests that put a lock of their own into the core.
interpreted_only = pytest.mark.skipif(
    request_purgatory.__compiled__,
    reason="the compiled core's locks are C, and nothing can come in between",
)


class InterleavedClock(ManualClock):
    """A manual clock that can call a function just after it was read, before the reader goes on.

    Attributes:
        interrupt: the function; it is called once.
    """

    interrupt: Callable[[], object] | None = None

    def _read_ns(self) -> int:
        now_ns = super()._read_ns()
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return now_ns


class InterleavedLock:
    """A lock that can call a function just before it is taken: another thread had it until then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._action: Callable[[], object] | None = None
        self._countdown = 0

    def before(self, number: int, action: Callable[[], object]) -> None:
        """Call `action` once, before the lock is taken the `number`-th time from now.

        Args:
            number: 1 is the next time.
            action: what the other thread does; it may take and release the lock.
        """
        self._countdown = number
        self._action = action

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock, as `threading.Lock.acquire`."""
        if self._action is not None:
            self._countdown -= 1
            if self._countdown == 0:
                action, self._action = self._action, None
                action()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def interleave_lists(lists: WatcherLists) -> InterleavedLock:
    """Give a shard's watcher lists a lock that the test can come before, and return it."""
    lock = InterleavedLock()
    lists._lock = lock  # type: ignore[assignment]
    return lock


def interleave_tasks(timer: SystemTimer) -> InterleavedLock:
    """Give a timer a lock for its tasks that the test can come before, and return it."""
    lock = InterleavedLock()
    timer._lock = timer._pending.lock = lock  # type: ignore[assignment]
    return lock
