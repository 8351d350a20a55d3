"""The watch table: which operations watch which key."""

from __future__ import annotations

import logging
from collections.abc import Hashable

from request_purgatory._native import primitives, states
from request_purgatory.purgatory.operation import DelayedOperation
from request_purgatory.purgatory.watch import Watch, WatcherList

logger = logging.getLogger(__name__)


class WatchShard:
    """The watcher lists of the keys that hash to one shard.

    The shard's lock guards the links of its lists and the changes of the map. It is held for a few
    loads and stores, and for the map's work when a key is added or removed, which may call the
    key's `__hash__` and `__eq__`. It is never held while an operation's code runs, and nothing that
    the cyclic collector counts is made under it. What is removed is returned to the caller and
    freed after the lock is released, because finalizers are user code.
    """

    __slots__ = ("_lists", "_lock", "_spare", "index")

    def __init__(self, index: int = 0) -> None:
        """Make the shard that has this index in its table."""
        self.index = index
        self._lock = primitives.CoreLock()
        self._lists: dict[Hashable, WatcherList] = {}
        # The last list that was emptied, for the next key that needs one.
        self._spare: WatcherList | None = None

    def watch(self, key: Hashable, operation: DelayedOperation, sibling: Watch | None) -> Watch:
        """Append the operation to the list of `key`.

        Returns:
            The new watch, chained to `sibling`.
        """
        watch = Watch.__new__(Watch)
        watch.begin(operation, sibling)
        lock = self._lock
        watchers = primitives.dict_get(self._lists, key)
        while True:
            if watchers is None:
                watchers = self._add_list(key)
            lock.acquire()
            if not watchers.removed:
                watchers.append(watch)
                lock.release()
                return watch
            lock.release()
            watchers = None

    def _add_list(self, key: Hashable) -> WatcherList:
        """Return the list of `key`, a new one if there is none."""
        made = None
        if primitives.HOLDS_GIL:
            made, self._spare = self._spare, None
            if made is not None and primitives.is_shared(made):
                made = None  # Another thread or a watch still has it.
        if made is None:
            made = WatcherList.__new__(WatcherList)
        made.begin(key, self.index)
        self._lock.acquire()
        try:
            watchers = self._lists.setdefault(key, made)
            if watchers.removed:
                # The key's __hash__ or __eq__ raised when this list should have left the map.
                self._lists[key] = watchers = made
        finally:
            self._lock.release()
        return watchers

    def get(self, key: Hashable) -> WatcherList | None:
        """Return the list of `key`; None if nothing watches the key."""
        return primitives.dict_get(self._lists, key)

    def watches(self, key: Hashable) -> list[Watch]:
        """Return the watches of `key` in the order of their arrival."""
        watchers = primitives.dict_get(self._lists, key)
        return [] if watchers is None else self.watches_of(watchers)

    def watches_of(self, watchers: WatcherList) -> list[Watch]:
        """Return the watches of one of this shard's lists in the order of their arrival."""
        watches: list[Watch] = []
        self._lock.acquire()
        try:
            watch = watchers.head
            while watch is not None:
                watches.append(watch)
                watch = watch.next
        finally:
            self._lock.release()
        return watches

    def operations_of(self, watchers: WatcherList) -> list[DelayedOperation]:
        """Return the operations of one of this shard's lists, once for each watch."""
        operations: list[DelayedOperation] = []
        self._lock.acquire()
        try:
            watch = watchers.head
            while watch is not None:
                operations.append(watch.operation)
                watch = watch.next
        finally:
            self._lock.release()
        return operations

    def only_watch(self, watchers: WatcherList) -> Watch | None:
        """Return the watch of a list that has exactly one; None for any other list."""
        self._lock.acquire()
        watch = watchers.head if watchers.size == 1 else None
        self._lock.release()
        return watch

    def lists(self) -> list[WatcherList]:
        """Return the lists of all keys."""
        return list(self._lists.values())

    def operation_of(self, watch: Watch) -> DelayedOperation | None:
        """Return the operation of one of this shard's watches; None if the watch was removed."""
        self._lock.acquire()
        operation: DelayedOperation | None = watch.operation
        self._lock.release()
        return operation

    def drop(self, watch: Watch) -> bool:
        """Remove one of this shard's watches from its list, and a list that is empty then.

        Returns:
            False if the watch was removed before.
        """
        watchers = watch.watchers
        lock = self._lock
        lock.acquire()
        operation = watch.operation  # Kept alive until the lock is released.
        if operation is None or watchers is None:
            lock.release()
            return False
        watchers.remove(watch)
        if watchers.head is not None:
            lock.release()
            return True
        watchers.removed = True
        # A watch keeps its list alive. An operation that is its own key would keep itself alive by
        # the list's key. The key lives until the lock is released.
        key, watchers.key = watchers.key, None
        failed: Exception | None = None
        try:
            self._lists.pop(key, None)
            if primitives.HOLDS_GIL:
                self._spare = watchers
        except Exception as error:
            failed = error
        finally:
            lock.release()
        if failed is not None:
            # Raised by the key's own __hash__ or __eq__. The map keeps an empty list of the key
            # until the key is watched again or the table is emptied.
            logger.error(
                "the __hash__ or __eq__ of a watch key of type %s raises: its list stays",
                type(key).__name__,
                exc_info=failed,
            )
        return True

    def remove(self, key: Hashable) -> list[DelayedOperation]:
        """Remove `key`.

        Returns:
            The operations that watched it.
        """
        operations: list[DelayedOperation] = []
        for watch in self.watches(key):
            operation = self.operation_of(watch)
            if operation is not None and self.drop(watch):
                operations.append(operation)
        return operations

    def remove_all(self) -> list[DelayedOperation]:
        """Empty the shard.

        For a purgatory that is closed: an operation that is watched later is removed by its caller.

        Returns:
            The operations of all lists, once for each key.
        """
        operations: list[DelayedOperation] = []
        for watchers in self.lists():
            for watch in self.watches_of(watchers):
                operation = self.operation_of(watch)
                self._lock.acquire()
                if watch.operation is not None:
                    watchers.remove(watch)
                self._lock.release()
                if operation is not None:
                    operations.append(operation)
            watchers.key = None  # As in `drop`; the map still has the key.
        # Not key by key: a key's __hash__ may raise by now.
        self._lists.clear()
        return operations

    def fork_lock(self) -> primitives.CoreLock:
        """Return the lock, which a fork holds."""
        return self._lock

    def renew_lock(self) -> None:
        """Replace the lock by a fresh one, in a forked child."""
        self._lock = primitives.CoreLock()

    @property
    def size(self) -> int:
        """The number of entries of all lists."""
        return sum(watchers.size for watchers in self.lists())

    @property
    def num_keys(self) -> int:
        """The number of keys that have a list."""
        return len(self._lists)

    def check_invariants(self) -> None:
        """Assert that the lists are in order and none of them is empty."""
        for key, watchers in self._lists.items():
            assert watchers.head is not None, f"the empty watcher list of {key!r} is in the map"
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
        self.shards = [WatchShard(index) for index in range(num_shards)]

    def shard_of(self, key: Hashable) -> WatchShard:
        """Return the shard that has the watcher list of `key`."""
        shards = self.shards
        return shards[hash(key) & self._mask]

    def watch(
        self, operation: DelayedOperation, keys: list[Hashable] | tuple[Hashable, ...]
    ) -> None:
        """Watch the operation under each key, until it has ended."""
        for key in keys:
            if operation._state != states.PENDING:
                break
            shard = self.shard_of(key)
            operation._watches = shard.watch(key, operation, operation._watches)

    def drop_watches(self, operation: DelayedOperation) -> int:
        """Remove one operation from every watcher list.

        Returns:
            The number of lists that had it.
        """
        dropped = 0
        watch = operation._watches
        while watch is not None:
            watchers = watch.watchers
            assert watchers is not None, "a watch was chained before it was in a list"
            shard = self.shards[watchers.shard]
            if shard.drop(watch):
                dropped += 1
            watch = watch.sibling
        return dropped

    def num_watchers(self, key: Hashable) -> int:
        """Return the number of entries in the watcher list of `key`."""
        watchers = self.shard_of(key).get(key)
        return 0 if watchers is None else watchers.size

    def remove_all(self) -> list[DelayedOperation]:
        """Empty the table.

        Returns:
            The operations of all lists, once for each key.
        """
        return [operation for shard in self.shards for operation in shard.remove_all()]

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
        """The number of keys that have a list."""
        return sum(shard.num_keys for shard in self.shards)

    @property
    def size(self) -> int:
        """The number of entries of all lists of all shards."""
        return sum(shard.size for shard in self.shards)

    def check_invariants(self) -> None:
        """Assert that every shard is in order."""
        for shard in self.shards:
            shard.check_invariants()
