"""Trying all who watch a key, some at a time."""

from __future__ import annotations

from collections.abc import Hashable

from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory
from request_purgatory.purgatory.watch import Watch


class Sweep:
    """One pass over the watcher list of a key, in steps, so that a loop that has 100,000 waiters to try can do other things.

    Attributes:
        key: what changed.
        begun: some were tried in this pass, and will not see what changes now.
        again: set it when something changes then: there is another pass.
        done: all that watch the key were tried after the last change.
    """

    __slots__ = ("_core", "_next", "_watches", "again", "begun", "done", "key")

    def __init__(self, core: DelayedOperationPurgatory, key: Hashable) -> None:
        self._core = core
        self.key = key
        self._watches: list[Watch] | None = None
        self._next = 0
        self.begun = False
        self.again = False
        self.done = False

    def step(self, at_most: int) -> int:
        """Try at most so many operations, at least one; how many were."""
        self.begun = True
        core = self._core
        shards = core._shards
        shard = shards[hash(self.key) % len(shards)]
        if self._watches is None:
            watchers = shard.get(self.key)
            if watchers is None:
                self.done = True
                return 0
            size = watchers.size
            if size <= at_most:
                core.check_and_complete(self.key)
                self._pass_ended()
                return size
            self._watches = shard.watches_of(watchers)
        began = self._next
        end = min(began + at_most, len(self._watches))
        while self._next < end:
            self._next += 1
            core._check(shard, self._watches[self._next - 1])
        if end == len(self._watches):
            self._watches = None
            self._next = 0
            self._pass_ended()
        return end - began

    def _pass_ended(self) -> None:
        self.done = not self.again
        self.begun = False
        self.again = False
