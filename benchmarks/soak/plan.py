"""The plan of a campaign."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

import request_purgatory

#: Threads that use the purgatory, besides the event loop's and the main thread.
THREADS = 8


@dataclass(frozen=True)
class Plan:
    """One process's part of a campaign.

    Attributes:
        seed: Seed of all random choices.
        seconds: Time after which no further round begins.
        operations: Number of ended operations after which no further round begins; None for no
            limit.
        steps: Numbers of actions of each thread in a round, one of which is chosen; about two
            operations end in three actions.
        forks: Whether threads fork; the child uses the inherited objects.
        signals: Whether signal handlers raise on the main thread.
        sample_s: Seconds between two memory samples.
    """

    seed: int
    seconds: float
    operations: int | None = None
    steps: tuple[int, ...] = (2000, 8000, 20000)
    forks: bool = False
    signals: bool = False
    sample_s: float = 10.0

    def for_process(self, number: int, processes: int) -> Plan:
        """Return the plan of one of several processes, with its own seed."""
        operations = self.operations
        share = None if operations is None else -(-operations // processes)
        return replace(self, seed=self.seed + number * 1_000_003, operations=share)


def can_interrupt() -> bool:
    """Return whether signal handlers may raise anywhere: on the compiled build.

    See "Signals" in docs/explanation/design.md.
    """
    return hasattr(os, "fork") and request_purgatory.__compiled__


def sample_interval_s(seconds: float) -> float:
    """Return the seconds between samples: 10, or less if a run would have fewer than 60 samples."""
    return max(0.1, min(10.0, seconds / 60))
