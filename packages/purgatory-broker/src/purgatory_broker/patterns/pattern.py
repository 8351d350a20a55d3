"""Matches regular expressions."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

from purgatory_broker.patterns.characters import WORD
from purgatory_broker.patterns.program import Instruction
from purgatory_broker.patterns.syntax import parse

#: The most places in all sets that are remembered.
_MAX_CACHED = 100_000
#: Those between two turns of others on the event loop: up to 10 ms.
STEPS_PER_SLICE = 4_000
_END: Final = ""


class Pattern:
    """A regular expression that matches whole texts.

    All ways through the expression are followed at the same time (Thompson's construction), so
    that a text takes at most as many steps as it has characters, times the size of the program.
    Sets of places that were met before are remembered with what follows them.

    Source: https://swtch.com/~rsc/regexp/regexp2.html

    >>> Pattern("orders-[a-z]+").matches("orders-eu")
    True
    """

    def __init__(self, expression: str) -> None:
        """Raise PatternError if the expression is not valid."""
        self.expression = expression
        self._program: tuple[Instruction, ...] = parse(expression)
        self._following: dict[tuple[frozenset[int], str, str], frozenset[int]] = {}
        self._num_cached = 0
        #: How many steps all matches have taken.
        self.num_steps = 0
        self._slice_end = STEPS_PER_SLICE

    def matches(self, text: str) -> bool:
        steps = self.match(text)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bool(end.value)

    def match(self, text: str) -> Generator[None, None, bool]:
        """Match in slices, counted over all texts; return the result."""
        places = frozenset([0])
        previous = _END
        for character in text:
            places = self._after(places, previous, character)
            if self.num_steps >= self._slice_end:
                yield
                self._slice_end = self.num_steps + STEPS_PER_SLICE
            if not places:
                return False
            previous = character
        return len(self._program) in self._reached(places, previous, _END)

    def _after(self, places: frozenset[int], previous: str, character: str) -> frozenset[int]:
        key = places, previous, character
        following = self._following.get(key)
        self.num_steps += 1
        if following is None:
            following = frozenset(
                self._program[place].targets[0]
                for place in self._reached(places, previous, character)
                if place < len(self._program) and self._consumes(place, character)
            )
            if self._num_cached >= _MAX_CACHED:
                self._following.clear()
                self._num_cached = 0
            self._following[key] = following
            # One more, since empty sets have keys.
            self._num_cached += len(following) + 1
        return following

    def _consumes(self, place: int, character: str) -> bool:
        characters = self._program[place].characters
        return characters is not None and character in characters

    def _reached(self, places: frozenset[int], previous: str, character: str) -> set[int]:
        """Return all places that are reached between two characters, empty ones at the ends."""
        reached = set(places)
        waiting = list(places)
        while waiting:
            place = waiting.pop()
            self.num_steps += 1
            if place == len(self._program):
                continue
            step = self._program[place]
            if step.characters is not None or not _holds(step.assertion, previous, character):
                continue
            for target in step.targets:
                if target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return reached


def _holds(assertion: str, previous: str, character: str) -> bool:
    if not assertion:
        return True
    if assertion in "bB":
        return ((previous in WORD) is not (character in WORD)) is (assertion == "b")
    if assertion in "^A":
        return previous == _END or (assertion == "^" and previous == "\n")
    return character == _END or (assertion == "$" and character == "\n")
