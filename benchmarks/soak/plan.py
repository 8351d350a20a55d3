"""What a campaign is to do."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import request_purgatory

#: Threads that use the purgatory, beside the event loop's and the main thread.
THREADS = 8


@dataclass(frozen=True)
class Plan:
    """One process's part of a campaign.

    Attributes:
        seed: of all choices.
        seconds: when no further round begins.
        operations: how many ended operations are enough; None is without a limit.
        steps: what each thread does in a round, one of these; about two operations end in three
            steps.
        forks: whether threads fork; the child uses what it has inherited.
        signals: whether handlers raise on the main thread.
        sample_s: seconds between two samples of the memory.
    """

    seed: int
    seconds: float
    operations: int | None = None
    steps: tuple[int, ...] = (2000, 8000, 20000)
    forks: bool = False
    signals: bool = False
    sample_s: float = 10.0

    def for_process(self, number: int, processes: int) -> Plan:
        """Return the part of one of several processes, with a seed of its own."""
        operations = self.operations
        share = None if operations is None else -(-operations // processes)
        return replace(self, seed=self.seed + number * 1_000_003, operations=share)


def can_interrupt() -> bool:
    """Return True where handlers may raise anywhere.

    On the compiled build (docs/design.md, "Signals").
    """
    return hasattr(os, "fork") and request_purgatory.__compiled__


def sample_interval_s(seconds: float) -> float:
    """Return seconds between samples: 10, and less where a run would have fewer than 60."""
    return max(0.1, min(10.0, seconds / 60))
