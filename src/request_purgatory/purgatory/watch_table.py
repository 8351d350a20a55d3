"""The watcher lists of one shard: who waits for which key."""

from __future__ import annotations

import logging
from collections.abc import Hashable
from typing import TYPE_CHECKING

from request_purgatory._native import primitives
from request_purgatory.purgatory.watch import Watch, WatcherList

if TYPE_CHECKING:
    from request_purgatory.purgatory.operation import DelayedOperation

logger = logging.getLogger(__name__)


class WatcherLists:
    """The watcher lists of the keys that hash to one shard.

    The shard's lock guards the links of its lists and the map's changes. It is held for a handful
    of loads and stores, and for the map's work when a key comes or goes, which may call the key's
    `__hash__` and `__eq__`; never while an operation's code runs, and nothing that the collector
    counts is made under it. What is taken out is given to the caller, and freed when the lock is
    free: its finalizers are user code.
    """

    __slots__ = ("_lists", "_lock", "index")

    def __init__(self, index: int = 0) -> None:
        """The shard that is `index` of its purgatory."""
        self.index = index
        self._lock = primitives.CoreLock()
        self._lists: dict[Hashable, WatcherList] = {}

    def watch(self, key: Hashable, operation: DelayedOperation, sibling: Watch | None) -> Watch:
        """Append the operation to the key's list; its watch, chained to `sibling`."""
        watch = Watch.__new__(Watch)
        watch.begin(operation, sibling)
        lock = self._lock
        watchers = primitives.look_up(self._lists, key)
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
        """The key's list, a new one if there is none."""
        made = WatcherList.__new__(WatcherList)
        made.begin(key, self.index)
        self._lock.acquire()
        try:
            watchers = self._lists.setdefault(key, made)
            if (
                watchers.removed
            ):  # Left here by a key whose __hash__ or __eq__ raised while the list was to leave.
                self._lists[key] = watchers = made
        finally:
            self._lock.release()
        return watchers

    def get(self, key: Hashable) -> WatcherList | None:
        """The key's list; None if nobody watches the key."""
        return primitives.look_up(self._lists, key)

    def watches(self, key: Hashable) -> list[Watch]:
        """The watches of a key, in the order in which they came."""
        watchers = primitives.look_up(self._lists, key)
        return [] if watchers is None else self.watches_of(watchers)

    def watches_of(self, watchers: WatcherList) -> list[Watch]:
        """The watches of one of this shard's lists, in the order in which they came."""
        watches: list[Watch] = []
        self._lock.acquire()
        try:
            watch = watchers.head
            while watch is not None:
                watches.append(watch)
                watch = watch._next
        finally:
            self._lock.release()
        return watches

    def first(self, watchers: WatcherList) -> Watch | None:
        """The only watch of one of this shard's lists; None if there are more, or none."""
        self._lock.acquire()
        watch = watchers.head if watchers.size == 1 else None
        self._lock.release()
        return watch

    def lists(self) -> list[WatcherList]:
        """The lists of all keys."""
        return list(self._lists.values())

    def operation_of(self, watch: Watch) -> DelayedOperation | None:
        """The operation of one of this shard's watches; None if it was taken out."""
        self._lock.acquire()
        operation = watch.operation
        self._lock.release()
        return operation

    def drop(self, watch: Watch) -> bool:
        """Take one of this shard's watches out of its list, and the list out of the map with the last one. False if it is out."""
        watchers = watch.watchers
        lock = self._lock
        lock.acquire()
        operation = watch.operation  # Lives until the lock is free.
        if operation is None or watchers is None:
            lock.release()
            return False
        watchers.remove(watch)
        if watchers.head is not None:
            lock.release()
            return True
        watchers.removed = True
        # A watch keeps its list. With the key, an operation that is a key would keep itself. It
        # lives until the lock is free.
        key, watchers.key = watchers.key, None
        failed: Exception | None = None
        try:
            self._lists.pop(key, None)
        except Exception as error:
            failed = error
        finally:
            lock.release()
        if failed is not None:
            # The key's own __hash__ or __eq__. It stays in the map with an empty list, until it is
            # watched again or all goes.
            logger.error(
                "watch key %s can't be looked up any more", type(key).__name__, exc_info=failed
            )
        return True

    def remove(self, key: Hashable) -> list[DelayedOperation]:
        """Take the key out of the map; the operations of its list."""
        operations: list[DelayedOperation] = []
        for watch in self.watches(key):
            operation = self.operation_of(watch)
            if operation is not None and self.drop(watch):
                operations.append(operation)
        return operations

    def remove_all(self) -> list[DelayedOperation]:
        """Empty the shard; the operations of all lists, one that watches several keys several times.

        For a purgatory that is closed: whoever still comes to watch takes itself out again.
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
            watchers.key = None  # As in `drop`; the map has the key yet.
        # Not key by key: a key may have a __hash__ that raises by now.
        self._lists.clear()
        return operations

    def fork_lock(self) -> primitives.CoreLock:
        """Return the lock, which a fork holds."""
        return self._lock

    def renew_lock(self) -> None:
        """Take a fresh lock, in a forked child."""
        self._lock = primitives.CoreLock()

    def operations(self) -> list[DelayedOperation]:
        """The entries of all lists, ended operations that nobody has met yet among them."""
        watches = [watch for watchers in self.lists() for watch in self.watches_of(watchers)]
        found = [self.operation_of(watch) for watch in watches]
        return [operation for operation in found if operation is not None]

    @property
    def watched(self) -> int:
        """The number of entries of all lists."""
        return sum([watchers.size for watchers in self.lists()])

    @property
    def keys(self) -> int:
        """The number of keys that have a list."""
        return len(self._lists)

    def check(self) -> None:
        """Assert that the lists are in order, and none of them is empty."""
        for key, watchers in self._lists.items():
            assert watchers.head is not None, (
                f"the empty watcher list of {key!r} was left in the map"
            )
            assert not watchers.removed, (
                f"the watcher list of {key!r} is in the map although it was removed"
            )
            watchers.check()
