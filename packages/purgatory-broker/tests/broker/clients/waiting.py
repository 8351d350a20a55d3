"""Polling for a client's observation, with a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

#: Seconds; long, so that a busy machine fails no test.
TIME_LIMIT = 60.0

Found = TypeVar("Found")


def until(condition: Callable[[], Found | None], *, limit: float = TIME_LIMIT) -> Found:
    """Poll a condition until its result is true, and return the result."""
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, f"{condition} is not met in {limit} s"
        time.sleep(0.005)
    return found
