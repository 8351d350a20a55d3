"""A place for a thread to sleep that neither a signal nor a finalizer can tear."""

from __future__ import annotations

import threading


class Parker:
    """Lets one thread sleep until another one wakes it, or until some time has passed.

    A parker holds one token or none. `unpark` puts the token there and `park` takes it, so a
    wake-up that comes before the sleep ends the sleep at once, and none is lost. This is the
    interface of Java's `LockSupport`.

    Each step is one call of a C primitive, and no lock is held between two of them. So an
    exception that a signal handler raises, or a finalizer that the collector runs, finds nothing
    half done. (`threading.Condition` is Python code that holds a lock.)

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
        """Take the token, and sleep until it is there.

        Args:
            timeout: Seconds to wait at most; 0 or less only looks, None waits without a limit.

        Returns:
            True if there was a token, False if the time ran out.
        """
        if timeout is None:
            return self._gate.acquire()
        if timeout <= 0:
            return self._gate.acquire(blocking=False)
        # A lock can't be waited for any longer; callers look again whatever ended the sleep.
        return self._gate.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))

    def unpark(self) -> None:
        """Put the token there, from any thread; no-op if it is there already."""
        if self._gate.locked():
            try:
                self._gate.release()
            except RuntimeError:  # pragma: no cover - only a race comes here
                pass  # Another thread released it between the look and this.

    @property
    def has_token(self) -> bool:
        """True if the next `park` returns at once."""
        return not self._gate.locked()
