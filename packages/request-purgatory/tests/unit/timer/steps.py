"""Helpers: advancing a timer step by step, and tasks that record their runs."""

from __future__ import annotations

from request_purgatory import Clock, ManualClock, SystemTimer, TimerTask
from tests.support.invariants import check_invariants


class Note(TimerTask):
    """A task that records the times at which it ran."""

    def __init__(self, delay_ms: int, clock: Clock, runs_ms: list[int]) -> None:
        super().__init__(delay_ms)
        self.clock = clock
        self.runs_ms = runs_ms

    def run(self) -> None:
        self.runs_ms.append(self.clock.now_ms)


def step(clock: ManualClock, timer: SystemTimer, steps: int = 1000) -> None:
    """Advance the clock from bucket to bucket, as a clock thread does, until no task is pending."""
    for _ in range(steps):
        next_ms = timer.next_expiration_ms
        if next_ms is None:
            return
        clock.advance(next_ms - clock.now_ms)
        timer.advance_clock(0)
        check_invariants(timer)
    raise AssertionError(f"still pending after {steps} steps")
