"""A manual clock that records sleeps, so that tests can count wake-ups without waiting."""

from __future__ import annotations

import threading

from request_purgatory import ManualClock
from request_purgatory._native.parker import Parker


def has_token(parker: Parker) -> bool:
    """Return True if the next `park` returns at once."""
    return not parker._gate.locked()


class SleepRecordingClock(ManualClock):
    """A manual clock that records every sleep.

    Attributes:
        sleeps: The end of each sleep so far, in milliseconds on this clock; None for a sleep
            without a time limit.
    """

    def __init__(self, now_ms: int = 0) -> None:
        super().__init__(now_ms)
        self.sleeps: list[int | None] = []
        self._slept = threading.Condition()
        self._parkers: list[Parker] = []

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        # A wake-up after this point leaves a token, so the sleep counts as begun from here on.
        with self._slept:
            self._parkers.append(parker)
            self.sleeps.append(until_ms)
            self._slept.notify_all()
        try:
            super().wait_until(parker, until_ms)
        finally:
            with self._slept:
                self._parkers.remove(parker)

    def wait_for_sleep(self, number: int, time_limit: float = 20.0) -> int | None:
        """Wait until `number` sleeps have begun, and return the end of the last one of these."""
        with self._slept:
            assert self._slept.wait_for(lambda: len(self.sleeps) >= number, time_limit), (
                f"only {len(self.sleeps)} sleeps"
            )
            return self.sleeps[number - 1]

    @property
    def asleep(self) -> int:
        """The number of threads that sleep and have not been woken."""
        with self._slept:
            return sum(not has_token(parker) for parker in self._parkers)
