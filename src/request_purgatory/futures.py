"""Delayed futures: operations that are ready to use, for those who want no subclass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Protocol, cast

from request_purgatory.errors import InvalidArgumentError, PurgatoryClosedError
from request_purgatory.held import HeldCondition, timeout_to_ms
from request_purgatory.operation import DelayedOperation

if TYPE_CHECKING:
    from request_purgatory.purgatory import DelayedOperationPurgatory


def _purgatory_of(operation: DelayedOperation) -> DelayedOperationPurgatory | None:
    # An operation knows only what any keeper of operations has to have; these two are kept by nothing but purgatories.
    return cast("DelayedOperationPurgatory | None", operation._purgatory)


class HeldRequest(HeldCondition):
    """What `DelayedOperationPurgatory.hold` puts into the purgatory: a condition, and a future for its value."""

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
        # Of a cancelled future this tells `concurrent.futures.wait` and `as_completed`, which `cancel` alone does not.
        if self.future.set_running_or_notify_cancel() and purgatory is not None:
            self.future.set_exception(PurgatoryClosedError(purgatory.name))

    def _disown(self) -> None:
        """Cancel the child's copy of the future, of which nobody is told: those who waited are the parent's."""
        super()._disown()
        # `Future` has no public way to do that with a fresh lock; it has consisted of these since Python 3.2.
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
    """A future of `concurrent.futures` or `asyncio`, or anything with these two."""

    def done(self) -> bool: ...
    def add_done_callback(self, callback: Callable[[Any], object], /) -> object: ...


class DelayedFutures(DelayedOperation):
    """Waits until enough of several futures or callables are done: all of them, or a quorum.

    A future is done when it has a result, an exception, or was cancelled; a callable when it returns a true value. Futures
    bring their own events; callables are tried when one of the given keys is checked.

    >>> from request_purgatory import DelayedOperationPurgatory
    >>> acks = [Future() for replica in range(3)]
    >>> with DelayedOperationPurgatory("writes") as purgatory:
    ...     write = DelayedFutures(500, acks, lambda write: print(write.outcome, len(write.missing)), needed=2)
    ...     write.watch_in(purgatory)
    ...     acks[0].set_result("replica 0")
    ...     acks[2].set_result("replica 2")
    False
    completed 1
    """

    __slots__ = ("_needed", "_on_done", "_waits")

    def __init__(
        self,
        delay_ms: int,
        waits: Sequence[FutureLike | Callable[[], object]],
        on_done: Callable[[DelayedFutures], object],
        *,
        needed: int | None = None,
    ) -> None:
        """An operation for `waits`.

        Args:
            delay_ms: whole milliseconds until it expires.
            waits: futures and callables, in any mix.
            on_done: called once with this operation when enough are done, or when time ran out: see `outcome` and `missing`.
            needed: how many must be done; all unless given.

        Raises:
            InvalidArgumentError: `needed` is negative or more than there are.
        """
        super().__init__(delay_ms)
        self._waits = tuple(waits)
        self._on_done = on_done
        self._needed = len(self._waits) if needed is None else needed
        if not 0 <= self._needed <= len(self._waits):
            raise InvalidArgumentError("needed", f"from 0 to {len(self._waits)}, the number of waits", needed)

    def watch_in(self, purgatory: DelayedOperationPurgatory, keys: Iterable[Hashable] = ()) -> bool:
        """Put the operation into a purgatory, watched under itself and `keys`; True if it completed at once.

        Raises:
            InvalidArgumentError: there are callables but no key, so that nothing would ever try them; or `keys` is a string.
            PurgatoryClosedError: the purgatory has been shut down.
        """
        if isinstance(keys, (str, bytes)):
            raise InvalidArgumentError("keys", "a list of keys, not one string", keys)
        watch_keys: list[Hashable] = [self, *keys]
        futures = [wait for wait in self._waits if not callable(wait)]
        if len(watch_keys) == 1 and len(futures) < len(self._waits):
            raise InvalidArgumentError("keys", "given where callables are waited for, as nothing else tries them", keys)
        completed = purgatory.try_complete_else_watch(self, watch_keys)
        if not completed:
            for future in futures:
                future.add_done_callback(self._future_done)
        return completed

    def _future_done(self, _future: Any) -> None:
        purgatory = _purgatory_of(self)
        if purgatory is None or self.is_completed:
            return
        purgatory.check_and_complete(self)

    @property
    def missing(self) -> list[FutureLike | Callable[[], object]]:
        """Those that are not done now."""
        return [wait for wait in self._waits if not (wait() if callable(wait) else wait.done())]

    def try_complete(self) -> bool:
        if len(self._waits) - len(self.missing) < self._needed:
            return False
        return self.force_complete()

    def on_complete(self) -> None:
        self._on_done(self)
