"""Trying the operations that watch a key, a limited number at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.purgatory.operation import DelayedOperation


class Sweep:
    """One pass over the watcher list of a key in steps, between which the loop runs other tasks.

    Attributes:
        key: The key that was notified.
        begun: True once operations were tried in this pass; a later change needs another pass.
        again: Set by a notification in the middle of a pass: another pass follows.
        done: True once all operations were tried after the last notification.
    """

    __slots__ = ("_core", "_next", "_operations", "again", "begun", "done", "key")

    def __init__(self, core: PurgatoryCore, key: Hashable) -> None:
        self._core = core
        self.key = key
        self._operations: list[DelayedOperation] | None = None
        self._next = 0
        self.begun = False
        self.again = False
        self.done = False

    def step(self, limit: int) -> int:
        """Try at least one and at most `limit` operations, and return how many."""
        self.begun = True
        core = self._core
        if self._operations is None:
            size = core.num_watchers(self.key)
            if size == 0:
                self.done = True
                return 0
            if size <= limit:
                core.check_and_complete(self.key)
                self._end_pass()
                return size
            self._operations = core._watching(self.key)
        start = self._next
        stop = min(start + limit, len(self._operations))
        while self._next < stop:
            self._next += 1
            core._try_one(self.key, self._operations[self._next - 1])
        if stop == len(self._operations):
            self._operations = None
            self._next = 0
            self._end_pass()
        return stop - start

    def _end_pass(self) -> None:
        self.done = not self.again
        self.begun = False
        self.again = False


class Sweeper:
    """Notifies keys: at most a batch of operations is tried before the loop runs other tasks.

    Sweeps never overlap. A key that a condition or a callback notifies is handled after the present
    one, and a key that is notified in the middle of its own sweep is swept once more.
    """

    def __init__(self, core: PurgatoryCore, loop: asyncio.AbstractEventLoop, batch: int) -> None:
        self._core = core
        self._loop = loop
        self._batch = batch
        self._sweeps: dict[Hashable, Sweep] = {}
        # The sweeps whose turn is now, and those that wait for the loop's next round.
        self._turn: deque[Sweep] = deque()
        self._rest: deque[Sweep] = deque()
        self._sweeping = False

    def notify(self, key: Hashable) -> None:
        """Try the operations that watch `key`, or leave them to the loop's next rounds."""
        sweep = self._sweeps.get(key)
        if sweep is not None:
            sweep.again = sweep.begun
            return
        count = self._core.num_watchers(key)
        if not count:
            return
        if self._sweeping or count > self._batch:
            self._plan(key)
            if not self._sweeping:
                self._run(self._batch)
            return
        # The usual case, without a sweep to remember the position in the list.
        self._sweeping = True
        try:
            self._core.check_and_complete(key)
        except BaseException:
            self._sweeping = False
            self._plan(key)
            self._put_off()
            raise
        self._sweeping = False
        if self._turn:
            self._run(self._batch - count)

    def clear(self) -> None:
        """Forget all sweeps, when the purgatory is closed; one that runs ends by itself."""
        self._sweeps.clear()
        self._rest.clear()

    def _plan(self, key: Hashable) -> None:
        self._sweeps[key] = sweep = Sweep(self._core, key)
        self._turn.append(sweep)

    def _run(self, left: int) -> None:
        """Try the operations of the keys in turn, until `left` operations have been tried."""
        turn = self._turn
        self._sweeping = True
        try:
            while turn and left > 0 and not self._core.is_closed:
                sweep = turn[0]
                left -= sweep.step(left)
                if sweep.done:
                    self._sweeps.pop(sweep.key, None)
                    turn.popleft()
        finally:
            self._sweeping = False
            if turn:
                self._put_off()

    def _put_off(self) -> None:
        if not self._core.is_closed:
            if not self._rest:
                self._loop.call_soon(self._next_round)
            self._rest.extend(self._turn)
        self._turn.clear()

    def _next_round(self) -> None:
        self._turn.extend(self._rest)
        self._rest.clear()
        self._run(self._batch)
