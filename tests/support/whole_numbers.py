"""Whole numbers that are no int."""

from __future__ import annotations


class Index:
    """A whole number that is no int, as NumPy's are."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __index__(self) -> int:
        return self.number
