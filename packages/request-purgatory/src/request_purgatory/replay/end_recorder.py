"""The record of how a replay's requests end."""

from __future__ import annotations

from request_purgatory._native import primitives


class EndRecorder:
    """Collects how requests end, in columns that are allocated before they are needed.

    Attributes:
        now_us: The current time of the trace, in microseconds since the epoch.
        tries: Number of calls of `try_complete`.
        callbacks: Number of calls of `on_complete` and `on_expiration`.
    """

    def __init__(self, now_us: int) -> None:
        self.now_us = now_us
        self.tries = 0
        self.callbacks = 0
        self.allocate(0)

    def allocate(self, size: int) -> None:
        """Drop what was recorded, and make room for `size` further ends."""
        self._num_ended = 0
        self._rows = primitives.zeros(size)
        self._arrived_us = primitives.zeros(size)
        self._deadlines_us = primitives.zeros(size)
        self._ended_us = primitives.zeros(size)
        self._expired = primitives.zeros(size)

    def record(self, row: int, arrived_us: int, deadline_us: int, expired: bool) -> None:
        """Record that a request ends now. Times are in microseconds since the epoch."""
        at = self._num_ended
        primitives.set_number(self._rows, at, row)
        primitives.set_number(self._arrived_us, at, arrived_us)
        primitives.set_number(self._deadlines_us, at, deadline_us)
        primitives.set_number(self._ended_us, at, self.now_us)
        primitives.set_number(self._expired, at, expired)
        self._num_ended = at + 1

    def ended(self) -> dict[str, memoryview]:
        """Return what was recorded since the latest `allocate`, as columns of 64-bit integers.

        An expired request ends when its timeout's callback runs, at the deadline or later.
        """
        columns = {
            "row": self._rows,
            "arrived_us": self._arrived_us,
            "deadline_us": self._deadlines_us,
            "ended_us": self._ended_us,
            "expired": self._expired,
        }
        return {
            name: memoryview(column).cast("B").cast("q")[: self._num_ended]
            for name, column in columns.items()
        }
