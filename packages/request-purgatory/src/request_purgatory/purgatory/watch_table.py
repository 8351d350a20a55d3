"""The watch table: which operations watch which key. This is the interpreted version.

Compiled, `watch_table.pyx` takes its place: operations carry their places in the lists as C links.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import Any

from request_purgatory._native import linked_list, primitives, states
from request_purgatory.error_log import ErrorLog
from request_purgatory.purgatory._operation_chain import OperationChain
from request_purgatory.purgatory.operation import DelayedOperation

logger = logging.getLogger(__name__)


class Watch:
    """An operation's place in the watcher list of one key.

    The watches of one operation are chained. So an operation that has ended leaves every list in
    O(1) each, without a walk past operations that are still pending. The compiled build has places
    in the operation instead (`watch_table.pyx`).

    Attributes:
        operation: The DelayedOperation that waits; None once the watch has left its list.
        sibling: The operation's watch of another key.
    """

    __slots__ = ("node_list", "node_next", "node_prev", "operation", "sibling")

    def __init__(self, operation: Any, sibling: Watch | None) -> None:
        self.operation = operation
        self.sibling = sibling
        self.node_list: WatcherList | None = None
        self.node_prev: Watch | None = None
        self.node_next: Watch | None = None


class WatcherList:
    """The watches of one key in the order of their arrival, doubly linked.

    Not thread-safe: callers hold the lock of the shard.

    Attributes:
        key: The watch key; None once the list has left the shard's map.
        shard: The index of the shard that has the list.
        removed: True once the list was empty and left the shard's map. A thread that still has it
            looks up the new list.
    """

    __slots__ = ("head", "key", "removed", "shard", "size", "tail")

    def __init__(self, key: Hashable, shard: int) -> None:
        self.key = key
        self.head: Watch | None = None
        self.tail: Watch | None = None
        self.size = 0
        self.shard = shard
        self.removed = False

    def append(self, watch: Watch) -> None:
        linked_list.append(self, watch)
        self.size += 1

    def remove(self, watch: Watch) -> None:
        linked_list.remove(self, watch)
        watch.operation = None
        self.size -= 1

    def check_invariants(self) -> None:
        count = linked_list.check(self)
        assert self.size == count, f"the list has {count} watches but counts {self.size}"
        assert all(watch.operation is not None for watch in linked_list.objects_in(self)), (
            "a watch without an operation is linked"
        )


class WatchShard:
    """The watcher lists of the keys that hash to one shard.

    The shard's lock guards the links of its lists and the changes of the map. It is held for a few
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
        watch = Watch(operation, operation._watches)
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
        watchers.append(watch)
        operation._watches = watch
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
        self.lock.acquire()
        try:
            return [watch.operation for watch in linked_list.objects_in(watchers)]
        finally:
            self.lock.release()

    def only_operation(self, watchers: WatcherList) -> DelayedOperation | None:
        """Return the operation of a list that has exactly one entry; None for any other list."""
        operation: DelayedOperation | None = None
        self.lock.acquire()
        if watchers.size == 1 and watchers.head is not None:
            operation = watchers.head.operation
        self.lock.release()
        return operation

    def lists(self) -> list[WatcherList]:
        return list(self._lists.values())

    def drop(self, watchers: WatcherList, operation: DelayedOperation) -> bool:
        """Remove an operation from a list, and a list that is empty then; False if not there."""
        self.lock.acquire()
        watch = operation._watches
        while watch is not None:
            if linked_list.is_in(watchers, watch):
                return self._unlink(watchers, watch)
            watch = watch.sibling
        self.lock.release()
        return False

    def drop_watch(self, watch: Watch) -> bool:
        """Remove a watch of this shard from its list; False if another thread has removed it."""
        self.lock.acquire()
        watchers = linked_list.list_of(watch)
        if watchers is None:
            self.lock.release()
            return False
        return self._unlink(watchers, watch)

    def _unlink(self, watchers: WatcherList, watch: Watch) -> bool:
        """Remove a watch from its list, under the lock, which is released; True."""
        watchers.remove(watch)
        if watchers.size > 0:
            self.lock.release()
            return True
        watchers.removed = True
        # A watch keeps its list alive. An operation that is its own key would keep itself alive by
        # the list's key. The key lives until the lock is released.
        key, watchers.key = watchers.key, None
        failed: Exception | None = None
        try:
            popped = self._lists.pop(key, None)
            if popped is not None and popped is not watchers and not popped.removed:
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
            watch = watchers.head
            while watch is not None:
                operation = None
                self.lock.acquire()
                watch = watchers.head
                if watch is not None:
                    operation = watch.operation
                    watchers.remove(watch)
                self.lock.release()
                if operation is not None:
                    removed.push(operation)
            watchers.key = None  # As in `_unlink`; the map still has the key.
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
            watchers.check_invariants()


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

    def shard_of(self, key: Hashable) -> WatchShard:
        shards = self.shards
        return shards[hash(key) & self._mask]

    def watch(
        self, operation: DelayedOperation, keys: list[Hashable] | tuple[Hashable, ...]
    ) -> None:
        """Watch the operation under each key, until it has ended. Called once for an operation."""
        for key in keys:
            if operation._state != states.PENDING:
                break
            self.shard_of(key).watch(key, operation)

    def drop_watches(self, operation: DelayedOperation) -> int:
        """Remove one operation from every watcher list, and return the number of entries."""
        dropped = 0
        watch = operation._watches
        while watch is not None:
            watchers = linked_list.list_of(watch)
            if watchers is not None and self.shards[watchers.shard].drop_watch(watch):
                dropped += 1
            watch = watch.sibling
        return dropped

    def is_watched(self, operation: DelayedOperation) -> bool:
        watch = operation._watches
        while watch is not None:
            if linked_list.is_linked(watch):
                return True
            watch = watch.sibling
        return False

    def is_first_list(self, operation: DelayedOperation, watchers: WatcherList) -> bool:
        """Return True for the first of the lists that the operation is in, by its order of keys.

        A walk over all lists counts each operation once by it, and remembers none of them.
        """
        first = None
        watch = operation._watches  # The last key's.
        while watch is not None:
            found = linked_list.list_of(watch)
            if found is not None:
                first = found
            watch = watch.sibling
        return first is watchers

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
