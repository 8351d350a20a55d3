"""Delays drawn before anything is measured, the same in every run and for every side."""

from __future__ import annotations

import random

#: What is pending while something else is measured comes due no earlier than this, and no later
#: than three times it.
SHORTEST_PENDING_MS = 30_000


def uniform_ms(count: int, from_ms: int, to_ms: int, *, seed: int = 1) -> list[int]:
    """`count` whole milliseconds from `from_ms` to `to_ms`."""
    draw = random.Random(seed).random
    width = to_ms - from_ms + 1
    return [from_ms + int(draw() * width) for _ in range(count)]


def pending_ms(count: int, *, shortest_ms: int = SHORTEST_PENDING_MS, seed: int = 1) -> list[int]:
    """Delays so long that nothing comes due while it is pending in a benchmark."""
    return uniform_ms(count, shortest_ms, 3 * shortest_ms, seed=seed)


def seconds(delays_ms: list[int]) -> list[float]:
    """The same delays in the unit that Python's own timers take."""
    return [delay_ms / 1000 for delay_ms in delays_ms]
