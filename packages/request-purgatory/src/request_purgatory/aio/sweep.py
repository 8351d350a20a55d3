"""Trying the operations that watch a key, a limited number at a time. Compiled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

from request_purgatory.aio.hold import MAX_ATTEMPTS
from request_purgatory.purgatory._nested_checks import MOST_IN_VAIN, loop_error
from request_purgatory.purgatory.core import PurgatoryCore
from request_purgatory.purgatory.operation import DelayedOperation

#: For how many ms of the purgatory's clock the loop is trusted to call what it was given. An
#: exception that leaves it, such as a signal handler's, may take along what it was about to call.
TRUSTED_MS = 20
_UNTRUSTED_MS = -TRUSTED_MS - 1


class Sweep:
    """One pass over the watcher list of a key in steps, between which the loop runs other tasks.

    Attributes:
        key: The key that was notified.
        depth: The number of passes in a row, with this one, that have brought each other about:
            each notified the key of the next.
        begun: True once operations were tried in this pass; a later change needs another pass.
        again: Set by a notification in the middle of a pass: another pass follows.
        done: True once all operations were tried after the last notification.
        in_vain: True while nothing has ended in this pass.
    """

    __slots__ = (
        "_core",
        "_depth_again",
        "_next",
        "_operations",
        "again",
        "begun",
        "depth",
        "done",
        "in_vain",
        "key",
    )

    def __init__(self, core: PurgatoryCore, key: Hashable, depth: int) -> None:
        self._core = core
        self.key = key
        self.depth = depth
        self._depth_again = 0
        self._operations: list[DelayedOperation] | None = None
        self._next = 0
        self.begun = False
        self.again = False
        self.done = False
        self.in_vain = True

    def notify(self, depth: int) -> None:
        """Have the key swept after this notification, once more if a pass has begun."""
        if self.begun:
            self.again = True
            self._depth_again = depth

    def step(self, limit: int) -> int:
        """Try at least one and at most `limit` operations, and return how many."""
        core = self._core
        if not self.begun:
            self.begun = True
            self.in_vain = True
        if self._operations is None:
            size = core.num_watchers(self.key)
            if size == 0:
                self.done = True
                return 0
            if size <= limit:
                if core._check(self.key, True):
                    self.in_vain = False
                self._end_pass()
                return size
            self._operations = core._watching(self.key)
        start = self._next
        stop = min(start + limit, len(self._operations))
        while self._next < stop:
            self._next += 1
            if core._try_one(self.key, self._operations[self._next - 1]):
                self.in_vain = False
        if stop == len(self._operations):
            self._operations = None
            self._next = 0
            self._end_pass()
        return stop - start

    def _end_pass(self) -> None:
        self.done = not self.again
        if self.again:
            self.depth = self._depth_again
        self.begun = False
        self.again = False


class Sweeper:
    """Notifies keys: at most a batch of operations is tried before the loop runs other tasks.

    Sweeps never overlap. A key that a condition or a callback notifies is handled after the present
    one, and a key that is notified in the middle of its own sweep is swept once more. Keys whose
    conditions notify one another without end are left out, and the others are swept: there have
    been that many passes of one key in vain, and that many in a row which brought each other about.
    """

    __slots__ = (
        "_batch",
        "_core",
        "_depth",
        "_in_vain",
        "_loop",
        "_posted",
        "_rest",
        "_round_ms",
        "_sweeping",
        "_sweeps",
        "_told_of_loop",
        "_turn",
    )

    def __init__(self, core: PurgatoryCore, loop: asyncio.AbstractEventLoop, batch: int) -> None:
        self._core = core
        self._loop = loop
        self._batch = batch
        self._sweeps: dict[Hashable, Sweep] = {}
        # The sweeps whose turn is now, and those that wait for the loop's next round.
        self._turn: deque[Sweep] = deque()
        self._rest: deque[Sweep] = deque()
        self._sweeping = False
        # That of the pass whose operations are tried now; 0 where that is no pass.
        self._depth = 0
        # The passes in a row in which nothing ended, by the keys that sweeps notified.
        self._in_vain: dict[Hashable, int] = {}
        self._told_of_loop = False
        # When the loop was last asked for a next round.
        self._round_ms = 0
        # The keys that other threads have notified and the loop has not come to: when it was asked.
        self._posted: dict[Hashable, int] = {}

    def notify(self, key: Hashable) -> None:
        """Try the operations that watch `key`, or leave them to the loop's next rounds."""
        depth = self._depth + 1 if self._sweeping else 1
        sweep = self._sweeps.get(key)
        if sweep is not None:
            sweep.notify(depth)
            if self._rest and not self._is_trusted(self._round_ms):
                self._ask_for_round()
            self._core._raise_interrupt()
            return
        count = self._core.num_watchers(key)
        if not count:
            return
        if self._sweeping or count > self._batch:
            self._plan(key, depth)
            if not self._sweeping:
                self._run(self._batch)
            return
        # The usual case, without a sweep to remember the position in the list.
        self._sweeping = True
        self._depth = 0
        try:
            self._core.check_and_complete(key)
        except BaseException:
            self._sweeping = False
            self._plan(key, 1)
            self._put_off()
            raise
        self._sweeping = False
        if self._turn:
            self._run(self._batch - count)

    def post(self, key: Hashable) -> None:
        """Have the loop notify `key` soon, from any thread; once for all calls until then.

        Where a signal handler raises an exit in the loop's clock, the key is posted all the same.
        """
        asked_ms = self._posted.get(key)
        # The loop removes the key before it looks, so it sees what changed before this call.
        if asked_ms is None or not self._is_trusted(asked_ms):
            self._ask_to_notify(key)
        self._core._raise_interrupt()

    def _ask_to_notify(self, key: Hashable) -> None:
        try:
            self._posted[key] = self._now_ms()
            self._loop.call_soon_threadsafe(self._notify_posted, key)
        except BaseException as error:
            is_closed = self._loop.is_closed()
            if is_closed:
                self._posted.pop(key, None)
            elif key in self._posted:
                # After a signal handler's exception the loop may have been asked, or not: if it
                # was, it finds the key. The next call asks again.
                self._posted[key] = _UNTRUSTED_MS
            if not is_closed or not isinstance(error, RuntimeError):
                raise

    def _notify_posted(self, key: Hashable) -> None:
        # A key that was posted twice, as the loop was busy for long, is notified once.
        if self._posted.pop(key, None) is not None and not self._core.is_closed:
            self.notify(key)

    def _now_ms(self) -> int:
        # What the clock raises is put off until the loop knows what it has to do.
        return self._core._now_or(0)

    def _is_trusted(self, asked_ms: int) -> bool:
        """Return True if the loop was asked so lately that it only has not come to it yet."""
        return self._now_ms() - asked_ms <= TRUSTED_MS

    def clear(self) -> None:
        """Forget all sweeps, when the purgatory is closed; one that runs ends by itself."""
        self._sweeps.clear()
        self._forget_loops()
        self._rest.clear()
        self._posted.clear()

    def _plan(self, key: Hashable, depth: int) -> None:
        sweep = Sweep(self._core, key, depth)
        self._turn.append(sweep)
        self._sweeps[key] = sweep

    def _run(self, left: int) -> None:
        """Try the operations of the keys in turn, until `left` operations have been tried."""
        turn = self._turn
        failure: BaseException | None = None
        self._sweeping = True
        try:
            while turn and left > 0 and not self._core.is_closed:
                sweep = turn[0]
                depth = sweep.depth
                if depth >= MOST_IN_VAIN and self._in_vain.get(sweep.key, 0) >= MOST_IN_VAIN:
                    sweep.done = True
                else:
                    self._depth = depth
                    left -= sweep.step(left)
                    if not sweep.in_vain:
                        self._forget_loops()
                    elif not sweep.begun and self._loops(sweep.key, depth):
                        if not self._told_of_loop:  # The first key of them is named.
                            failure = loop_error(sweep.key)
                            self._told_of_loop = True
                        sweep.done = True
                if sweep.done:
                    self._sweeps.pop(sweep.key, None)
                    turn.popleft()
        finally:
            self._sweeping = False
            if turn:
                self._put_off()
            elif not self._rest:
                self._forget_loops()
        try:
            self._core._raise_interrupt()
        finally:
            if failure is not None:
                raise failure

    def _forget_loops(self) -> None:
        self._in_vain.clear()
        self._told_of_loop = False

    def _loops(self, key: Hashable, depth: int) -> bool:
        """Count a pass in vain; True if there were so many of them that they will not end."""
        times = self._in_vain.get(key, 0) + 1
        self._in_vain[key] = times
        return times >= MOST_IN_VAIN and depth >= MOST_IN_VAIN

    def _put_off(self) -> None:
        asked = bool(self._rest) and self._is_trusted(self._round_ms)
        if not self._core.is_closed:
            self._rest.extend(self._turn)
        self._turn.clear()
        if self._rest and not asked:
            self._ask_for_round()

    def _ask_for_round(self) -> None:
        """Have the loop call `_next_round`; also where a signal handler raises, and then raise."""
        failure: BaseException | None = None
        asked = False
        attempts = MAX_ATTEMPTS
        while attempts and not asked:
            attempts -= 1
            try:
                self._loop.call_soon(self._next_round)
                self._round_ms = self._now_ms()
                asked = True
            except BaseException as interruption:
                # A round too many does nothing.
                failure = interruption
        if failure is not None and not (asked and issubclass(type(failure), MemoryError)):
            raise failure

    def _next_round(self) -> None:
        self._turn.extend(self._rest)
        self._rest.clear()
        try:
            self._run(self._batch)
        except Exception as error:
            self._core._errors.tell(error)  # The loop logs it, as nobody has called this.
            raise
