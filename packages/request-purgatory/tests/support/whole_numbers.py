"""A whole number that is not an int."""

from __future__ import annotations


class Index:
    """A whole number that is not an int, like NumPy's integers."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number
