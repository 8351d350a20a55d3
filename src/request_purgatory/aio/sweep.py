"""Trying all who watch a key, some at a time."""

from __future__ import annotations

from collections.abc import Hashable

from request_purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.watch import Watch


class Sweep:
    """One pass over the watcher list of a key, in steps, so that a loop that has 100,000 waiters to try can do other things.

    Attributes:
        again: set it when something changed while the sweep is on its way: those that were tried before are tried again.
    """

    __slots__ = ("_core", "_key", "_next", "_watches", "again")

    def __init__(self, core: DelayedOperationPurgatory, key: Hashable) -> None:
        self._core = core
        self._key = key
        self._watches: list[Watch] | None = None
        self._next = 0
        self.again = False

    def step(self, at_most: int) -> bool:
        """Try at most so many operations; True once all that watch the key were tried after the last change."""
        done = self._step(at_most)
        if done and self.again:
            self.again = False
            return False
        return done

    def _step(self, at_most: int) -> bool:
        core = self._core
        shards = core._shards
        shard = shards[hash(self._key) % len(shards)]
        if self._watches is None:
            watchers = shard.get(self._key)
            if watchers is None:
                return True
            if watchers.size <= at_most:
                core.check_and_complete(self._key)
                return True
            self._watches = shard.watches_of(watchers)
        end = min(self._next + at_most, len(self._watches))
        while self._next < end:
            self._next += 1
            core._check(shard, self._watches[self._next - 1])
        if self._next < len(self._watches):
            return False
        self._watches = None
        self._next = 0
        return True
