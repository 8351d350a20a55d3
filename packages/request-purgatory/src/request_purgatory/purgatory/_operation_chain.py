"""A queue of operations that are linked through themselves."""

from __future__ import annotations

from request_purgatory._native import hiding, primitives
from request_purgatory.purgatory.operation import DelayedOperation


class OperationChain:
    """Operations in the order in which they were added; adding one allocates nothing.

    So an operation that has ended, or is about to be cancelled, is never lost where memory runs
    out. An operation is in at most one chain at a time. Any thread may call every method: the
    chains of one purgatory share `lock`, which is held for a few loads and stores.
    """

    __slots__ = ("_end", "_first", "_last", "length", "lock")

    def __init__(self, lock: primitives.CoreLock) -> None:
        self.lock = lock
        # What the last operation is linked to: an operation that is in no chain has None there.
        self._end = DelayedOperation(0)
        self._first = self._end
        self._last = self._end
        self.length = 0

    def push(self, operation: DelayedOperation) -> bool:
        """Add an operation at the end; False if it is in a chain already."""
        self.lock.acquire()
        try:
            new = operation._next_in_chain is None
            if new:
                self.length += 1
                operation._next_in_chain = self._end
                if self._first is self._end:
                    self._first = operation
                else:
                    self._last._next_in_chain = operation
                self._last = operation
        finally:
            self.lock.release()
        return new

    def pop(self) -> DelayedOperation | None:
        """Remove and return the first operation; None if the chain is empty."""
        self.lock.acquire()
        try:
            first = self._first
            found = first is not self._end
            if found:
                self.length -= 1
                following = first._next_in_chain
                assert following is not None, "the last operation is linked to the chain's end"
                self._first = following
                if following is self._end:
                    self._last = following
                first._next_in_chain = None
        finally:
            self.lock.release()
        return first if found else None

    def show_all(self) -> None:
        """Show all operations to the cyclic collector, under the interpreter lock."""
        operation: DelayedOperation | None = self._first
        while operation is not None and operation is not self._end:
            hiding.show(operation)
            operation = operation._next_in_chain

    def hide_all(self) -> None:
        operation: DelayedOperation | None = self._first
        while operation is not None and operation is not self._end:
            hiding.hide(operation)
            operation = operation._next_in_chain
