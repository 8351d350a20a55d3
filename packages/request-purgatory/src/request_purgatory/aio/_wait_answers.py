"""The answers of operations that `wait` has made futures of. Compiled."""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory.aio.hold import MAX_ATTEMPTS, HoldFuture
from request_purgatory.errors import PurgatoryClosedError
from request_purgatory.purgatory.operation import DelayedOperation, Outcome


class WaitAnswers:
    """Answers the futures of `wait`, and reports the ends of all operations.

    The purgatory's core refers to it, and it refers to neither the core nor the purgatory. So these
    make no cycle, and a purgatory that nobody uses any more is freed without the cyclic collector,
    which would have to walk its timing wheel.

    Attributes:
        futures: The futures, by the ids of their operations.
    """

    __slots__ = ("_name", "futures", "is_closed", "on_end")

    def __init__(self, name: str, on_end: Callable[[DelayedOperation], object] | None) -> None:
        self.futures: dict[int, HoldFuture[Outcome]] = {}
        self.is_closed = False
        self._name = name
        self.on_end = on_end

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
        key = id(operation)
        future = self.futures.get(key)
        if future is None:
            return
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
        del self.futures[key]
        if failure is not None:
            raise failure
