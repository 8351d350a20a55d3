"""A request of a trace as a delayed operation of a real purgatory, and what it waits for."""

from __future__ import annotations

from request_purgatory._native import states
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.replay.end_recorder import EndRecorder

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


class TraceOperation(DelayedOperation):
    """A request of a trace, which waits in the purgatory for the trace's events.

    Attributes:
        row: The request's row in its part of the trace.
        arrived_us: The arrival, in microseconds since the epoch.
        deadline_us: The arrival plus the timeout.
        aggregate: The number of its aggregate.
        needed: The number of keys that must still be satisfied.
        threshold: The value that the aggregate must reach.
        waits: The keys that are not known to be satisfied, as a linked list.
    """

    __slots__ = (
        "_ends",
        "aggregate",
        "arrived_us",
        "deadline_us",
        "needed",
        "row",
        "threshold",
        "waits",
    )

    # `ReplayDriver._arrive` sets these.
    row: int
    arrived_us: int
    deadline_us: int
    aggregate: int
    needed: int
    threshold: float
    waits: KeyWait | None

    def __init__(self, ends: EndRecorder, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self._ends = ends

    def try_complete(self) -> bool:
        """Complete the request if its condition is satisfied and its deadline has not passed."""
        ends = self._ends
        ends.tries += 1
        if ends.now_us > self.deadline_us:
            # The timer expires requests at whole ticks, so this request is still pending in the
            # rest of its deadline's tick. The trace's deadlines are exact to the microsecond.
            return False
        return self._is_satisfied() and self.force_complete()

    def _is_satisfied(self) -> bool:
        """Return whether the condition is satisfied, and drop satisfied keys from `waits`."""
        last = None
        wait = self.waits
        while self.needed > 0 and wait is not None:
            if wait.key.value(self.aggregate) - wait.baseline < self.threshold:
                last = wait
            else:
                self.needed -= 1
                if last is None:
                    self.waits = wait.next
                else:
                    last.next = wait.next
            wait = wait.next
        return self.needed == 0

    def on_complete(self) -> None:
        """Record the end if the request completed; `on_expiration` records expired ones."""
        ends = self._ends
        ends.callbacks += 1
        if self._state == states.COMPLETED:
            ends.record(self.row, self.arrived_us, self.deadline_us, False)

    def on_expiration(self) -> None:
        ends = self._ends
        ends.callbacks += 1
        ends.record(self.row, self.arrived_us, self.deadline_us, True)
