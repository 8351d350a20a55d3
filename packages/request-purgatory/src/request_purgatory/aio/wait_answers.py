"""The answers of operations that `wait` has made futures of."""

from __future__ import annotations

from collections.abc import Callable

from request_purgatory.aio.hold import HoldFuture
from request_purgatory.errors import PurgatoryClosedError
from request_purgatory.purgatory.operation import DelayedOperation, Outcome


class WaitAnswers:
    """Answers the futures of `wait`, and reports the ends of all operations.

    The purgatory's core refers to it, and it refers to neither the core nor the purgatory. So these
    make no cycle, and a purgatory that nobody uses any more is freed without the cyclic collector,
    which would have to walk its timing wheel.

    Attributes:
        futures: The futures, by the ids of their operations.
        is_closed: Whether the block was left.
        on_end: The purgatory's hook; None calls nothing.
    """

    def __init__(self, name: str, on_end: Callable[[DelayedOperation], object] | None) -> None:
        self.futures: dict[int, HoldFuture[Outcome]] = {}
        self.is_closed = False
        self._name = name
        self.on_end = on_end

    def operation_ended(self, operation: DelayedOperation) -> None:
        """Answer `wait` and call `on_end`; called by the thread that ended the operation."""
        try:
            self.answer(operation)
        except MemoryError:
            self.answer(operation)  # Nothing else would.
        if self.on_end is not None:
            self.on_end(operation)

    def answer(self, operation: DelayedOperation) -> None:
        """Answer the future of an operation that has ended; no-op if it has none.

        Raises:
            RuntimeError: The loop refuses callbacks, though it is not closed.
        """
        key = id(operation)
        future = self.futures.get(key)
        if future is None:
            return
        if operation.outcome == "cancelled" and self.is_closed:
            future.answer(None, PurgatoryClosedError(self._name))
        else:
            future.answer(operation.outcome, None)
        # Last: a call that finds no memory before can be made again.
        del self.futures[key]
