"""Random choices, drawn beforehand so that a choice in the measured part is a step in a list."""

from __future__ import annotations

import random
from collections.abc import Hashable, Iterator, Sequence
from itertools import cycle
from typing import TypeVar

from benchmarks.soak.probe import Event

T = TypeVar("T")

#: Delays in milliseconds: those that may expire within a round, and one that does not.
SHORT_MS = (0, 1, 1, 2, 2, 3, 5, 8, 13, 20)
LONG_MS = 600_000
#: The lengths of the lists: primes, so that their combination does not repeat in a campaign.
_LENGTHS = (4099, 4093, 4091, 4079, 4073, 4057, 4051, 4049, 4027, 4021, 4019, 4013)


class Keys:
    """Watch keys of several types, each with an event."""

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
    """The random choices of one thread, determined by a seed and the thread's name."""

    def __init__(self, seed: int, name: str) -> None:
        self._random = random.Random(f"{seed}/{name}")
        self._lengths = cycle(_LENGTHS)

    def among(self, values: Sequence[T], weights: Sequence[float] | None = None) -> Iterator[T]:
        """Return an endless iterator of random elements of `values`."""
        return cycle(self._random.choices(values, weights, k=next(self._lengths)))

    def watches(self, keys: Keys) -> Iterator[tuple[Event, list[Hashable], int]]:
        """Return an endless iterator of watches.

        Each watch is an event, the keys to watch, which include the event's, and the number of
        events to wait for.
        """
        drawn = []
        numbers = range(len(keys.keys))
        for _ in range(next(self._lengths)):
            number = self._random.choice(numbers)
            peers = self._random.sample(keys.keys, self._random.choices((0, 1, 2), (75, 20, 5))[0])
            watched = [keys.keys[number], *peers]
            self._random.shuffle(watched)
            drawn.append(
                (
                    keys.events[number],
                    watched,
                    self._random.choices((0, 1, 2), (5, 85, 10))[0],
                )
            )
        return cycle(drawn)

    def events(self, keys: Keys) -> Iterator[tuple[Event, Hashable]]:
        """Return an endless iterator of events with their keys."""
        return self.among(list(zip(keys.events, keys.keys, strict=True)))

    @property
    def random(self) -> random.Random:
        """The generator, for choices that are made once in a round."""
        return self._random
