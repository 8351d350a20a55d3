"""Delays that are drawn before a measurement, the same in every run and for every side."""

from __future__ import annotations

import random

#: The shortest delay of timers that are pending while others are measured; the longest is three
#: times as long.
SHORTEST_PENDING_MS = 30_000


def uniform_ms(count: int, from_ms: int, to_ms: int, *, seed: int = 1) -> list[int]:
    """Return `count` whole milliseconds, uniformly distributed from `from_ms` to `to_ms`."""
    draw = random.Random(seed).random
    width = to_ms - from_ms + 1
    return [from_ms + int(draw() * width) for _ in range(count)]


def pending_ms(count: int, *, shortest_ms: int = SHORTEST_PENDING_MS, seed: int = 1) -> list[int]:
    """Return `count` delays that are too long to end during a measurement, in milliseconds."""
    return uniform_ms(count, shortest_ms, 3 * shortest_ms, seed=seed)


def to_seconds(delays_ms: list[int]) -> list[float]:
    """Return the delays in seconds, the unit of Python's own timers."""
    return [delay_ms / 1000 for delay_ms in delays_ms]
