"""A place in the list of operations that watch one key, and that list."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class Watch:
    """An operation's place in the watcher list of one key.

    The watches of one operation are chained. So an operation that has ended leaves every list in
    O(1) each, without a walk past operations that are still pending. The compiled build has places
    in the operation instead (`watch_table.pyx`).

    Attributes:
        operation: The DelayedOperation that waits; None once the watch has left its list. Typed as
            Any because `operation.py` imports this module.
        watchers: The list; kept after the watch has left it.
        sibling: The operation's watch of another key.
        prev: The watch before this one in the list.
        next: The watch after this one in the list.
    """

    __slots__ = ("next", "operation", "prev", "sibling", "watchers")

    operation: Any
    watchers: WatcherList | None
    sibling: Watch | None
    prev: Watch | None
    next: Watch | None

    def __init__(self, operation: Any, sibling: Watch | None) -> None:
        """Make a watch that is in no list yet."""
        self.operation = operation
        self.sibling = sibling
        self.watchers = None
        self.prev = None
        self.next = None


class WatcherList:
    """The watches of one key in the order of their arrival, doubly linked.

    Not thread-safe: callers hold the lock of the shard.

    Attributes:
        key: The watch key; None once the list has left the shard's map.
        head: The first watch.
        tail: The last watch.
        size: The number of watches.
        shard: The index of the shard that has the list.
        removed: True once the list was empty and left the shard's map. A thread that still has it
            looks up the new list.
    """

    __slots__ = ("head", "key", "removed", "shard", "size", "tail")

    key: Hashable
    head: Watch | None
    tail: Watch | None
    size: int
    shard: int
    removed: bool

    def __init__(self, key: Hashable, shard: int) -> None:
        """Make an empty list."""
        self.key = key
        self.head = None
        self.tail = None
        self.size = 0
        self.shard = shard
        self.removed = False

    def append(self, watch: Watch) -> None:
        """Link a new watch at the end."""
        tail = self.tail
        watch.watchers = self
        watch.prev = tail
        if tail is None:
            self.head = watch
        else:
            tail.next = watch
        self.tail = watch
        self.size += 1

    def remove(self, watch: Watch) -> None:
        """Unlink a watch of this list."""
        before = watch.prev
        after = watch.next
        if before is None:
            self.head = after
        else:
            before.next = after
        if after is None:
            self.tail = before
        else:
            after.prev = before
        watch.prev = None
        watch.next = None
        watch.operation = None
        self.size -= 1

    def check_invariants(self) -> None:
        """Assert that the links agree with one another and with the size."""
        count = 0
        before = None
        watch = self.head
        while watch is not None:
            assert watch.watchers is self, "a watch is linked in a list that it does not name"
            assert watch.prev is before, "a watch has a wrong link backwards"
            assert watch.operation is not None, "a watch without an operation is linked"
            before = watch
            watch = watch.next
            count += 1
        assert self.tail is before, "the list's tail is not its last watch"
        assert self.size == count, f"the list has {count} watches but counts {self.size}"
