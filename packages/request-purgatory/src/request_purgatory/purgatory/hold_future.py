"""The future of a request that is held on threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from types import TracebackType
from typing import Any, TypeVar

from request_purgatory._native import primitives
from request_purgatory._native.failsafe import log_contained
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.purgatory.hold import MOST_TRIES, discard, wrap_error
from request_purgatory.purgatory.operation import DelayedOperation

T = TypeVar("T")

#: That of `concurrent.futures`, which logs what the callbacks of a future raise.
logger = logging.getLogger("concurrent.futures")


class _Condition(threading.Condition):
    """The condition of a future, whose lock no signal handler's exception leaves held.

    Compiled, nothing comes between these methods and those of the lock.
    """

    _lock: threading.RLock

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()


class HoldFuture(Future[T]):
    """A future of threads whose end takes its operation out of the purgatory.

    Attributes:
        operation: What ends the future.
    """

    operation: DelayedOperation
    # Those of `Future`, since Python 3.2.
    _condition: threading.Condition
    _state: str
    _result: T | None
    _exception: BaseException | None
    _waiters: list[Any]
    _done_callbacks: list[Callable[[Future[T]], object]]
    # The waiters of `concurrent.futures.wait` and `as_completed` that have to be told of the end,
    # and those that know of it.
    _to_tell: Sequence[Any] = ()
    _told: list[Any] | None = None

    def __init__(self) -> None:
        # As that of `Future`, with another condition.
        self._condition = _Condition()
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters = []
        self._done_callbacks = []

    def cancel(self) -> bool:
        """Cancel the future and its operation; after a MemoryError it is pending as before.

        Raises:
            BaseException: An exit out of a done callback, or what a signal handler raised. The
                operation has left the purgatory unless the future is pending.
        """
        borrowed = primitives.borrow_levels()
        try:
            # Not that of `Future`, which may be interrupted before its callbacks are called.
            try:
                self._condition.__enter__()
                try:
                    if self._state == PENDING:
                        self._state = CANCELLED
                finally:
                    self._condition.release()  # Makes no arguments, which would need memory.
            finally:
                if self._state in (CANCELLED, CANCELLED_AND_NOTIFIED):
                    try:
                        # First: a callback finds the purgatory without the operation.
                        discard(self.operation)
                    finally:
                        self._tell(True)
        finally:
            primitives.return_levels(borrowed)
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def set_result(self, result: T) -> None:
        """End the future by hand, and cancel its operation; InvalidStateError if it is done."""
        self._set(result, None)

    def set_exception(self, exception: BaseException | None) -> None:
        """End the future by hand, as `set_result`."""
        self._set(None, exception)

    def add_done_callback(self, fn: Callable[[Future[T]], object]) -> None:
        """Have a function called with the future once it is done; at once if it is.

        What it raises is logged, as by any future, and a ManualPurgatory raises it.
        """
        if not callable(fn):
            raise InvalidArgumentError("fn", "callable", fn)
        self._condition.__enter__()
        try:
            self._done_callbacks.append(fn)
            done = self._state not in (PENDING, RUNNING)
        finally:
            self._condition.release()
        if done:
            self._invoke_callbacks()

    def _set(self, value: T | None, error: BaseException | None) -> None:
        if self._state not in (PENDING, RUNNING):
            raise InvalidStateError(f"{self._state}: {self!r}")
        borrowed = primitives.borrow_levels()
        try:
            try:
                self.answer(value, error)
            finally:
                discard(self.operation)
        finally:
            primitives.return_levels(borrowed)

    def answer(self, value: Any, error: BaseException | None) -> None:
        """End the future; no-op if it was done. It has ended, too, after a MemoryError.

        Raises:
            MemoryError: Not all who wait for it could be told.
            BaseException: An exit out of a done callback, or what a signal handler raised. All who
                wait for it were told.
        """
        leaving: BaseException | None = None
        ended = False
        tries = 0
        while True:
            try:
                ended = self._end(value, error)
                break
            except BaseException as failure:
                leaving = failure
                tries += 1
                if tries == MOST_TRIES:
                    if self._state in (PENDING, RUNNING):
                        # A later `result` has it. Threads that wait already, and callbacks, have
                        # not.
                        self._result = value
                        self._exception = error
                        self._state = FINISHED
                    raise
        if ended or tries:  # Interpreted, a call that was interrupted may have ended it.
            self._tell(self._state == FINISHED)
        if leaving is not None and not issubclass(type(leaving), MemoryError):
            raise leaving

    def _end(self, value: Any, error: BaseException | None) -> bool:
        """End the future, or note that the purgatory knows of its cancellation; False if done."""
        if error is not None and issubclass(type(error), (StopIteration, CancelledError)):
            error = wrap_error(error)
        self._condition.__enter__()
        try:
            # Who comes later finds the future done, and does not count on being told. The list is
            # made first: where it finds no memory, the future is as it was.
            if self._waiters and self._state != CANCELLED_AND_NOTIFIED:
                self._to_tell = self._waiters.copy()
            if self._state in (PENDING, RUNNING):
                self._result = value
                self._exception = error
                self._state = FINISHED
            elif self._state == CANCELLED:
                self._state = CANCELLED_AND_NOTIFIED
            else:
                return False
        finally:
            self._condition.__exit__(None, None, None)
        return True

    def _tell(self, calls_back: bool) -> None:
        """Tell all who wait of the end, each once, and then raise the last of what came between.

        With `calls_back`, call the callbacks that are left, too.
        """
        leaving: BaseException | None = None
        tries = 0
        while True:
            try:
                self._condition.__enter__()
                try:
                    for waiter in self._to_tell:
                        self._tell_waiter(waiter, tries > 0)
                    self._condition.notify_all()
                finally:
                    self._condition.release()  # Makes no arguments, which would need memory.
                if calls_back:
                    self._invoke_callbacks()
                break
            except BaseException as failure:
                leaving = failure
                tries += 1
                if tries == MOST_TRIES:
                    raise
        if leaving is not None and not issubclass(type(leaving), MemoryError):
            raise leaving

    def _tell_waiter(self, waiter: Any, again: bool) -> None:
        """Tell a call of `concurrent.futures.wait` or `as_completed`, which counts what it is told.

        `again`: an earlier call of this method may have been interrupted.
        """
        if self._state == CANCELLED or (self._told is not None and waiter in self._told):
            return
        if again and self in waiter.finished_futures:
            # It was interrupted behind that. What interrupts `Condition.__enter__` leaves the lock
            # of the event held, in any program: then nothing wakes the call.
            lock = waiter.event._cond  # noqa: SLF001 - there is no other way to look
            if lock.acquire(timeout=0.1):
                lock.release()
                waiter.event.set()
        elif self._state == CANCELLED_AND_NOTIFIED:
            waiter.add_cancelled(self)
        elif self._exception is not None:
            waiter.add_exception(self)
        else:
            waiter.add_result(self)
        if self._told is None:
            self._told = []
        self._told.append(waiter)

    def _invoke_callbacks(self) -> None:
        """Call each callback once, and then raise the last that is no Exception of one of them."""
        leaving: BaseException | None = None
        while self._done_callbacks:
            callback = None
            try:
                callback = self._done_callbacks.pop(0)
            except IndexError:
                pass  # Another thread has called it.
            try:
                try:
                    if callback is not None:
                        callback(self)
                except Exception as error:
                    errors = getattr(self.operation._purgatory, "_errors", None)
                    if errors is not None:
                        errors.tell(error)
                    log_contained(logger, error, "exception calling callback for %r", self)
            except BaseException as error:
                leaving = error
        if leaving is not None:
            raise leaving

    def disown(self) -> None:
        """Cancel a forked child's copy of the future; its callbacks are not called."""
        # `Future` has no public way to do this with a fresh lock.
        vars(self).update(_condition=_Condition(), _waiters=[], _done_callbacks=[])
        super().cancel()
