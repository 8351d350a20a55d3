"""The thread that advances a clock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from request_purgatory._native.failsafe import ends_program
from request_purgatory._native.parker import Parker
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import PurgatoryClosedError, TimerClosedError

logger = logging.getLogger(__name__)

#: Seconds of real time between an `advance` that raised and the next one: doubled for each that
#: raises in a row, up to the second number.
FIRST_PAUSE, LONGEST_PAUSE = 0.001, 1.0


class ClockThread:
    """A daemon thread that calls `advance` until it is stopped; `advance` does the sleeping.

    As a daemon it does not keep a program alive that does not shut its purgatory down.

    Attributes:
        is_running: True if the thread runs, so that it refers to what it advances.
    """

    def __init__(self, name: str, advance: Callable[[], object], wake: Callable[[], None]) -> None:
        """Create the thread without starting it; `wake` ends a sleep in `advance`."""
        self._advance = advance
        self._wake = wake
        self._stopped = False
        self.is_running = False
        self._errors = ErrorLog(logger)
        self._pause = Parker()  # Where the thread waits after errors; `stop` ends the wait.
        # Acquired by whoever starts the thread, and nobody waits for it: while the thread starts, a
        # signal handler or finalizer of either thread may use the timer.
        self._claimed = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread unless it was started or stopped before; any thread may call this."""
        if self._stopped or not self._claimed.acquire(blocking=False):
            return
        try:
            self._thread.start()
        finally:
            if self._thread.ident is None:  # There is no memory, or no further thread.
                self._claimed.release()

    def _run(self) -> None:
        self.is_running = True
        try:
            self._advance_repeatedly()
        finally:
            self.is_running = False

    def _advance_repeatedly(self) -> None:
        pause = 0.0
        while not self._stopped:
            try:
                self._advance()
                pause = 0.0
            except (PurgatoryClosedError, TimerClosedError):
                return
            except BaseException as error:
                # The timer logs what callbacks raise. What still arrives here, such as a callback's
                # SystemExit, must not silently end all timeouts of the process.
                try:
                    self._errors.log(error, "%s: advancing the clock raised", self._thread.name)
                    if ends_program(error):
                        continue  # Out of a task, which is done: the next one need not wait.
                    # A clock that raises is likely to do so at once again.
                    pause = min(2 * pause or FIRST_PAUSE, LONGEST_PAUSE)
                    self._pause.park(pause)
                except BaseException:
                    pass  # A handler of the log that exits, or there is no memory.

    def stop(self, join_timeout: float = 10.0) -> bool:
        """Stop the thread and wait for its end, up to `join_timeout` seconds; True if it has ended.

        Called from the thread itself, it only requests the stop.
        """
        self._stopped = True
        self._pause.unpark()
        if threading.current_thread() is self._thread:
            return False
        deadline = time.monotonic() + join_timeout
        while self._thread.is_alive() and time.monotonic() < deadline:
            # Repeatedly: the wake-up may reach another thread that sleeps on the same timer, or
            # the thread may have read `_stopped` before and sleep after it.
            self._wake()
            self._thread.join(0.02)
        if self._thread.is_alive():
            logger.warning(
                "%s: still busy in a callback after %s s", self._thread.name, join_timeout
            )
            return False
        return True
