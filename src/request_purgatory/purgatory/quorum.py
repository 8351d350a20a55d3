"""Delayed futures: operations that are ready to use, for those who want no subclass."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from contextvars import Context
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError
from request_purgatory.purgatory.hold import HeldCondition, timeout_to_ms
from request_purgatory.purgatory.operation import DelayedOperation

if TYPE_CHECKING:
    from request_purgatory.purgatory.purgatory import DelayedOperationPurgatory


def _purgatory_of(operation: DelayedOperation) -> DelayedOperationPurgatory | None:
    # An operation knows only what any keeper of operations has to have; these two are kept by
    # nothing but purgatories.
    return cast("DelayedOperationPurgatory | None", operation._purgatory)


class HeldRequest(HeldCondition):
    """What `DelayedOperationPurgatory.hold` puts into the purgatory.

    A condition, and a future for its value.
    """

    __slots__ = ("future",)

    def __init__(self, until: Callable[[], object], timeout: float) -> None:
        super().__init__(until, timeout_to_ms(timeout))
        self.future: Future[Any] = Future()

    def on_complete(self) -> None:
        if self.future.set_running_or_notify_cancel():
            self._answer(self.future)

    def on_cancellation(self) -> None:
        purgatory = _purgatory_of(self)
        if purgatory is None or not purgatory.is_closed:
            self.future.cancel()
        # Of a cancelled future this tells `concurrent.futures.wait` and `as_completed`, which
        # `cancel` alone does not.
        if self.future.set_running_or_notify_cancel() and purgatory is not None:
            self.future.set_exception(PurgatoryClosedError(purgatory.name))

    def _disown(self) -> None:
        """Cancel the child's copy of the future, of which nobody is told.

        Those who waited are the parent's.
        """
        super()._disown()
        # `Future` has no public way to do that with a fresh lock; it has consisted of these since
        # Python 3.2.
        future: Any = self.future
        future._condition = threading.Condition()
        future._waiters = []
        future._done_callbacks = []
        future.cancel()

    def future_done(self, future: Future[Any]) -> None:
        """The future's own callback: one that its owner cancelled leaves the purgatory."""
        if future.cancelled():
            self.cancel()


class FutureLike(Protocol):
    """A future of `concurrent.futures` or `asyncio`, or anything with these four methods."""

    def done(self) -> bool: ...
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...


class _Listener:
    """The one callback of a future, shared by all operations that wait for that future.

    A future of `concurrent.futures` never forgets a callback. With one for each operation, a
    long-lived future would collect callbacks for ever. So operations enter and leave the listener
    instead, and only the future keeps the listener alive.

    It has no lock: futures end on any thread, inside signal handlers and finalizers too. Each step
    is one atomic access of a dict. An operation enters before it looks at its futures, and a future
    is done before it calls. So an operation that enters too late for the call sees a future that is
    done.
    """

    __slots__ = ("__weakref__", "_future", "_operations")

    def __init__(self, future_ref: weakref.ref[FutureLike] | None) -> None:
        self._future = future_ref
        self._operations: dict[DelayedFutures, None] = {}

    @classmethod
    def of(cls, future: FutureLike) -> _Listener:
        """Return the listener of `future`, after adding it as a callback if there is none yet.

        Two threads may add one each. Both are called, and later operations share one of them.
        """
        key = id(future)
        ref = _listeners.get(key)
        listener = ref() if ref is not None else None
        # An id may have been another future's, whose listener is still alive.
        if listener is None or listener._future is None or listener._future() is not future:
            try:
                listener = cls(weakref.ref(future))
            except TypeError:
                listener = cls(None)  # Shared with nobody, as nothing would say whose it is.
            # In an empty context: asyncio keeps the caller's as long as the callback, for all who
            # share it.
            Context().run(future.add_done_callback, listener)
            # Called with the dead reference, `pop` takes that for the default value.
            _listeners[key] = weakref.ref(listener, partial(_listeners.pop, key))
        return listener

    def enter(self, operation: DelayedFutures) -> None:
        """Try `operation` when the future is done."""
        self._operations[operation] = None

    def leave(self, operation: DelayedFutures) -> None:
        """Forget `operation`; no-op if it is not here."""
        self._operations.pop(operation, None)

    def __call__(self, _future: object) -> None:
        """Try the operations, in the order in which they came."""
        leaving: BaseException | None = None
        for operation in list(self._operations):
            self.leave(operation)
            try:
                operation._future_done()
            except (
                BaseException
            ) as error:  # KeyboardInterrupt or SystemExit, of an operation's own code
                leaving = error  # The others are tried first: nothing else will try them.
        if leaving is not None:
            raise leaving


# By the futures' ids. Weak: a listener refers to operations, and they to the future.
_listeners: dict[int, weakref.ref[_Listener]] = {}


class DelayedFutures(DelayedOperation):
    """Waits for several futures or callables: for all of them, for some, or for a quorum of successes.

    A future *succeeds* with a result. It *fails* with an exception, or when it is cancelled. A
    callable succeeds when it returns a true value, and never fails. Futures bring their own events;
    callables are tried when one of the given keys is checked.

    There are three ways to wait:

    - for all to be done, whether they succeed or fail, as `concurrent.futures.wait` does;
    - with `needed`, for so many to be done, whether they succeed or fail;
    - with `quorum`, for so many to succeed. The wait ends as "failed" as soon as too many have
      failed for that.

    `on_done` is called exactly once, however the operation ends: see `outcome`. It finds the
    futures in `succeeded`, `failed` and `missing`, which do not change after the end.

    >>> from request_purgatory import DelayedOperationPurgatory
    >>> def answer(write):
    ...     print(write.outcome, len(write.succeeded), len(write.failed), len(write.missing))
    >>> with DelayedOperationPurgatory("writes") as purgatory:
    ...     for error in (None, OSError("disk full")):
    ...         acks = [Future() for replica in range(3)]
    ...         pending = DelayedFutures(500, acks, answer, quorum=2).watch_in(purgatory)
    ...         acks[0].set_exception(OSError("disk full"))
    ...         acks[1].set_result("replica 1")
    ...         acks[2].set_exception(error) if error else acks[2].set_result("replica 2")
    completed 2 1 0
    failed 1 2 0
    """

    __slots__ = (
        "_final",
        "_listeners",
        "_needed",
        "_on_done",
        "_out_of_reach",
        "_quorum",
        "_seen",
        "_waits",
    )

    def __init__(
        self,
        delay_ms: int,
        waits: Sequence[FutureLike | Callable[[], object]],
        on_done: Callable[[DelayedFutures], object],
        *,
        needed: int | None = None,
        quorum: int | None = None,
    ) -> None:
        """Make an operation for `waits`.

        Args:
            delay_ms: whole milliseconds until it expires.
            waits: futures and callables, in any mix.
            on_done: called once with this operation when it has ended, on the thread that ended it.
            needed: how many must be done, whether they succeed or fail; all unless given.
            quorum: how many must succeed.

        Raises:
            InvalidArgumentError: `needed` or `quorum` is negative or more than there are waits, or
                both are given.
        """
        super().__init__(delay_ms)
        self._waits = tuple(waits)
        self._on_done = on_done
        self._needed = len(self._waits) if needed is None else needed
        self._quorum = quorum
        # Which waits were done at the last try, and at the end. Only tries call the callables.
        self._seen = [False] * len(self._waits)
        self._final: list[bool] | None = None
        self._out_of_reach = False
        self._listeners: list[_Listener] = []
        if needed is not None and quorum is not None:
            raise InvalidArgumentError("quorum", "left out where needed is given", quorum)
        for name, number in (("needed", self._needed), ("quorum", quorum)):
            if number is not None and not 0 <= number <= len(self._waits):
                raise InvalidArgumentError(
                    name, f"from 0 to {len(self._waits)}, the number of waits", number
                )

    def watch_in(self, purgatory: DelayedOperationPurgatory, keys: Iterable[Hashable] = ()) -> bool:
        """Put the operation into a purgatory, watched under itself and `keys`.

        Call it on the event loop of the futures if they are asyncio's. Where it raises, `on_done`
        has not been called unless the error is its own.

        Args:
            purgatory: where the operation waits.
            keys: the watch keys whose checks try the callables.

        Returns:
            True if the operation ended at once because enough are done, or too many have failed.

        Raises:
            InvalidArgumentError: there are callables but no key, so that nothing would ever try
                them; or `keys` is a string.
            PurgatoryClosedError: the purgatory has been shut down.
        """
        if isinstance(keys, (str, bytes)):
            raise InvalidArgumentError("keys", "a list of keys, not one string", keys)
        watch_keys: list[Hashable] = [self, *keys]
        futures = [wait for wait in self._waits if not callable(wait)]
        if len(watch_keys) == 1 and len(futures) < len(self._waits):
            raise InvalidArgumentError(
                "keys", "given where callables are waited for, as nothing else tries them", keys
            )
        try:
            # First listen, then try: a future that is done between the two is seen by the try.
            for future in futures:
                if not future.done():
                    listener = _Listener.of(future)
                    self._listeners.append(listener)
                    listener.enter(self)
            return purgatory.try_complete_else_watch(self, watch_keys)
        finally:
            # The purgatory refused it, or another thread ended it while it entered the listeners.
            if self._purgatory is None or self.is_completed:
                self._detach()

    def _detach(self) -> None:
        """Leave the listeners of all futures."""
        for listener in self._listeners:
            listener.leave(self)

    def _future_done(self) -> None:
        """Try the operation after a future's end."""
        purgatory = _purgatory_of(self)
        if (
            purgatory is not None
        ):  # Otherwise it is on its way in, and the first try is yet to come.
            purgatory.check_and_complete(self)

    @property
    def outcome(self) -> str | None:
        """How the operation ended; None while it is pending.

        - "completed": enough are done, the quorum has succeeded, or `force_complete` was called;
        - "failed": too many have failed for the quorum;
        - "expired": time ran out first;
        - "cancelled": it was cancelled, or the purgatory was shut down.

        The purgatory's metrics count "failed" as completed, since an event ended it.
        """
        outcome = super().outcome
        return "failed" if outcome == "completed" and self._out_of_reach else outcome

    @property
    def succeeded(self) -> list[FutureLike | Callable[[], object]]:
        """Those that have succeeded: now, or when the operation ended. In the order of `waits`."""
        return [wait for wait in self._done_waits() if _has_succeeded(wait)]

    @property
    def failed(self) -> list[FutureLike | Callable[[], object]]:
        """The futures that raised or were cancelled: by now, or when the operation ended."""
        return [wait for wait in self._done_waits() if not _has_succeeded(wait)]

    @property
    def missing(self) -> list[FutureLike | Callable[[], object]]:
        """Those that are not done: now, or when the operation ended.

        A callable counts as in the last try.
        """
        return [wait for wait, done in zip(self._waits, self._look(), strict=True) if not done]

    def _done_waits(self) -> list[FutureLike | Callable[[], object]]:
        return [wait for wait, done in zip(self._waits, self._look(), strict=True) if done]

    def _look(self) -> list[bool]:
        """Return which waits were done at the end, or are now; without a call of the callables."""
        if self._final is not None:
            return self._final
        return [
            seen or (not callable(wait) and wait.done())
            for wait, seen in zip(self._waits, self._seen, strict=True)
        ]

    def try_complete(self) -> bool:
        self._seen = seen = [
            bool(wait()) if callable(wait) else seen or wait.done()
            for wait, seen in zip(self._waits, self._seen, strict=True)
        ]
        done = sum(seen)
        if self._quorum is None:
            return done >= self._needed and self.force_complete()
        succeeded = sum(
            _has_succeeded(wait) for wait, is_done in zip(self._waits, seen, strict=True) if is_done
        )
        if succeeded < self._quorum:
            if len(self._waits) - (done - succeeded) >= self._quorum:
                return False
            self._out_of_reach = True
        return self.force_complete()

    def on_complete(self) -> None:
        self._finish()

    def on_cancellation(self) -> None:
        self._finish()

    def _disown(self) -> None:
        super()._disown()
        self._detach()

    def _finish(self) -> None:
        self._detach()
        self._final = self._look()
        self._on_done(self)


def _has_succeeded(wait: FutureLike | Callable[[], object]) -> bool:
    """Return whether a wait that is done has succeeded."""
    return callable(wait) or not (wait.cancelled() or wait.exception() is not None)
