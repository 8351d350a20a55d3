"""The aggregates of a watch key's events during a replay, and what a request waits for."""

from __future__ import annotations

#: What of a key's events a condition compares with its threshold. Events from the request's arrival
#: on count for the first two, all events so far for the maximum.
AGGREGATES = ("count", "sum", "max")


class KeyState:
    """The aggregates of a key's events: their totals now, and before the latest event's instant.

    Aggregates are numbered by their position in `AGGREGATES`: 0 is count, 1 is sum and 2 is
    max.
    """

    __slots__ = ("_count", "_count_before", "_high", "_instant_us", "_total", "_total_before")

    def __init__(self) -> None:
        self._count = 0.0
        self._total = 0.0
        self._high = 0.0
        self._count_before = 0.0
        self._total_before = 0.0
        self._instant_us = -1

    def add(self, amount: float, now_us: int) -> None:
        """Add an event that occurs at `now_us`, which is not before earlier events."""
        if self._instant_us != now_us:
            self._instant_us = now_us
            self._count_before = self._count
            self._total_before = self._total
        self._count += 1
        self._total += amount
        if amount > self._high:
            self._high = amount

    def value(self, aggregate: int) -> float:
        if aggregate == 0:
            return self._count
        return self._total if aggregate == 1 else self._high

    def baseline(self, aggregate: int, now_us: int) -> float:
        """Return the baseline to subtract for a request arriving at `now_us`.

        For count and sum it is the value before this instant, as events of the same instant count.
        For max it is 0, as events before the arrival count too.
        """
        if aggregate == 0:
            return self._count_before if self._instant_us == now_us else self._count
        if aggregate == 1:
            return self._total_before if self._instant_us == now_us else self._total
        return 0.0


class KeyWait:
    """A key that a request waits for, its `KeyState.baseline`, and the next one of the request."""

    __slots__ = ("baseline", "key", "next")

    def __init__(self, key: KeyState, baseline: float, following: KeyWait | None) -> None:
        self.key = key
        self.baseline = baseline
        self.next = following
