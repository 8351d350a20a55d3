"""A request of a trace, as a delayed operation of a real purgatory."""

from __future__ import annotations

from request_purgatory._native import states
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.replay.end_recorder import EndRecorder
from request_purgatory.replay.key_state import KeyWait


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
