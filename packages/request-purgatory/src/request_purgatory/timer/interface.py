"""What a purgatory asks of its timer."""

from __future__ import annotations

from typing import Protocol

from request_purgatory.clock import Clock
from request_purgatory.timer.task import TimerTask


class Timer(Protocol):
    """The interface of a purgatory's timer; `SystemTimer` documents each member.

    Use `SystemTimer`. `LegacyPurgatory` brings the timer of Kafka 0.8's design.
    """

    @property
    def clock(self) -> Clock:
        """The clock that the timer runs on."""
        ...

    @property
    def size(self) -> int:
        """The number of pending tasks."""
        ...

    @property
    def next_expiration_ms(self) -> int | None:
        """When `advance_clock` next has work; None if no task is pending."""
        ...

    def add(self, task: TimerTask) -> None:
        """Run `task` after its delay."""
        ...

    def advance_clock(self, timeout_ms: int | None) -> bool:
        """Wait up to `timeout_ms` for due tasks, and run them."""
        ...

    def wake(self) -> None:
        """End the sleep of a thread in `advance_clock`."""
        ...

    def shutdown(self) -> list[TimerTask]:
        """Cancel all pending tasks and return them."""
        ...

    def _pending_tasks(self) -> list[TimerTask]:
        """Return all pending tasks, while no other thread uses the timer."""
        ...

    def _check_invariants(self) -> None:
        """Assert every invariant of the timer."""
        ...
