"""The operations that a purge has to remove from the watch table."""

from __future__ import annotations

from request_purgatory._native import hiding
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.watch_table import WatchTable

#: The backlog is first shrunk when it is longer than this.
_MIN_SHRINK_LENGTH = 1000


class PurgeBacklog:
    """Operations that have ended and may still be watched.

    An operation that ends in a check of its only key is removed there. Every other one is
    remembered here, so a purge costs what it removes and need not walk the lists past all that is
    pending. Any thread may call every method.
    """

    __slots__ = ("_max_length", "_operations", "_table")

    def __init__(self, table: WatchTable) -> None:
        """Make an empty backlog of the operations that are watched in `table`."""
        self._table = table
        self._operations: list[DelayedOperation] = []
        self._max_length = _MIN_SHRINK_LENGTH

    def clear(self) -> None:
        """Forget all operations, for a table that is empty."""
        operations, self._operations = self._operations, []
        for operation in operations:
            hiding.show(operation)

    def __len__(self) -> int:
        return len(self._operations)

    def show_all(self) -> None:
        """Show all operations to the cyclic collector."""
        for operation in self._operations:
            hiding.show(operation)

    def hide_all(self) -> None:
        """Hide all operations from the cyclic collector."""
        for operation in self._operations:
            hiding.hide(operation)

    def add(self, operation: DelayedOperation) -> None:
        """Leave an operation that has ended to the next purge, if it is still watched."""
        if not self._table.is_watched(operation):
            hiding.show(operation)
            return
        self._operations.append(operation)
        if len(self._operations) > self._max_length:
            self._drop_already_removed()

    def _drop_already_removed(self) -> None:
        """Forget the operations that checks have removed from their lists meanwhile.

        With a large purge interval they would stay for a long time.
        """
        operations = self._operations
        kept: list[DelayedOperation] = []
        for _ in range(len(operations)):
            try:
                operation = operations.pop()
            except IndexError:
                break  # Another thread purges.
            if self._table.is_watched(operation):
                kept.append(operation)
            else:
                hiding.show(operation)
        operations += kept
        self._max_length = max(_MIN_SHRINK_LENGTH, 2 * len(kept))

    def purge(self) -> int:
        """Remove all remembered operations from their lists.

        Returns:
            The number of entries that were removed.
        """
        dropped = 0
        operations = self._operations
        for _ in range(len(operations)):
            try:
                operation = operations.pop()
            except IndexError:
                break  # Another thread purges, too.
            dropped += self._table.drop_watches(operation)
            hiding.show(operation)
        return dropped
