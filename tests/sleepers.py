"""A manual clock that tells who sleeps on it and until when, so that wake-ups can be counted instead of waited for."""

from __future__ import annotations

import threading

from request_purgatory import ManualClock


class SleeperClock(ManualClock):
    """Writes down every sleep.

    Attributes:
        sleeps: until when each sleep so far was to last, in milliseconds on this clock; None for "until notified".
    """

    def __init__(self, now_ms: int = 0) -> None:
        super().__init__(now_ms)
        self.sleeps: list[int | None] = []
        self._slept = threading.Condition()
        self._conditions: set[threading.Condition] = set()

    def wait_until(self, condition: threading.Condition, until_ms: int | None) -> None:
        # The caller holds the condition's lock until it sleeps. So whoever is told of the sleep here and then takes that
        # lock, as every add and wake-up does, comes after its beginning.
        with self._slept:
            self._conditions.add(condition)
            self.sleeps.append(until_ms)
            self._slept.notify_all()
        super().wait_until(condition, until_ms)

    def wait_for_sleep(self, number: int, time_limit: float = 20.0) -> int | None:
        """Wait until that many sleeps have begun, counted from the first; until when the last of them lasts."""
        with self._slept:
            assert self._slept.wait_for(lambda: len(self.sleeps) >= number, time_limit), f"only {len(self.sleeps)} sleeps"
            return self.sleeps[number - 1]

    @property
    def asleep(self) -> int:
        """How many threads sleep and have not been told to wake up, whether or not they have come round to it yet."""
        count = 0
        for condition in self._conditions:
            with condition:  # Which a thread on its way into its sleep still holds.
                count += len(condition._waiters)  # type: ignore[attr-defined]
        return count
