"""A manual clock that reports who sleeps on it and until when, so that wake-ups are counted instead of waited for."""

from __future__ import annotations

import threading

from request_purgatory import ManualClock
from request_purgatory._native.parker import Parker


class SleeperClock(ManualClock):
    """Records every sleep.

    Attributes:
        sleeps: until when each sleep so far was to last, in milliseconds on this clock; None for
            "until woken".
    """

    def __init__(self, now_ms: int = 0) -> None:
        super().__init__(now_ms)
        self.sleeps: list[int | None] = []
        self._slept = threading.Condition()
        self._parkers: list[Parker] = []

    def wait_until(self, parker: Parker, until_ms: int | None) -> None:
        # What wakes the sleeper after this leaves a token, so whoever learns of the sleep here
        # comes after its beginning.
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
        """Wait until that many sleeps have begun, counted from the first.

        Until when the last of them lasts.
        """
        with self._slept:
            assert self._slept.wait_for(lambda: len(self.sleeps) >= number, time_limit), (
                f"only {len(self.sleeps)} sleeps"
            )
            return self.sleeps[number - 1]

    @property
    def asleep(self) -> int:
        """How many threads sleep and have not been woken, whether or not they have come round to it yet."""
        with self._slept:
            return sum(not parker.has_token for parker in self._parkers)
