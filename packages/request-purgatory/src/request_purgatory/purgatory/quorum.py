"""The operation behind `gather`: waiting for a quorum of futures."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from request_purgatory._native import states
from request_purgatory.errors import InvalidArgumentError, PurgatoryError, whole_number
from request_purgatory.purgatory.hold import Answerable, FutureOperation
from request_purgatory.purgatory.operation import OperationHost


class FutureLike(Protocol):
    """A future of `concurrent.futures` or `asyncio`, or anything with these four methods."""

    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...


@dataclass(frozen=True, slots=True)
class Quorum:
    """What became of the futures given to `gather`, each in the order in which it was given.

    Attributes:
        succeeded: The futures that have a result.
        failed: The futures that raised or were cancelled.
        missing: The futures that were not done.
    """

    succeeded: tuple[FutureLike, ...]
    failed: tuple[FutureLike, ...]
    missing: tuple[FutureLike, ...]


class QuorumFailedError(PurgatoryError):
    """Too many futures have failed for the quorum.

    Attributes:
        needed: The quorum.
        quorum: What became of the futures.
    """

    def __init__(self, needed: int, quorum: Quorum) -> None:
        super().__init__(
            f"{len(quorum.failed)} futures failed and {len(quorum.succeeded)} succeeded, "
            f"so a quorum of {needed} is out of reach"
        )
        self.needed = needed
        self.quorum = quorum

    def __reduce__(self) -> tuple[type[QuorumFailedError], tuple[int, Quorum]]:
        return type(self), (self.needed, self.quorum)


class QuorumTimeoutError(PurgatoryError, TimeoutError):
    """The timeout expired before a quorum of futures had succeeded.

    Attributes:
        needed: The quorum.
        quorum: What became of the futures.
    """

    def __init__(self, needed: int, quorum: Quorum, timeout_ms: int) -> None:
        super().__init__(
            f"{len(quorum.succeeded)} of {needed} needed futures succeeded within {timeout_ms} ms"
        )
        self.needed = needed
        self.quorum = quorum
        self._timeout_ms = timeout_ms

    def __reduce__(self) -> tuple[type[QuorumTimeoutError], tuple[int, Quorum, int]]:
        return type(self), (self.needed, self.quorum, self._timeout_ms)


class _Listener:
    """The one callback of a future, shared by all operations that wait for that future.

    A future of `concurrent.futures` never forgets a callback. With one for each operation, a
    long-lived future would collect callbacks without end. So operations enter and leave the
    listener instead, and only the future keeps the listener alive.

    The listener has no lock: futures end on any thread, inside signal handlers and finalizers too.
    Each step is one atomic access of a dict. An operation enters before it looks at its futures,
    and a future is done before it calls. So an operation that enters too late for the call sees a
    future that is done. It leaves when it has ended.
    """

    __slots__ = ("__weakref__", "_operations", "future_ref")

    def __init__(self, future_ref: weakref.ref[FutureLike] | None) -> None:
        self.future_ref = future_ref
        self._operations: dict[QuorumOperation, None] = {}

    @classmethod
    def of(cls, future: FutureLike) -> _Listener:
        """Return the listener of `future`, after adding it as a callback if there is none yet.

        Two threads may add one each. Both are called, and later operations share one of them.
        """
        key = id(future)
        ref = _listeners.get(key)
        listener = ref() if ref is not None else None
        # An id may have been another future's, whose listener is still alive.
        if listener is None or listener.future_ref is None or listener.future_ref() is not future:
            try:
                listener = cls(weakref.ref(future))
            except TypeError:
                listener = cls(None)  # Not shared, as nothing would say which future it is of.
            # In an empty context: asyncio keeps the caller's as long as the callback, which all
            # operations share.
            Context().run(future.add_done_callback, listener)
            # Called with the dead reference, `pop` takes that for the default value.
            _listeners[key] = weakref.ref(listener, partial(_listeners.pop, key))
        return listener

    def enter(self, operation: QuorumOperation) -> None:
        self._operations[operation] = None

    def leave(self, operation: QuorumOperation) -> None:
        self._operations.pop(operation, None)

    def __call__(self, future: FutureLike) -> None:
        """Try the operations in the order of their arrival; raise an exit after the last one."""
        leaving: BaseException | None = None
        for operation in list(self._operations):
            try:
                operation.future_done(future)
            except BaseException as error:
                leaving = error  # The others are tried first: nothing else will try them.
                try:
                    operation.future_done(future)  # The future does not call again.
                except BaseException as second:
                    leaving = second
        if leaving is not None:
            raise leaving


# By the ids of the futures. Weak: a listener refers to operations, and they to the future.
_listeners: dict[int, weakref.ref[_Listener]] = {}


class QuorumOperation(FutureOperation):
    """Waits until a quorum of futures has succeeded, or cannot be reached; ends a future.

    A try that futures ask for looks at those that have ended since the last one, which are counted
    by their ids: n futures that end one after the other cost O(n) in all. Any other try, also one
    that finds its future counted by another thread's, looks at all futures.
    """

    __slots__ = (
        "_all_seen",
        "_failed",
        "_futures",
        "_listeners",
        "_needed",
        "_new",
        "_num_seen",
        "_succeeded",
        "_times",
    )

    def __init__(
        self,
        futures: tuple[FutureLike, ...],
        needed: int | None,
        timeout_ms: int,
        answer: Answerable,
    ) -> None:
        for future in futures:
            if not callable(getattr(future, "add_done_callback", None)):
                raise InvalidArgumentError("futures", "futures or tasks, no coroutines", future)
        self._init_answer(timeout_ms, answer)
        self._futures = futures
        self._needed = len(futures) if needed is None else whole_number("quorum", needed)
        self._listeners: list[_Listener] = []
        # How often a future was given, by its id.
        self._times: dict[int, int] = {}
        for future in futures:
            self._times[id(future)] = self._times.get(id(future), 0) + 1
        # Tries never overlap, but futures end on any thread: they are appended, and counted by the
        # next try.
        self._new: list[FutureLike] = []
        self._num_seen = 0
        self._all_seen = False
        self._succeeded: set[int] = set()
        self._failed: set[int] = set()
        if not 0 <= self._needed <= len(futures):
            raise InvalidArgumentError(
                "quorum", f"from 0 to {len(futures)}, the number of futures", needed
            )

    def watch_in(self, purgatory: OperationHost) -> None:
        """Put the operation into a purgatory, watched under itself.

        Call it on the event loop of the futures if they are asyncio's.
        """
        try:
            # First listen, then try: a future that is done between the two is seen by the try.
            for future in self._futures:
                if not future.done():
                    listener = _Listener.of(future)
                    self._listeners.append(listener)
                    listener.enter(self)
            purgatory.try_complete_else_watch(self, [self])
        finally:
            # The purgatory refused it, or another thread ended it while it entered the listeners.
            if self._purgatory is None or self.is_completed:
                self._let_go()

    def future_done(self, future: FutureLike) -> None:
        try:
            self._new.append(future)
        except MemoryError:
            self._all_seen = False
        purgatory = self._purgatory
        if purgatory is not None:  # Else the first try is still to come.
            purgatory.check_and_complete(self)

    def quorum(self) -> Quorum:
        succeeded: list[FutureLike] = []
        failed: list[FutureLike] = []
        missing: list[FutureLike] = []
        for future in self._futures:
            if not future.done():
                missing.append(future)
            elif _has_succeeded(future):
                succeeded.append(future)
            else:
                failed.append(future)
        return Quorum(tuple(succeeded), tuple(failed), tuple(missing))

    def try_complete(self) -> bool:
        """Complete if the quorum has succeeded, can no longer be reached, or a future raises.

        Raises:
            BaseException: An exit that a future raised, or what a signal handler raised.
        """
        leaving: BaseException | None = None
        try:
            decided = self._is_decided()
        except BaseException as first:
            try:
                # A signal handler raises once, and the future brings no further event. A future
                # that raises each time is no future of this gather any more.
                decided = self._is_decided()
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as second:
                self._error = second
                decided = True
                if issubclass(type(first), (KeyboardInterrupt, SystemExit)):
                    leaving = first
            else:
                leaving = first
        completed = decided and self.force_complete()
        if leaving is not None:
            raise leaving
        return completed

    def _is_decided(self) -> bool:
        """Return True if the quorum has succeeded, or can no longer be reached."""
        if self._num_seen == len(self._new):
            self._all_seen = False  # Whoever asks for this try knows why.
        while self._num_seen < len(self._new):
            future = self._new[self._num_seen]
            if id(future) in self._times:
                self._count(future)
            else:
                self._all_seen = False  # A future that calls back with something else than itself.
            self._num_seen += 1
        if not self._all_seen:
            # First: what another thread cannot append meanwhile, the next try looks for.
            self._all_seen = True
            try:
                for future in self._futures:
                    self._count(future)
            except BaseException:
                self._all_seen = False
                raise
        possible = len(self._futures) - self._num(self._failed)
        return not self._num(self._succeeded) < self._needed <= possible

    def _count(self, future: FutureLike) -> None:
        """Count a future that has ended, once."""
        if future.done():
            if _has_succeeded(future):
                self._succeeded.add(id(future))
            else:
                self._failed.add(id(future))

    def _num(self, ids: set[int]) -> int:
        """Return how many of the given futures have these ids."""
        if len(self._times) == len(self._futures):
            return len(ids)
        times = 0
        for number in ids:
            times += self._times[number]
        return times

    def _make_answer(self) -> BaseException | None:
        if self._state == states.CANCELLED:
            # `super()` would need memory.
            return FutureOperation._make_answer(self)  # noqa: SLF001 - what this one overrides
        if self._state == states.COMPLETED and self._error is not None:
            return self._error
        quorum = self.quorum()
        if len(quorum.succeeded) >= self._needed:
            self._value = quorum
            return None
        if self._state == states.EXPIRED:
            return QuorumTimeoutError(self._needed, quorum, self.timeout_ms)
        return QuorumFailedError(self._needed, quorum)

    def _let_go(self) -> None:
        """Leave the listeners of all futures."""
        try:
            for listener in self._listeners:
                listener.leave(self)
        except MemoryError:
            pass  # A listener goes with its future, which finds that this operation has ended.


def _has_succeeded(future: FutureLike) -> bool:
    return not (future.cancelled() or future.exception() is not None)
