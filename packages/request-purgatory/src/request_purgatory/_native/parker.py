"""A place for a thread to sleep that stays consistent if a signal or finalizer interrupts it."""

from __future__ import annotations

import threading


class Parker:
    """Lets one thread sleep until another thread wakes it, or until a timeout.

    A parker holds one token or none. `unpark` adds the token and `park` takes it. So a wake-up
    before the sleep ends the sleep at once, and none is lost. This is the interface of Java's
    `LockSupport`.

    Each step is one call of a C primitive, and no lock is held between two steps. So if a signal
    handler raises, or the cyclic collector runs a finalizer, no step is left half done.
    (`threading.Condition` is Python code that holds a lock.)

    >>> parker = Parker()
    >>> parker.unpark()
    >>> parker.park(None)
    True
    >>> parker.park(0)
    False
    """

    __slots__ = ("__weakref__", "_gate")

    def __init__(self) -> None:
        # Locked means that there is no token.
        self._gate = threading.Lock()
        self._gate.acquire()

    def park(self, timeout: float | None) -> bool:
        """Take the token; False if there was none for `timeout` seconds. None has no limit."""
        if timeout is None:
            return self._gate.acquire()
        if timeout <= 0:
            return self._gate.acquire(blocking=False)
        # A lock has a longest timeout. Callers check their condition whatever ended the sleep.
        return self._gate.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))

    def unpark(self) -> None:
        """Add the token, from any thread; no-op if there is one."""
        if self._gate.locked():
            try:
                self._gate.release()
            except RuntimeError:  # pragma: no cover - needs a race
                pass  # Another thread released it after the check.
