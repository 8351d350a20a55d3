"""The future of a request that is held on an event loop. Compiled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, TypeAlias, TypeVar

from request_purgatory._native import loops, primitives
from request_purgatory.aio.loop_clock import is_foreign_thread
from request_purgatory.purgatory.hold import discard, operation_name, wrap_error
from request_purgatory.purgatory.operation import DelayedOperation

T = TypeVar("T")

# Those of the class that `HoldFuture` is made of. nest_asyncio replaces `asyncio.Future` by another
# one later.
_cancel = asyncio.Future.cancel
_done = asyncio.Future.done
_get_loop = asyncio.Future.get_loop
_set_result = asyncio.Future.set_result
_set_exception = asyncio.Future.set_exception

#: A future's callbacks, each with its context.
Callbacks: TypeAlias = list[tuple[Any, Context]]

#: How often a step that has to be made is tried where it raises: a signal handler may raise in each
#: of these calls, and without memory each of them fails.
MAX_ATTEMPTS = 20


class HoldFuture(asyncio.Future[T]):
    """A future whose cancellation takes its operation out of the purgatory.

    Its loop's `call_soon` may be Python code, in which a signal handler may raise. asyncio then
    drops the callbacks that it has not scheduled yet, and so a task that waits. They are scheduled
    here, and what was raised is raised after that.

    Attributes:
        operation: What ends the future.
    """

    __slots__ = ("operation",)

    operation: DelayedOperation

    def __repr__(self) -> str:
        operation = getattr(self, "operation", None)
        kind, _, state = asyncio.Future.__repr__(self).partition(" ")
        return (
            f"{kind} {state}"
            if operation is None
            else f"{kind} {operation_name(operation)!r} {state}"
        )

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the future and its operation; RuntimeError on another thread than the loop's.

        Raises:
            BaseException: A signal handler raised it; the future is cancelled, and all are told.
        """
        if self.done():
            return False
        if is_foreign_thread(self.get_loop()):
            purgatory = self.operation._purgatory
            raise RuntimeError(
                f"a future of purgatory {getattr(purgatory, 'name', None)!r} belongs to its loop's "
                "thread: call loop.call_soon_threadsafe(future.cancel) from other threads"
            )
        self._end_by_hand(_cancel, msg)
        return True

    def set_result(self, result: T) -> None:
        """End the future by hand, and cancel its operation; InvalidStateError if it is done."""
        self._end_by_hand(_set_result, result)

    def set_exception(self, exception: type | BaseException) -> None:
        """End the future by hand, as `set_result`."""
        self._end_by_hand(_set_exception, exception)

    def _end_by_hand(self, end: Callable[..., object], value: Any) -> None:
        borrowed = primitives.borrow_levels()
        try:
            callbacks: Callbacks = self._callbacks
            try:
                end(self, value)
            except BaseException:
                if self.done():
                    self._schedule(callbacks)
                raise
        finally:
            try:
                # Also where a closed loop refuses the future's callbacks, which it forgets.
                if self.done():
                    discard(self.operation)
            finally:
                primitives.return_levels(borrowed)

    def answer(self, value: Any, error: BaseException | None) -> None:
        """End the future, in the loop's next round from another thread; no-op if it has ended.

        Raises:
            BaseException: A signal handler raised it; the future ends all the same.
        """
        loop = _get_loop(self)
        if loops.runs_here(loop):
            answer_here(self, value, error)
            return
        failure: BaseException | None = None
        attempts = MAX_ATTEMPTS
        closed = False
        while attempts and not closed:
            attempts -= 1
            try:
                # Twice does no harm: a call that raises may have told the loop, or not.
                loop.call_soon_threadsafe(answer_here, self, value, error)
                attempts = 0
            except BaseException as interruption:
                failure = interruption
                closed = loop.is_closed()
        if closed:
            try:
                # It refuses the future's callbacks, too: no task is left that waits.
                answer_here(self, value, error)
            except RuntimeError:
                pass
        elif failure is not None:
            raise failure

    def _schedule(self, callbacks: Callbacks | None) -> None:
        """Schedule the callbacks, of those that the future had, that asyncio dropped at its end."""
        loop = self.get_loop()
        # A loop without this has a compiled `call_soon`, as uvloop: no handler comes between.
        ready = getattr(loop, "_ready", None)
        if callbacks is None or ready is None:
            return
        for index in range(len(callbacks)):
            callback, context = callbacks[index]
            times = 1  # A callback that was added twice is called twice.
            for earlier, _ in callbacks[:index]:
                if earlier is callback:
                    times += 1
            attempts = MAX_ATTEMPTS
            while attempts and not loop.is_closed():
                attempts -= 1
                try:
                    # A call that raised may have scheduled the callback all the same.
                    if _count_calls(ready, callback, self) < times:
                        loop.call_soon(callback, self, context=context)
                    attempts = 0
                except BaseException:
                    pass  # Who calls this raises the first error.

    def disown(self) -> None:
        """Do nothing: a forked child closes the purgatory, which ends its futures."""


def answer_here(future: HoldFuture[Any], value: Any, error: BaseException | None) -> None:
    """End a future on its loop's thread, tell all who wait, and then raise what came between.

    No-op if the future was cancelled.
    """
    failure: BaseException | None = None
    attempts = MAX_ATTEMPTS
    while attempts and not _done(future):
        attempts -= 1
        callbacks: Callbacks | None = None
        try:
            callbacks = future._callbacks
            if error is None:
                _set_result(future, value)
            elif issubclass(type(error), (StopIteration, asyncio.CancelledError)):
                _set_exception(future, wrap_error(error))
            else:
                _set_exception(future, error)
            attempts = 0
        except BaseException as interruption:
            failure = interruption
            if _done(future):
                future._schedule(callbacks)
    if failure is not None:
        raise failure


def _count_calls(ready: deque[Any], callback: object, future: object) -> int:
    """Return how often a loop with these handles is about to call a callback with a future."""
    calls = 0
    for handle in list(ready):
        # asyncio's, since Python 3.4; both None once the handle is cancelled.
        if handle._callback is callback:
            args = handle._args
            if args is not None and len(args) == 1 and args[0] is future:
                calls += 1
    return calls
