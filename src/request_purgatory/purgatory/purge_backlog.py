"""What a purge has to take out of the watcher lists."""

from __future__ import annotations

from request_purgatory._native import primitives
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.watch_table import WatcherLists

#: So many ended operations are remembered before somebody looks whether they still have to be.
_FEW = 1000


class Unpurged:
    """The operations that have ended elsewhere than in a check of their only key, and so may still be watched.

    With these remembered, a purge costs what it drops; it need not walk the lists along all that is
    pending. Any thread may call every method.
    """

    __slots__ = ("_most", "_operations", "_shards")

    def __init__(self, shards: list[WatcherLists]) -> None:
        """`shards`: where the operations are watched."""
        self._shards = shards
        self._operations: list[DelayedOperation] = []
        self._most = _FEW

    def begin(self) -> None:
        """Remember nothing: the watcher lists are empty."""
        operations, self._operations = self._operations, []
        if primitives.HIDES:
            for operation in operations:
                primitives.show(operation)

    def __len__(self) -> int:
        return len(self._operations)

    def remember(self, operation: DelayedOperation) -> None:
        """Leave an operation that has ended to the next purge, if it is still watched."""
        if not self._is_watched(operation):
            if primitives.HIDES:
                primitives.show(operation)
            return
        self._operations.append(operation)
        if len(self._operations) > self._most:
            self._forget_met()

    def _is_watched(self, operation: DelayedOperation) -> bool:
        watch = operation._watches
        while watch is not None:
            if watch.operation is not None:
                return True
            watch = watch.sibling
        return False

    def _forget_met(self) -> None:
        """Forget those that checks have taken out meanwhile.

        With a large purge interval they would stay for long.
        """
        operations = self._operations
        still: list[DelayedOperation] = []
        for _ in range(len(operations)):
            try:
                operation = operations.pop()
            except IndexError:
                break  # Another thread purges.
            if self._is_watched(operation):
                still.append(operation)
            elif primitives.HIDES:
                primitives.show(operation)
        operations += still
        self._most = max(_FEW, 2 * len(still))

    def drop(self) -> int:
        """Take all that were remembered out of their watcher lists; how many entries went."""
        dropped = 0
        operations = self._operations
        for _ in range(len(operations)):
            try:
                operation = operations.pop()
            except IndexError:
                break  # Another thread purges, too.
            dropped += self.drop_watches(operation)
            if primitives.HIDES:
                primitives.show(operation)
        return dropped

    def drop_watches(self, operation: DelayedOperation) -> int:
        """Take one operation out of every watcher list; from how many."""
        dropped = 0
        watch = operation._watches
        while watch is not None:
            watchers = watch.watchers
            assert watchers is not None, "a watch was chained before it was in a list"
            shard = self._shards[watchers.shard]
            if shard.drop(watch):
                dropped += 1
            watch = watch.sibling
        return dropped
