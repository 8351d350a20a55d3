"""The watch table: which operations watch which key. This is the interpreted version.

Compiled, `watch_table.pyx` takes its place: operations carry their places in the lists as C links.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Hashable

from request_purgatory._native import primitives, states
from request_purgatory.error_log import ErrorLog
from request_purgatory.errors import unhashable
from request_purgatory.purgatory._operation_chain import OperationChain
from request_purgatory.purgatory.operation import DelayedOperation

logger = logging.getLogger(__name__)

#: The numbers of watches, in the order in which these are made.
_numbers = itertools.count()


def watches_of(operation: DelayedOperation) -> list[tuple[int, WatcherList]]:
    """Return the watches that an operation has, and their lists, the latest first."""
    return list(operation._watches.copy().items())[::-1]


class WatcherList:
    """The operations that watch one key, in the order of their arrival.

    It is changed under the lock of the shard.

    Attributes:
        key: The watch key; None once the list has left the shard's map.
        shard: The index of the shard that has the list.
        entries: The operations, by the numbers of their watches. An operation has the lists that it
            is in by the same numbers (`_watches`). So one that has ended leaves every list in O(1)
            each, without a walk past operations that are still pending.
        removed: True once the list was empty and left the shard's map. A thread that still has it
            looks up the new list.
    """

    __slots__ = ("entries", "key", "removed", "shard")

    def __init__(self, key: Hashable, shard: int) -> None:
        self.key = key
        self.entries: dict[int, DelayedOperation] = {}
        self.shard = shard
        self.removed = False

    @property
    def size(self) -> int:
        return len(self.entries)


class WatchShard:
    """The watcher lists of the keys that hash to one shard.

    The shard's lock guards the changes of its lists and of the map. It is held for a few
    loads and stores, and for the map's work when a key is added or removed, which may call the
    key's `__hash__` and `__eq__`. It is never held while an operation's code runs, and nothing that
    the cyclic collector counts is made under it. What is removed is returned to the caller and
    freed after the lock is released, because finalizers are user code.
    """

    __slots__ = ("_errors", "_lists", "index", "lock")

    def __init__(self, index: int, errors: ErrorLog) -> None:
        self.index = index
        self._errors = errors
        self.lock = primitives.CoreLock()
        self._lists: dict[Hashable, WatcherList] = {}

    def watch(self, key: Hashable, operation: DelayedOperation) -> None:
        number = next(_numbers)
        lock = self.lock
        watchers = primitives.dict_get(self._lists, key)
        while True:
            if watchers is None:
                watchers = self._add_list(key)
            lock.acquire()
            if not watchers.removed:
                break
            lock.release()
            watchers = None
        watchers.entries[number] = operation
        operation._watches[number] = watchers
        lock.release()

    def _add_list(self, key: Hashable) -> WatcherList:
        made = WatcherList(key, self.index)
        self.lock.acquire()
        try:
            watchers = self._lists.setdefault(key, made)
            if watchers.removed:
                # The key's __hash__ or __eq__ raised when this list should have left the map.
                self._lists[key] = watchers = made
        finally:
            self.lock.release()
        return watchers

    def get(self, key: Hashable) -> WatcherList | None:
        return primitives.dict_get(self._lists, key)

    def operations_of(self, watchers: WatcherList) -> list[DelayedOperation]:
        """Return the operations of one of this shard's lists, once for each watch."""
        # One step in C, which needs no lock: a new list may start the cyclic collector.
        return list(watchers.entries.copy().values())

    def only_operation(self, watchers: WatcherList) -> DelayedOperation | None:
        """Return the operation of a list that has exactly one entry; None for any other list."""
        operations = self.operations_of(watchers) if watchers.size == 1 else []
        return operations[0] if len(operations) == 1 else None

    def lists(self) -> list[WatcherList]:
        return list(self._lists.values())

    def drop(self, watchers: WatcherList, operation: DelayedOperation) -> bool:
        """Remove an operation from a list, and a list that is empty then; False if not there."""
        return any(
            found is watchers and self.drop_watch(watchers, number)
            for number, found in watches_of(operation)
        )

    def drop_watch(self, watchers: WatcherList, number: int) -> bool:
        """Remove a watch from a list of this shard; False if another thread has removed it."""
        self.lock.acquire()
        operation = watchers.entries.pop(number, None)
        if operation is not None:
            operation._watches.pop(number, None)
        if operation is None or watchers.entries:
            self.lock.release()
            return operation is not None
        watchers.removed = True
        # A thread may still have the list. The key lives until the lock is released.
        key, watchers.key = watchers.key, None
        failed: Exception | None = None
        try:
            popped = self._lists.pop(key, None)
            if popped is not None and not popped.removed:
                # The key has changed, and equals now that of another list, which stays.
                self._lists[popped.key] = popped
        except Exception as error:
            failed = error
        finally:
            self.lock.release()
        if failed is not None:
            # Raised by the key's own __hash__ or __eq__. The map keeps an empty list of the key
            # until the key is watched again or the table is emptied.
            self._errors.log(
                failed,
                "the __hash__ or __eq__ of a watch key of type %s raises: its list stays",
                type(key).__name__,
            )
            failed = None  # Its traceback refers to this frame.
        return True

    def remove_all(self, removed: OperationChain) -> None:
        """Empty the shard, and add the operations of all lists to `removed`.

        For a purgatory that is closed: an operation that is watched later is removed by its caller.
        """
        for watchers in self.lists():
            for number in list(watchers.entries):
                self.lock.acquire()
                operation = watchers.entries.pop(number, None)
                if operation is not None:
                    operation._watches.pop(number, None)
                self.lock.release()
                if operation is not None:
                    removed.push(operation)
            watchers.key = None  # As in `drop_watch`; the map still has the key.
        # Not key by key: a key's __hash__ may raise by now.
        self._lists.clear()

    @property
    def size(self) -> int:
        """The number of entries of all lists."""
        return sum(watchers.size for watchers in self.lists())

    @property
    def num_keys(self) -> int:
        return len(self._lists)

    def check_invariants(self) -> None:
        for key, watchers in self._lists.items():
            assert watchers.size > 0, f"the empty watcher list of {key!r} is in the map"
            assert not watchers.removed, f"the removed watcher list of {key!r} is in the map"
            for number, operation in watchers.entries.items():
                assert operation._watches.get(number) is watchers, (
                    f"{operation!r} does not know its list of {key!r}"
                )


class WatchTable:
    """Keys spread over shards by hash; each shard has its watcher lists and one lock.

    Kafka's purgatory has 512 such shards (KAFKA-6915). Any thread may call every method.
    """

    __slots__ = ("_mask", "shards")

    def __init__(self, num_shards: int) -> None:
        """Make a table of at least `num_shards` empty shards: the next power of two."""
        num_shards = 1 << (num_shards - 1).bit_length()
        self._mask = num_shards - 1
        errors = ErrorLog(logger)
        self.shards = [WatchShard(index, errors) for index in range(num_shards)]

    def pass_over(self, passed_over: bool) -> None:
        """Do nothing: compiled, the cyclic collector then does not look into the lists."""

    def shard_of(self, key: Hashable) -> WatchShard:
        return self._shard_of("key", key)

    def _shard_of(self, name: str, key: Hashable) -> WatchShard:
        """Return the shard of a key, which is or belongs to the argument of this name."""
        shards = self.shards
        try:
            hashed = hash(key)
        except BaseException as error:
            raise unhashable(name, key, error)  # noqa: B904 - it has its cause
        return shards[hashed & self._mask]

    def watch(
        self, operation: DelayedOperation, keys: list[Hashable] | tuple[Hashable, ...]
    ) -> None:
        """Watch the operation under each key, until it has ended. Called once for an operation."""
        for key in keys:
            if operation._state != states.PENDING:
                break
            self._shard_of("keys", key).watch(key, operation)

    def drop_watches(self, operation: DelayedOperation) -> int:
        """Remove one operation from every watcher list, and return the number of entries."""
        return sum(
            self.shards[watchers.shard].drop_watch(watchers, number)
            for number, watchers in watches_of(operation)
        )

    def is_watched(self, operation: DelayedOperation) -> bool:
        return bool(operation._watches)

    def is_first_list(self, operation: DelayedOperation, watchers: WatcherList) -> bool:
        """Return True for the first of the lists that the operation is in, by its order of keys.

        A walk over all lists counts each operation once by it, and remembers none of them.
        """
        return watchers is next((found for _, found in reversed(watches_of(operation))), None)

    def num_watchers(self, key: Hashable) -> int:
        watchers = self.shard_of(key).get(key)
        return 0 if watchers is None else watchers.size

    def remove_all(self, removed: OperationChain) -> None:
        """Empty the table, and add the operations of all lists to `removed`."""
        for shard in self.shards:
            shard.remove_all(removed)

    def operations(self) -> list[DelayedOperation]:
        """Return the operations of all lists, each once, ended ones included."""
        found: dict[int, DelayedOperation] = {}
        for shard in self.shards:
            for watchers in shard.lists():
                for operation in shard.operations_of(watchers):
                    found[id(operation)] = operation
        return list(found.values())

    @property
    def num_keys(self) -> int:
        return sum(shard.num_keys for shard in self.shards)

    @property
    def size(self) -> int:
        return sum(shard.size for shard in self.shards)

    def check_invariants(self) -> None:
        for shard in self.shards:
            shard.check_invariants()
