"""The operation behind `hold`, for threads and for asyncio, and the future of threads."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from datetime import timedelta
from types import CoroutineType
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


def timeout_to_ms(timeout: float | timedelta | None) -> int:
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
            "timeout", "seconds or a timedelta, not negative and at most 10,000 years", timeout
        )
    # 2.007 * 1000 is 2007.0000000000002. Less than half a microsecond is not rounded up.
    return math.ceil(seconds * 1000 - 0.0005)


class FutureOperation(DelayedOperation):
    """An operation whose end ends a future.

    Attributes:
        future: The future, of threads or of asyncio; None once the operation has ended.
    """

    __slots__ = ("future",)

    def __init__(self, timeout_ms: int, future: Answerable) -> None:
        super().__init__(timeout_ms)
        self.future: Answerable | None = future
        future.operation = self

    def on_cancellation(self) -> None:
        """End the future with the reason, unless its owner cancelled it."""
        try:
            future = self.detach()
        except MemoryError:  # Of the look for an override.
            future = FutureOperation.detach(self)
        assert future is not None, "an operation ends once"
        purgatory = self._purgatory
        name = "" if purgatory is None else purgatory.name
        error: BaseException
        try:
            if purgatory is not None and purgatory.is_closed:
                error = PurgatoryClosedError(name)
            else:
                error = OperationCancelledError(name, self)
        except MemoryError as no_memory:
            error = no_memory
        future.answer(None, error)

    def _abandon_in_child(self) -> None:
        """End in a forked child, and cancel the copy of the future."""
        DelayedOperation._abandon_in_child(self)
        future = self.detach()
        if future is not None:
            future.disown()

    def detach(self) -> Answerable | None:
        """Return the future and forget it; called once, when the operation has ended."""
        # Future and operation need not keep one another alive until the collector finds them.
        future = self.future
        self.future = None
        return future


class HoldOperation(FutureOperation):
    """Waits until a condition returns an answer, which ends a future."""

    __slots__ = ("_error", "_not_yet", "_until", "_value")

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
        self._value: object = None
        self._error: BaseException | None = None

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
            return self.force_complete()
        self._value = value
        return self.force_complete()

    def on_complete(self) -> None:
        future = self.detach()
        assert future is not None, "an operation ends once"
        if self._state == states.EXPIRED:
            future.answer(None, self._timeout_error())
        else:
            future.answer(self._value, self._error)

    def _timeout_error(self) -> BaseException:
        """Return a TimeoutError, without a text or a MemoryError where there is no memory."""
        try:
            # Not `timeout_ms`, an int of Python's: CPython runs signal handlers while it makes a
            # string of one, and the future would stay without an answer if one raises.
            return TimeoutError(f"the condition did not hold within {self.timer_delay_ms} ms")
        except MemoryError:
            pass
        try:
            return TimeoutError()
        except MemoryError as error:
            return error

    def detach(self) -> Answerable | None:
        """Return the future; forget it and the condition."""
        # Whoever keeps the future need not keep the condition. On free threads a try may read it at
        # this moment. It is freed after the lock, as that may run user code.
        until = self._until
        self._lock_fields()
        self._until = None
        self._unlock_fields()
        del until
        return FutureOperation.detach(self)


def discard(operation: DelayedOperation) -> None:
    purgatory = operation._purgatory
    assert purgatory is not None, "a future is handed out once its operation is in a purgatory"
    purgatory._discard(operation)


def wrap_error(error: BaseException) -> RuntimeError:
    """Return a RuntimeError in place of an error that would mean something else in a future."""
    wrapped = RuntimeError(f"the condition raised {shown(error)}")
    wrapped.__cause__ = error
    return wrapped


class HoldFuture(Future[T]):
    """A future of threads whose cancellation takes its operation out of the purgatory.

    Attributes:
        operation: What ends the future.
    """

    operation: DelayedOperation
    # Those of `Future`, since Python 3.2.
    _done_callbacks: list[Callable[[Future[T]], object]]
    _result: T | None
    _exception: BaseException | None

    def cancel(self) -> bool:
        """Cancel the future and its operation; after a MemoryError it is pending as before."""
        try:
            if not super().cancel():
                return False
        except MemoryError:
            if not self.cancelled():
                raise
            try:
                self._tell()
            finally:
                discard(self.operation)
            return True
        discard(self.operation)
        return True

    def answer(self, value: Any, error: BaseException | None) -> None:
        """End the future; no-op if it was cancelled. It has ended, too, after a MemoryError."""
        try:
            self._answer(value, error)
        except MemoryError:
            try:
                self._answer(value, error)  # Nothing else would; each step is made once.
            except MemoryError:
                if not self.done():
                    # A later `result` has it. Threads that wait already, and callbacks, have not.
                    self._result = value
                    self._exception = error
                    self._state = "FINISHED"
                raise

    def _answer(self, value: Any, error: BaseException | None) -> None:
        if self.done() and not self.cancelled():
            self._tell()
            return
        # Of a cancelled future this informs `concurrent.futures.wait` and `as_completed`, which
        # `cancel` alone does not.
        if not self.running() and not self.set_running_or_notify_cancel():
            return
        if error is None:
            self.set_result(value)
        elif issubclass(type(error), (StopIteration, CancelledError)):
            self.set_exception(wrap_error(error))
        else:
            self.set_exception(error)

    def _tell(self) -> None:
        """Tell of the end once more, after a call that could not tell everybody."""
        with self._condition:
            self._condition.notify_all()
        self._invoke_callbacks()

    def _invoke_callbacks(self) -> None:
        """Call each callback once, also where a call of this method could not go on."""
        while self._done_callbacks:
            callback = self._done_callbacks.pop(0)
            try:
                callback(self)
            except Exception as error:
                log_contained(logger, error, "exception calling callback for %r", self)

    def disown(self) -> None:
        """Cancel a forked child's copy of the future; its callbacks are not called."""
        # `Future` has no public way to do this with a fresh lock. It has had these attributes since
        # Python 3.2.
        vars(self).update(_condition=threading.Condition(), _waiters=[], _done_callbacks=[])
        super().cancel()
