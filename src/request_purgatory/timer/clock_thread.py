"""The thread that advances a clock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from request_purgatory.errors import PurgatoryClosedError, TimerClosedError

logger = logging.getLogger(__name__)


class ClockThread:
    """Calls `advance` over and over until stopped; `advance` does the sleeping.

    A daemon, so a program that forgets to shut its purgatory down still ends.
    """

    def __init__(self, name: str, advance: Callable[[], object], wake: Callable[[], None]) -> None:
        """A thread that `start` starts.

        Args:
            name: The thread's name.
            advance: What to call.
            wake: Must end a sleep in `advance`.
        """
        self._advance = advance
        self._wake = wake
        self._stopped = False
        self._starting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start, unless that was done or it was stopped; any thread may call this."""
        with self._starting:
            if self._thread.ident is None and not self._stopped:
                self._thread.start()

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._advance()
            except (PurgatoryClosedError, TimerClosedError):
                return
            except BaseException:
                # Callbacks are contained where they run; what still arrives here (a SystemExit
                # raised by one, say) must not silently end every timeout of the process.
                logger.exception("%s: advancing the clock raised", self._thread.name)

    def stop(self, join_timeout: float = 10.0) -> bool:
        """End the thread; True once it has ended.

        Called from the thread itself it only asks, and returns False.

        Args:
            join_timeout: seconds to wait for a callback that is still running.
        """
        with self._starting:
            self._stopped = True
        if threading.current_thread() is self._thread:
            return False
        deadline = time.monotonic() + join_timeout
        while self._thread.is_alive() and time.monotonic() < deadline:
            # Again and again, because a wake-up may reach another thread that sleeps on the same
            # timer, or come between this thread's look at `_stopped` and its sleep.
            self._wake()
            self._thread.join(0.02)
        if self._thread.is_alive():
            logger.warning(
                "%s: still busy in a callback after %s s", self._thread.name, join_timeout
            )
            return False
        return True

    @property
    def is_alive(self) -> bool:
        """True until the thread has ended."""
        return self._thread.is_alive()
