"""Waiting for what a client will see, with a limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

#: In seconds; a machine that is busy is no finding.
TIME_LIMIT = 60.0

Found = TypeVar("Found")


def until(condition: Callable[[], Found | None], *, limit: float = TIME_LIMIT) -> Found:
    """What the condition returns, once that is true.

    The condition should itself wait a little, as a poll does.
    """
    end = time.monotonic() + limit
    while not (found := condition()):
        assert time.monotonic() < end, f"{condition} is not met in {limit} s"
        time.sleep(0.005)
    return found
