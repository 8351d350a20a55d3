"""What a timer does, in one sorted list."""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable

NS_PER_MS = 1_000_000


class NaiveTimer:
    """A model with all pending tasks in one list, sorted by the tick at which they are due."""

    def __init__(self, tick_ms: int) -> None:
        self.tick_ms = tick_ms
        self.pending: list[tuple[int, Hashable]] = []

    def add(self, name: Hashable, now_ns: int, delay_ms: int) -> bool:
        """Add or move a task; False if it is due at once."""
        self.cancel(name)
        if delay_ms <= 0:
            return False
        tick_ns = self.tick_ms * NS_PER_MS
        ticks = -(-(now_ns + delay_ms * NS_PER_MS) // tick_ns)
        insort(self.pending, (ticks * self.tick_ms, name))
        return True

    def cancel(self, name: Hashable) -> bool:
        """Remove a task; True if it was pending."""
        before = len(self.pending)
        self.pending = [entry for entry in self.pending if entry[1] != name]
        return len(self.pending) < before

    def due_ms(self, name: Hashable) -> int | None:
        """Return when the task is due; None if it is not pending."""
        return next((due_ms for due_ms, pending in self.pending if pending == name), None)

    @property
    def first_due_ms(self) -> int | None:
        """Return when the next task is due; None if no task is pending."""
        return self.pending[0][0] if self.pending else None
