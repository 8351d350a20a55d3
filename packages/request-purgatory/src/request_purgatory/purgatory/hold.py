"""The operation behind `hold`, for threads and for asyncio."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from datetime import timedelta
from types import CoroutineType
from typing import Any, Protocol

from request_purgatory._native import hiding, primitives, states
from request_purgatory.errors import (
    InvalidArgumentError,
    OperationCancelledError,
    PurgatoryClosedError,
    shown,
)
from request_purgatory.purgatory._counters import PurgatoryCounters
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.timer.task import MAX_DELAY_MS

#: How often a step of an end is made again that a signal handler interrupts or that finds no
#: memory. No handler comes so often between two steps.
MOST_TRIES = 100


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


def _seconds_of(span: object) -> float:
    """Return a number or timedelta as seconds; NaN for all that is neither."""
    if type(span) is float:
        return span
    if type(span) is int:
        return primitives.clamp(span)
    if isinstance(span, timedelta):
        return span.total_seconds()
    # NumPy's numbers are Real, and its bool is not.
    if isinstance(span, numbers.Real) and not isinstance(span, bool):
        try:
            return float(span)
        except OverflowError:
            pass
    return math.nan


def timeout_to_ms(timeout: float | timedelta | None, name: str = "timeout") -> int:
    """Return whole milliseconds, rounded up. InvalidArgumentError.

    10,000 years for None and infinity; 0 for what has passed.
    """
    if timeout is None:
        return MAX_DELAY_MS
    seconds = _seconds_of(timeout)
    if 0.0 <= seconds <= primitives.MAX_DELAY_MS / 1000:
        return primitives.ceil_to_ms(seconds)
    if seconds < 0.0:
        return 0
    if seconds == math.inf:
        return MAX_DELAY_MS
    raise InvalidArgumentError(
        name, "seconds or a timedelta, and at most 10,000 years or infinite", timeout
    )


def span_to_ms(span: float | timedelta, name: str) -> int:
    """As `timeout_to_ms`, for a span that time is to take: neither negative nor infinite."""
    seconds = _seconds_of(span)
    if not 0.0 <= seconds <= primitives.MAX_DELAY_MS / 1000:
        raise InvalidArgumentError(
            name, "seconds or a timedelta, not negative and at most 10,000 years", span
        )
    return primitives.ceil_to_ms(seconds)


def deadline_to_ms(timeout: object, deadline: float, now_ms: int) -> int:
    """Return the whole milliseconds from `now_ms` to a deadline; 0 where it has passed.

    InvalidArgumentError where a timeout is given, too.
    """
    if timeout is not None:
        raise InvalidArgumentError("deadline", "None where a timeout is given", deadline)
    if isinstance(deadline, timedelta):
        raise InvalidArgumentError("deadline", "a moment in seconds, not a span", deadline)
    end_ms = timeout_to_ms(deadline, "deadline")
    return end_ms if end_ms == MAX_DELAY_MS else max(0, end_ms - now_ms)


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
        self._init_answer(timeout_ms, future)

    def _init_answer(self, timeout_ms: int, future: Answerable) -> None:
        self._init_operation(timeout_ms)
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
        hiding.show(future)
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
        tries = MOST_TRIES
        while tries:
            tries -= 1
            try:
                self._let_go()
                future.answer(value, error)
                tries = 0
            except BaseException as failure:
                # Of a future that has ended, the next call does nothing.
                leaving = failure
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
            hiding.show(future)
            future.disown()

    def _hide(self) -> None:
        hiding.hide(self)
        hiding.hide(self.future)

    def _show(self) -> None:
        hiding.show(self)
        hiding.show(self.future)


class HoldOperation(FutureOperation):
    """Waits until a condition returns an answer, which ends a future."""

    __slots__ = ("_label", "_not_yet", "_until")

    def __init__(
        self,
        until: Callable[[], object],
        timeout_ms: int,
        future: Answerable,
        not_yet: object = ...,
    ) -> None:
        self._init_hold(until, timeout_ms, future, not_yet)

    def _init_hold(
        self, until: Callable[[], object], timeout_ms: int, future: Answerable, not_yet: object
    ) -> None:
        if not callable(until):
            raise InvalidArgumentError("until", "callable", until)
        self._init_answer(timeout_ms, future)
        self._until: Callable[[], object] | None = until
        self._not_yet = not_yet
        # The counters of all holds of its name.
        self._label: PurgatoryCounters | None = None

    def _set_label(self, label: PurgatoryCounters) -> None:
        """Have a name, and be counted by it from now on."""
        self._label = label
        label.count_entered()

    @property
    def shown_name(self) -> str:
        """The name that `hold` was given, or that of the condition."""
        label = self._label
        return f"hold({self.condition_name})" if label is None else label.name

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
            return TimeoutError(f"the condition did not hold within {self._timer_delay_ms} ms")
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
        is_first = self._until is not None
        self._until = None
        self._unlock_fields()
        if is_first and self._label is not None:
            self._count_end()
        del until

    def _count_end(self) -> None:
        assert self._label is not None, "its caller has looked"
        waited_ms = 0
        purgatory = self._purgatory
        if purgatory is not None and self._entered_ms >= 0:
            waited_ms = purgatory._now_or(self._entered_ms) - self._entered_ms
        self._label.count_ended(self._state, waited_ms)

    def release(self) -> None:
        """Forget the condition of a hold that no purgatory has taken in."""
        self._let_go()

    def _abandon_in_child(self) -> None:
        # What is counted by the name begins anew, and its lock may be held for ever.
        self._label = None
        FutureOperation._abandon_in_child(self)

    def __repr__(self) -> str:
        if self._timer_expiration_ms == 0:
            return DelayedOperation.__repr__(self)
        return (
            f"<{type(self).__name__} {self.shown_name!r} timeout_ms={self._timer_delay_ms} "
            f"{self.outcome or 'pending'}>"
        )


def new_hold(
    until: Callable[[], object], timeout_ms: int, future: Answerable, not_yet: object
) -> HoldOperation:
    """As `HoldOperation(...)`, which compiled packs its arguments into a tuple and out of it."""
    operation = HoldOperation.__new__(HoldOperation)
    operation._init_hold(until, timeout_ms, future, not_yet)  # noqa: SLF001 - its own class
    return operation


def operation_name(operation: DelayedOperation) -> str:
    """Return the name of an operation for people: of its type, or what `hold` was given."""
    if isinstance(operation, HoldOperation):
        return operation.shown_name
    return type(operation).__qualname__


def discard(operation: DelayedOperation) -> None:
    purgatory = operation._purgatory
    assert purgatory is not None, "a future is handed out once its operation is in a purgatory"
    purgatory._discard(operation)


def wrap_error(error: BaseException) -> RuntimeError:
    """Return a RuntimeError in place of an error that would mean something else in a future."""
    wrapped = RuntimeError(f"the condition raised {shown(error)}")
    wrapped.__cause__ = error
    return wrapped
