"""What is drawn beforehand: a draw in the hot part is a step along a list."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from itertools import cycle
from typing import TypeVar

from benchmarks.soak.probe import Event

T = TypeVar("T")

#: Milliseconds: what may expire within a round, and what won't.
SHORT_MS = (0, 1, 1, 2, 2, 3, 5, 8, 13, 20)
LONG_MS = 600_000
#: The lengths of the lists, all primes: together they repeat after longer than any campaign.
_LENGTHS = (4099, 4093, 4091, 4079, 4073, 4057, 4051, 4049, 4027, 4021, 4019, 4013)


class Keys:
    """The watch keys, of several types, and what happens under each."""

    def __init__(self, count: int = 64) -> None:
        forms = (
            str,
            int,
            lambda number: (number, "key"),
            lambda number: frozenset({number, "key"}),
        )
        self.keys: list[Hashable] = [forms[number % 4](number) for number in range(count)]
        self.events = [Event() for _ in range(count)]


class Choices:
    """All draws of one thread; the same seed and name draw the same."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"{seed}/{name}")
        self._lengths = cycle(_LENGTHS)

    def among(self, values: Sequence[T], weights: Sequence[float] | None = None) -> Iterator[T]:
        """Return an endless iterator of draws from `values`."""
        return cycle(self._random.choices(values, weights, k=next(self._lengths)))

    def watches(self, keys: Keys) -> Iterator[tuple[Event, list[Hashable], int]]:
        """Return an endless iterator of an event, the keys to watch (the event's own among them), and the events to wait for."""
        drawn = []
        numbers = range(len(keys.keys))
        for _ in range(next(self._lengths)):
            number = self._random.choice(numbers)
            others = self._random.sample(keys.keys, self._random.choices((0, 1, 2), (75, 20, 5))[0])
            watched = [keys.keys[number], *others]
            self._random.shuffle(watched)
            drawn.append(
                (keys.events[number], watched, self._random.choices((0, 1, 2), (5, 85, 10))[0])
            )
        return cycle(drawn)

    def events(self, keys: Keys) -> Iterator[tuple[Event, Hashable]]:
        """Return an endless iterator of events with their keys."""
        return self.among(list(zip(keys.events, keys.keys, strict=True)))

    @property
    def random(self) -> random.Random:
        """For what is drawn once a round."""
        return self._random
