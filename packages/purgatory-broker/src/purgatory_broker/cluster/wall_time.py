"""The time of day of a cluster, which a test can advance."""

from __future__ import annotations

from collections.abc import Callable


class WallTime:
    """Returns the time of day in milliseconds since 1970, and what it was advanced by."""

    def __init__(self, read: Callable[[], int]) -> None:
        self.advanced_ms = 0
        self._read = read

    def __call__(self) -> int:
        return self._read() + self.advanced_ms
