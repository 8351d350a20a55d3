"""The operations that a purge has to remove from the watch table."""

from __future__ import annotations

from request_purgatory._native import hiding, primitives
from request_purgatory.purgatory._operation_chain import OperationChain
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.watch_table import WatchTable

#: The backlog is first shrunk when it is longer than this: twice the usual purge interval.
_MIN_SHRINK_LENGTH = 2000
#: How many operations one addition looks at, for some microseconds.
_LOOKS = 100


class PurgeBacklog:
    """Operations that have ended and may still be watched.

    An operation that ends in a check of its only key is removed there. Every other one is
    remembered here, so a purge costs what it removes and need not walk the lists past all that is
    pending. Any thread may call every method.

    Attributes:
        chain: The operations.
    """

    __slots__ = ("_max_length", "_table", "_unseen", "chain")

    def __init__(self, table: WatchTable, lock: primitives.CoreLock) -> None:
        self._table = table
        self.chain = OperationChain(lock)
        self._max_length = _MIN_SHRINK_LENGTH
        self._unseen = 0

    def clear(self) -> None:
        """Forget all operations, for a table that is empty."""
        operation = self.chain.pop()
        while operation is not None:
            hiding.show(operation)
            operation = self.chain.pop()

    def add(self, operation: DelayedOperation) -> None:
        """Leave an operation that has ended to the next purge, if it is still watched.

        No-op for one that is in a chain.
        """
        if not self._table.is_watched(operation):
            hiding.show(operation)
        elif self.chain.push(operation) and (
            self._unseen > 0 or self.chain.length > self._max_length
        ):
            self._drop_already_removed()

    def _drop_already_removed(self) -> None:
        """Forget operations that checks have removed from their lists meanwhile.

        With a large purge interval they would stay for a long time. This call looks at the first
        ones, and that of the next addition goes on, until all have been seen.
        """
        if self._unseen <= 0:
            self._unseen = self.chain.length
        for _ in range(min(self._unseen, _LOOKS)):
            operation = self.chain.pop()
            if operation is None:
                break  # Another thread purges.
            if self._table.is_watched(operation):
                self.chain.push(operation)
            else:
                hiding.show(operation)
        self._unseen -= _LOOKS
        if self._unseen <= 0:
            self._max_length = max(_MIN_SHRINK_LENGTH, 2 * self.chain.length)

    def purge(self) -> int:
        """Remove all remembered operations from their lists, and return the number of entries."""
        dropped = 0
        self._unseen = 0
        for number in range(self.chain.length):
            if number % 2000 == 1999:  # Some 1 ms.
                primitives.let_others_run()
            operation = self.chain.pop()
            if operation is None:
                break  # Another thread purges, too.
            dropped += self._table.drop_watches(operation)
            hiding.show(operation)
        return dropped
