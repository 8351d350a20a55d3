"""The operation behind `hold`, for threads and for asyncio, and the future of threads."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from concurrent.futures._base import CANCELLED, CANCELLED_AND_NOTIFIED, FINISHED, PENDING, RUNNING
from datetime import timedelta
from types import CoroutineType, TracebackType
from typing import Any, Protocol, TypeVar

from request_purgatory._native import primitives, states
from request_purgatory._native.failsafe import log_contained
from request_purgatory.errors import (
    InvalidArgumentError,
    OperationCancelledError,
    PurgatoryClosedError,
    shown,
)
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.timer.task import MAX_DELAY_MS

T = TypeVar("T")

#: That of `concurrent.futures`, which logs what the callbacks of a future raise.
logger = logging.getLogger("concurrent.futures")

#: How often a step of an end is made again that a signal handler interrupts or that finds no
#: memory. No handler comes so often between two steps.
_MOST_TRIES = 100


class Answerable(Protocol):
    """The future of a held request, of threads or of asyncio.

    Attributes:
        operation: What ends the future.
    """

    operation: DelayedOperation

    def answer(self, value: Any, error: BaseException | None) -> None:
        """End the future; no-op if it was cancelled."""

    def disown(self) -> None:
        """Cancel a forked child's copy of the future; its callbacks are not called."""


def timeout_to_ms(timeout: float | timedelta | None, name: str = "timeout") -> int:
    """Return whole milliseconds, rounded up; 10,000 years for None. InvalidArgumentError."""
    if timeout is None:
        return MAX_DELAY_MS
    given = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    seconds = -1.0
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        try:
            seconds = float(given)
        except OverflowError:
            seconds = math.inf
    # Compiled, these are C numbers.
    if not 0.0 <= seconds <= primitives.MAX_DELAY_MS / 1000:
        raise InvalidArgumentError(
            name, "seconds or a timedelta, not negative and at most 10,000 years", timeout
        )
    # 2.007 * 1000 is 2007.0000000000002. Less than half a microsecond is not rounded up.
    return math.ceil(seconds * 1000 - 0.0005)


class FutureOperation(DelayedOperation):
    """An operation whose end ends a future.

    A future that is not ended would be waited for without end. So whatever is raised while the
    answer is made and handed over, by a signal handler or by code of users, is raised once the
    future has ended.

    Attributes:
        future: The future, of threads or of asyncio; None once it has ended.
    """

    __slots__ = ("_error", "_value", "future")

    def __init__(self, timeout_ms: int, future: Answerable) -> None:
        super().__init__(timeout_ms)
        self.future: Answerable | None = future
        self._value: object = None
        self._error: BaseException | None = None
        future.operation = self

    def on_complete(self) -> None:
        """End the future with the answer, or with why there is none."""
        self._end_future()

    def on_cancellation(self) -> None:
        """End the future with the reason, unless its owner cancelled it."""
        self._end_future()

    def _notify_end(self) -> None:
        try:
            if self.future is not None:
                # An override of a callback raised, or was interrupted, and did not come so far.
                self._end_future()
        finally:
            # `super()` would need memory.
            DelayedOperation._notify_end(self)

    def _end_future(self) -> None:
        """Make the answer, hand it over, forget the future, and then raise what came between."""
        future = self.future
        assert future is not None, "an operation ends once"
        error: BaseException | None
        leaving: BaseException | None = None
        try:
            error = self._make_answer()
        except BaseException as first:
            try:
                # A signal handler raises once; what is looked at may raise each time.
                error = self._make_answer()
            except BaseException as second:
                error = second
                if issubclass(type(first), (KeyboardInterrupt, SystemExit)):
                    leaving = first
            else:
                if not issubclass(type(first), MemoryError):
                    leaving = first
        value = self._value if error is None else None
        tries = 0
        while tries < _MOST_TRIES:
            try:
                self._let_go()
                future.answer(value, error)
                tries = _MOST_TRIES
            except BaseException as failure:
                # Of a future that has ended, the next call does nothing.
                leaving = failure
                tries += 1
        self.future = None
        if leaving is not None:
            raise leaving

    def _make_answer(self) -> BaseException | None:
        """Set `_value` and return None, or return why there is no answer."""
        purgatory = self._purgatory
        name = "" if purgatory is None else purgatory.name
        if purgatory is not None and purgatory.is_closed:
            return PurgatoryClosedError(name)
        return OperationCancelledError(name, self)

    def _let_go(self) -> None:
        """Forget what the operation needed for its tries; no-op at a second call."""

    def _abandon_in_child(self) -> None:
        """End in a forked child, and cancel the copy of the future."""
        DelayedOperation._abandon_in_child(self)
        self._let_go()
        # Future and operation need not keep one another alive until the collector finds them.
        future = self.future
        self.future = None
        if future is not None:
            future.disown()


class HoldOperation(FutureOperation):
    """Waits until a condition returns an answer, which ends a future."""

    __slots__ = ("_not_yet", "_until")

    def __init__(
        self,
        until: Callable[[], object],
        timeout_ms: int,
        future: Answerable,
        not_yet: object = ...,
    ) -> None:
        if not callable(until):
            raise InvalidArgumentError("until", "callable", until)
        super().__init__(timeout_ms, future)
        self._until: Callable[[], object] | None = until
        self._not_yet = not_yet

    @property
    def condition_name(self) -> str:
        """The condition's name, for people; empty once the operation has ended."""
        self._lock_fields()
        until = self._until
        self._unlock_fields()
        if until is None:
            return ""
        try:
            return str(until.__qualname__)
        except Exception:  # A callable object, which may have any attributes.
            pass
        return type(until).__qualname__

    def try_complete(self) -> bool:
        """Complete if the condition has an answer, or raises: that is kept as its error."""
        self._lock_fields()
        until = self._until
        self._unlock_fields()
        if until is None:
            return False
        try:
            value = until()
            if value is self._not_yet or (self._not_yet is ... and not value):
                return False
            if type(value) is CoroutineType:
                value.close()
                raise InvalidArgumentError(
                    "until", "a plain function, because its result is not awaited", until
                )
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:
            # The caller of `hold` learns of it now: a condition that raises does not become true.
            self._error = error
        else:
            self._value = value
        return self.force_complete()

    def _make_answer(self) -> BaseException | None:
        if self._state == states.CANCELLED:
            return FutureOperation._make_answer(self)  # noqa: SLF001 - what this one overrides
        if self._state == states.EXPIRED:
            return self._timeout_error()
        return self._error

    def _timeout_error(self) -> BaseException:
        """Return a TimeoutError, without a text or a MemoryError where there is no memory."""
        try:
            # Not `timeout_ms`, an int of Python's: CPython runs signal handlers while it makes a
            # string of one, and the future would stay without an answer if one raises.
            return TimeoutError(f"the condition did not hold within {self.timer_delay_ms} ms")
        except MemoryError:
            pass
        failure: BaseException
        try:
            failure = TimeoutError()
        except MemoryError as error:
            failure = error
        return failure

    def _let_go(self) -> None:
        # Whoever keeps the future need not keep the condition. On free threads a try may read it at
        # this moment. It is freed after the lock, as that may run user code.
        until = self._until
        self._lock_fields()
        self._until = None
        self._unlock_fields()
        del until


def discard(operation: DelayedOperation) -> None:
    purgatory = operation._purgatory
    assert purgatory is not None, "a future is handed out once its operation is in a purgatory"
    purgatory._discard(operation)


def report(purgatory: object, error: BaseException) -> None:
    """Tell a test's purgatory what a callback of a future raised, which is logged elsewhere."""
    errors = getattr(purgatory, "_errors", None)
    if errors is not None and errors.listener is not None:
        errors.listener(error)


def wrap_error(error: BaseException) -> RuntimeError:
    """Return a RuntimeError in place of an error that would mean something else in a future."""
    wrapped = RuntimeError(f"the condition raised {shown(error)}")
    wrapped.__cause__ = error
    return wrapped


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
                if tries == _MOST_TRIES:
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
                if tries == _MOST_TRIES:
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
                    report(self.operation._purgatory, error)
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
