"""The future of a request that is held on threads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from types import TracebackType
from typing import Any, TypeVar, cast

from request_purgatory._native import primitives
from request_purgatory._native.failsafe import log_contained
from request_purgatory.errors import InvalidArgumentError, type_name
from request_purgatory.purgatory.hold import MOST_TRIES, discard, operation_name, wrap_error
from request_purgatory.purgatory.operation import DelayedOperation

T = TypeVar("T")

#: That of `concurrent.futures`, which logs what the callbacks of a future raise.
logger = logging.getLogger("concurrent.futures")


#: What `_change` returns where the condition is needed.
_SEEN = -1


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

    # The fields of `Future` since Python 3.2. Its condition and its lists are made for the first
    # who asks, as most futures end before that.
    __slots__ = (
        "_exception",
        "_own_callbacks",
        "_own_condition",
        "_own_waiters",
        "_result",
        "_state",
        "operation",
    )

    operation: DelayedOperation
    _state: str
    _result: T | None
    _exception: BaseException | None
    _own_condition: threading.Condition | None
    _own_waiters: list[Any] | None
    _own_callbacks: list[Callable[[Future[T]], object]] | None
    # The waiters of `concurrent.futures.wait` and `as_completed` that have to be told of the end,
    # and those that know of it.
    _to_tell: Sequence[Any] = ()
    _told: list[Any] | None = None

    def __init__(self) -> None:
        self._state = PENDING
        self._result = None
        self._exception = None
        self._own_condition = None
        self._own_waiters = None
        self._own_callbacks = None

    @property
    def _condition(self) -> threading.Condition:
        made = self._own_condition
        if made is None:
            made = _keep_first(self, self.operation, "_own_condition", _Condition())
        return made

    @_condition.setter
    def _condition(self, condition: threading.Condition) -> None:
        self._own_condition = condition

    @property
    def _waiters(self) -> list[Any]:  # type: ignore[override]
        # As all that wait, under the condition.
        if self._own_waiters is None:
            self._own_waiters = []
        return self._own_waiters

    @property
    def _done_callbacks(self) -> list[Callable[[Future[T]], object]]:
        made = self._own_callbacks
        if made is None:
            made = _keep_first(self, self.operation, "_own_callbacks", [])
        return made

    def __repr__(self) -> str:
        # Without the condition, which would be made for it.
        operation = getattr(self, "operation", None)
        name = "" if operation is None else f" {operation_name(operation)!r}"
        state = self._state.lower()
        if self._state == FINISHED:
            error = self._exception
            state += (
                f" returned {type_name(self._result)}"
                if error is None
                else f" raised {type_name(error)}"
            )
        return f"<{type(self).__name__}{name} at {id(self):#x} state={state}>"

    def done(self) -> bool:
        return self._state not in (PENDING, RUNNING)

    def cancelled(self) -> bool:
        return self._state in (CANCELLED, CANCELLED_AND_NOTIFIED)

    def result(self, timeout: float | None = None) -> T:
        if self._state == FINISHED and self._exception is None:
            return cast("T", self._result)
        return Future.result(self, timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if self._state == FINISHED:
            return self._exception
        return Future.exception(self, timeout)

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
                if _change(self, self.operation, CANCELLED, None, None, False) == _SEEN:
                    self._condition.__enter__()
                    try:
                        _change(self, self.operation, CANCELLED, None, None, True)
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
        self._done_callbacks.append(fn)
        if _has_ended(self, self.operation):
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
        changed = _change(self, self.operation, FINISHED, value, error, False)
        if changed == _SEEN:
            self._condition.__enter__()
            try:
                # Who comes later finds the future done, and does not count on being told. The list
                # is made first: where it finds no memory, the future is as it was.
                if self._own_waiters and self._state != CANCELLED_AND_NOTIFIED:
                    self._to_tell = self._own_waiters.copy()
                changed = _change(self, self.operation, FINISHED, value, error, True)
            finally:
                self._condition.__exit__(None, None, None)
        return changed == 1

    def _tell(self, calls_back: bool) -> None:
        """Tell all who wait of the end, each once, and then raise the last of what came between.

        With `calls_back`, call the callbacks that are left, too.
        """
        leaving: BaseException | None = None
        tries = 0
        while True:
            try:
                if self._own_condition is not None:
                    self._own_condition.__enter__()
                    try:
                        for waiter in self._to_tell:
                            self._tell_waiter(waiter, tries > 0)
                        self._own_condition.notify_all()
                    finally:
                        # It makes no arguments, which would need memory.
                        self._own_condition.release()
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
            lock = waiter.event._cond
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
        while self._own_callbacks:
            callback = None
            try:
                callback = self._own_callbacks.pop(0)
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
        self._own_condition = None  # Another thread may have held it.
        self._own_waiters = None
        self._own_callbacks = None
        if self._state in (PENDING, CANCELLED):
            # What `concurrent.futures.wait` counts as done.
            self._state = CANCELLED_AND_NOTIFIED


def _keep_first(future: HoldFuture[Any], operation: DelayedOperation, name: str, new: Any) -> Any:
    """Give the future a part of its own, unless another thread has; return what it has."""
    operation._lock_fields()
    kept = getattr(future, name)
    if kept is None:
        kept = new
        setattr(future, name, new)
    operation._unlock_fields()
    return kept


def _has_ended(future: HoldFuture[Any], operation: DelayedOperation) -> bool:
    """Return False if what was put into the future before is seen by its end."""
    operation._lock_fields()
    state = future._state
    operation._unlock_fields()
    return state not in (PENDING, RUNNING)


def _change(
    future: HoldFuture[Any],
    operation: DelayedOperation,
    state: str,
    value: Any,
    error: BaseException | None,
    held: bool,
) -> int:
    """Change the state of a future that is not done, or that was cancelled and not notified.

    Returns:
        1, or 0 if it had ended. _SEEN if somebody has asked for the condition, which the
        caller has to hold then (`held`). Who asks later finds the change.
    """
    changed = 0
    operation._lock_fields()
    if not held and (future._own_condition is not None or future._own_waiters is not None):
        changed = _SEEN
    elif future._state == PENDING or (future._state == RUNNING and state == FINISHED):
        future._result = value
        future._exception = error
        future._state = state
        changed = 1
    elif future._state == CANCELLED and state == FINISHED:
        future._state = CANCELLED_AND_NOTIFIED  # `cancel` tells all who wait.
    operation._unlock_fields()
    return changed
