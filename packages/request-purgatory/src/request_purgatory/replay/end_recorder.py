"""The record of how a replay's requests end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from request_purgatory._native import primitives
from request_purgatory.pipeline.outcomes.condition import Bools, Ints


@dataclass(frozen=True, slots=True)
class EndedRequests:
    """Requests that have ended, in columns; times are in microseconds since the epoch.

    Attributes:
        row: The request's row in the `RequestPart` that it was in.
        arrived_us: The arrival.
        deadline_us: The arrival plus the timeout.
        ended_us: The end. For an expired request it is the time of its timeout's callback, which is
            at the deadline or later.
        expired: Whether the request expired.
    """

    row: Ints
    arrived_us: Ints
    deadline_us: Ints
    ended_us: Ints
    expired: Bools


class EndRecorder:
    """Collects how requests end, in columns that are allocated before they are needed.

    Attributes:
        now_us: The current time of the trace, in microseconds since the epoch.
        tries: Number of calls of `try_complete`.
        callbacks: Number of calls of `on_complete` and `on_expiration`.
    """

    def __init__(self, now_us: int) -> None:
        """Start without columns, at the time `now_us`."""
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
        """Record that a request ends now.

        Args:
            row: The request's row in its `RequestPart`.
            arrived_us: Its arrival, in microseconds since the epoch.
            deadline_us: Its deadline, in microseconds since the epoch.
            expired: Whether it expired.
        """
        at = self._num_ended
        primitives.set_number(self._rows, at, row)
        primitives.set_number(self._arrived_us, at, arrived_us)
        primitives.set_number(self._deadlines_us, at, deadline_us)
        primitives.set_number(self._ended_us, at, self.now_us)
        primitives.set_number(self._expired, at, expired)
        self._num_ended = at + 1

    def ended(self) -> EndedRequests:
        """Return what was recorded since the latest `allocate`."""
        rows, arrived, deadlines, ended, expired = [
            np.frombuffer(column, dtype=np.int64)[: self._num_ended]
            for column in (
                self._rows,
                self._arrived_us,
                self._deadlines_us,
                self._ended_us,
                self._expired,
            )
        ]
        return EndedRequests(rows, arrived, deadlines, ended, expired.astype(bool))
