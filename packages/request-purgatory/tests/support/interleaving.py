"""Deterministic races: the test calls a second thread's action at a chosen moment."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import request_purgatory
from request_purgatory import ManualClock, SystemTimer
from request_purgatory.purgatory.watch_table import WatchShard

#: Marks tests that replace a lock of the core.
interpreted_only = pytest.mark.skipif(
    request_purgatory.__compiled__,
    reason="the compiled core's locks are C objects, which can't be replaced",
)


class InterleavedClock(ManualClock):
    """A manual clock that calls a function after a reading, before the reader continues.

    Attributes:
        interrupt: The function; it is called once.
    """

    interrupt: Callable[[], object] | None = None

    def read_ns(self) -> int:
        now_ns = super().read_ns()
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            interrupt()
        return now_ns


class InterleavedLock:
    """A lock that calls a function before it is acquired, as if another thread had held it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._action: Callable[[], object] | None = None
        self._countdown = 0

    def before(self, number: int, action: Callable[[], object]) -> None:
        """Call `action` once, before the lock is acquired for the `number`-th time from now.

        Args:
            number: The number, from 1.
            action: The other thread's action; it may acquire and release the lock.
        """
        self._countdown = number
        self._action = action

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire the lock, as `threading.Lock.acquire`."""
        if self._action is not None:
            self._countdown -= 1
            if self._countdown == 0:
                action, self._action = self._action, None
                action()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def interleave_lists(lists: WatchShard) -> InterleavedLock:
    """Give a shard's watcher lists a lock that the test can come before, and return it."""
    lock = InterleavedLock()
    lists.lock = lock  # type: ignore[assignment]
    return lock


def interleave_tasks(timer: SystemTimer) -> InterleavedLock:
    """Give a timer a lock for its tasks that the test can come before, and return it."""
    lock = InterleavedLock()
    timer._lock = timer._pending.lock = lock  # type: ignore[assignment]
    return lock
