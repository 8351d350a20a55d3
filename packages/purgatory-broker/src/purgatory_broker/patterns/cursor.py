"""A place in a regular expression that is read."""

from __future__ import annotations

from dataclasses import dataclass


class PatternError(ValueError):
    """A regular expression that is not valid."""

    def __init__(self, what: str, where: str) -> None:
        super().__init__(f"error parsing regexp: {what}: `{where}`")
        self.description = what


@dataclass(slots=True)
class Cursor:
    text: str
    position: int = 0

    def peek(self, text: str) -> bool:
        return self.text.startswith(text, self.position)

    def take(self, text: str) -> bool:
        found = self.peek(text)
        self.position += len(text) * found
        return found

    def next(self) -> str:
        self.position += 1
        return self.text[self.position - 1]

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self.text)

    def since(self, start: int) -> str:
        """Return what was read since a position, for an error."""
        return self.text[start : self.position]
