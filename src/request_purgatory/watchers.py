"""The watcher lists of one shard: who waits for which key."""

from __future__ import annotations

import threading
from collections.abc import Hashable

from request_purgatory.operation import PENDING, DelayedOperation


class WatcherLists:
    """The watcher lists of the keys that hash to one shard.

    A watcher list is a plain Python list that is only ever appended to. Dropping ended operations makes a new list and puts
    it in the old one's place. So a thread may walk the first `len(list)` operations of a list it was given without a lock,
    running user code as it goes, while others watch, check and purge; what is appended behind it tries itself.

    The shard's lock guards the map; it is held for the map's own work, never while an operation's code runs.
    """

    __slots__ = ("_lists", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: dict[Hashable, list[DelayedOperation]] = {}

    def watch(self, key: Hashable, operation: DelayedOperation) -> None:
        """Append the operation to the key's list."""
        with self._lock:
            watchers = self._lists.get(key)
            if watchers is None:
                self._lists[key] = [operation]
            else:
                watchers.append(operation)

    def get(self, key: Hashable) -> list[DelayedOperation] | None:
        """The key's list, to be read only; None if nobody watches the key."""
        return self._lists.get(key)

    def drop_ended(self, key: Hashable) -> int:
        """Drop the key's ended operations, and the list with the last of them; how many went."""
        with self._lock:
            watchers = self._lists.get(key)
            return 0 if watchers is None else self._keep_pending(key, watchers)

    def purge(self) -> int:
        """Drop the ended operations of every list; how many entries went."""
        dropped = 0
        with self._lock:
            # Named, so that what is dropped lives until the lock is free: its finalizers are user code.
            lists = list(self._lists.items())
            for key, watchers in lists:
                for operation in watchers:
                    if operation._state != PENDING:
                        dropped += self._keep_pending(key, watchers)
                        break
        return dropped

    def remove(self, key: Hashable) -> list[DelayedOperation]:
        """Take the key out of the map; the operations of its list."""
        with self._lock:
            return self._lists.pop(key, [])

    def remove_all(self) -> list[DelayedOperation]:
        """Take every key out of the map; the operations of all lists, one that watches several keys several times."""
        with self._lock:
            lists = self._lists
            self._lists = {}
        return [operation for watchers in lists.values() for operation in watchers]

    def operations(self) -> list[DelayedOperation]:
        """The entries of all lists, ended operations that nobody has met yet among them."""
        with self._lock:
            return [operation for watchers in self._lists.values() for operation in watchers]

    @property
    def watched(self) -> int:
        """The number of entries of all lists."""
        with self._lock:
            return sum(map(len, self._lists.values()))

    @property
    def keys(self) -> int:
        """The number of keys that have a list."""
        return len(self._lists)

    def _keep_pending(self, key: Hashable, watchers: list[DelayedOperation]) -> int:
        kept = [operation for operation in watchers if operation._state == PENDING]
        dropped = len(watchers) - len(kept)
        if not kept:
            del self._lists[key]
        elif dropped:
            self._lists[key] = kept
        return dropped

    def check(self) -> None:
        """Assert that no list is empty."""
        with self._lock:
            for key, watchers in self._lists.items():
                assert watchers, f"the empty watcher list of {key!r} was left in the map"
