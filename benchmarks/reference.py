"""What Python itself costs: a plain object and three calls of its methods.

The unit tells interpreters apart, by their speed on the machine. How they were configured does not:
distributions build with optimisations that the configuration's line does not show.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter_ns

_TURNS = 100_000
_ROUNDS = 5


class _Plain:
    """A request that no purgatory holds."""

    __slots__ = ("ready",)

    def __init__(self, ready: bool) -> None:
        self.ready = ready

    def try_complete(self) -> bool:
        return self.ready

    def on_complete(self) -> None:
        pass


def run(turns: int) -> None:
    """Make a plain object and call three methods, repeatedly."""
    for _ in range(turns):
        plain = _Plain(False)
        plain.try_complete()
        plain.try_complete()
        plain.on_complete()


def measure_ns() -> float:
    """Return the nanoseconds of one turn: the median of some rounds."""
    elapsed_ns = []
    for _ in range(_ROUNDS):
        began_ns = perf_counter_ns()
        run(_TURNS)
        elapsed_ns.append(perf_counter_ns() - began_ns)
    return median(elapsed_ns) / _TURNS
