"""Trying the operations that watch a key, a limited number at a time."""

from __future__ import annotations

from collections.abc import Hashable

from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.purgatory.watch import Watch


class Sweep:
    """One pass over the watcher list of a key in steps, between which the loop runs other tasks.

    Attributes:
        key: The key that was notified.
        begun: True once operations were tried in this pass; a later change needs another pass.
        again: Set by a notification in the middle of a pass: another pass follows.
        done: True once all operations were tried after the last notification.
    """

    __slots__ = ("_core", "_next", "_watches", "again", "begun", "done", "key")

    def __init__(self, core: PurgatoryCore, key: Hashable) -> None:
        self._core = core
        self.key = key
        self._watches: list[Watch] | None = None
        self._next = 0
        self.begun = False
        self.again = False
        self.done = False

    def step(self, limit: int) -> int:
        """Try at least one and at most `limit` operations.

        Returns:
            The number of operations that were tried.
        """
        self.begun = True
        core = self._core
        if self._watches is None:
            size = core.num_watchers(self.key)
            if size == 0:
                self.done = True
                return 0
            if size <= limit:
                core.check_and_complete(self.key)
                self._end_pass()
                return size
            self._watches = core._watches(self.key)
        start = self._next
        stop = min(start + limit, len(self._watches))
        while self._next < stop:
            self._next += 1
            core._try_one(self.key, self._watches[self._next - 1])
        if stop == len(self._watches):
            self._watches = None
            self._next = 0
            self._end_pass()
        return stop - start

    def _end_pass(self) -> None:
        self.done = not self.again
        self.begun = False
        self.again = False
