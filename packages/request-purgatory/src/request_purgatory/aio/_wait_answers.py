"""The answers of operations that `wait` has made futures of. Compiled."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from request_purgatory._native import hiding
from request_purgatory.aio.hold import MAX_ATTEMPTS, HoldFuture
from request_purgatory.errors import PurgatoryClosedError
from request_purgatory.purgatory.core import Driver
from request_purgatory.purgatory.operation import DelayedOperation, Outcome


class WaitAnswers:
    """Answers the futures of `wait`, and reports the ends of all operations.

    The purgatory's core refers to it, and it refers to neither the core nor the purgatory. So these
    make no cycle, and a purgatory that nobody uses any more is freed without the cyclic collector,
    which would have to walk its timing wheel.

    Attributes:
        futures: The futures, by the ids of their operations.
        alarm: That of the purgatory, from the start of the block on.
    """

    __slots__ = ("__weakref__", "_name", "alarm", "futures", "is_closed", "on_end")

    def __init__(self, name: str, on_end: Callable[[DelayedOperation], object] | None) -> None:
        self.futures: dict[int, HoldFuture[Outcome]] = {}
        self.is_closed = False
        self._name = name
        self.on_end = on_end
        self.alarm: weakref.ref[Driver] | None = None
        if hiding.HIDES:
            hiding.register(self)

    def add(self, operation: DelayedOperation, future: HoldFuture[Outcome]) -> None:
        """Remember a future, before the first try of its operation."""
        self.futures[id(operation)] = future
        hiding.hide(self.futures)  # A dict shows itself to the collector when something is added.

    def hide(self, operation: DelayedOperation) -> None:
        """Hide the future of an operation that waits, as `FutureOperation` does, if it has one."""
        hiding.hide(self.futures.get(id(operation)))

    def drop(self, operation: DelayedOperation) -> None:
        """Forget the future of an operation, if it has one."""
        hiding.show(self.futures.pop(id(operation), None))

    def clear(self) -> None:
        self._show_waiting()
        self.futures.clear()

    def operation_ended(self, operation: DelayedOperation) -> None:
        """Answer `wait` and call `on_end`; called by the thread that ended the operation."""
        try:
            try:
                self.answer(operation)
            except MemoryError:
                self.answer(operation)  # Nothing else would.
        finally:
            if self.on_end is not None:
                self.on_end(operation)

    def answer(self, operation: DelayedOperation) -> None:
        """Answer the future of an operation that has ended; no-op if it has none.

        After a MemoryError the call can be made again. What a signal handler raised is raised last.
        """
        future = self.futures.get(id(operation))
        if future is None:
            return
        hiding.show(future)
        failure: BaseException | None = None
        closed: PurgatoryClosedError | None = None
        attempts = MAX_ATTEMPTS
        while attempts and closed is None and self.is_closed and operation.outcome == "cancelled":
            attempts -= 1
            try:
                closed = PurgatoryClosedError(self._name)
            except MemoryError:
                raise
            except BaseException as interruption:
                failure = interruption
        try:
            future.answer(None if closed is not None else operation.outcome, closed)
        except MemoryError:
            raise
        except BaseException as interruption:
            failure = interruption
        # Last: a call that finds no memory before can be made again.
        del self.futures[id(operation)]
        if failure is not None:
            raise failure

    # -- the cyclic collector: `hiding.pyx` calls these around full collections

    def _is_driven(self) -> bool:
        """Return True if a loop that runs refers to the purgatory."""
        alarm = None if self.alarm is None else self.alarm()
        return alarm is not None and alarm.is_running

    def _pass_over(self, passed_over: bool) -> None:
        """Do nothing: a collection does not come to what is hidden."""

    def _show_waiting(self) -> None:
        hiding.show(self.futures)
        for future in self.futures.values():
            hiding.show(future)

    def _hide_waiting(self) -> None:
        hiding.hide(self.futures)
        for future in self.futures.values():
            hiding.hide(future)
