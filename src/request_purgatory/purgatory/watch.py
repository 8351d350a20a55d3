"""Watcher lists: who waits for one key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from request_purgatory.purgatory.operation import DelayedOperation


class Watch:
    """An operation's place in the watcher list of one key.

    An operation's watches are chained, so whoever finds it ended can take it out of every list, in
    O(1) each and without a walk past the operations that are still pending. In the compiled build
    the cyclic collector does not track watches; their shard shows it the operations
    (`collector.pyx`).

    Attributes:
        operation: who waits; None once it was taken out of the list.
        watchers: the list; stays after that.
        sibling: the operation's watch of another key.
    """

    __slots__ = ("_next", "_prev", "operation", "sibling", "watchers")

    operation: DelayedOperation | None
    watchers: WatcherList | None
    sibling: Watch | None
    _prev: Watch | None
    _next: Watch | None

    # In place of __init__: a call of the type packs its arguments into a tuple and takes them out
    # again.
    def begin(self, operation: DelayedOperation, sibling: Watch | None) -> None:
        """A watch that is in no list yet."""
        self.operation = operation
        self.sibling = sibling
        self.watchers = None
        self._prev = None
        self._next = None


class WatcherList:
    """The watches of one key in the order in which they came, doubly linked.

    Not safe by itself: callers hold the shard's lock.

    Attributes:
        key: the watch key; None once the list has left the shard's map.
        head, tail: the first and the last watch.
        size: how many there are.
        shard: which shard of the purgatory has the list.
        removed: True once the list was empty and left the shard's map: whoever still has it looks
            for the new one.
    """

    __slots__ = ("head", "key", "removed", "shard", "size", "tail")

    key: Hashable
    head: Watch | None
    tail: Watch | None
    size: int
    shard: int
    removed: bool

    def begin(self, key: Hashable, shard: int) -> None:
        """An empty list; in place of __init__."""
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
        watch._prev = tail
        if tail is None:
            self.head = watch
        else:
            tail._next = watch
        self.tail = watch
        self.size += 1

    def remove(self, watch: Watch) -> None:
        """Unlink a watch of this list."""
        before = watch._prev
        after = watch._next
        if before is None:
            self.head = after
        else:
            before._next = after
        if after is None:
            self.tail = before
        else:
            after._prev = before
        watch._prev = None
        watch._next = None
        watch.operation = None
        self.size -= 1

    def check(self) -> None:
        """Assert that the links agree with one another and with the size."""
        count = 0
        before = None
        watch = self.head
        while watch is not None:
            assert watch.watchers is self, "a watch is linked in a list that it does not name"
            assert watch._prev is before, "a watch has a wrong link backwards"
            assert watch.operation is not None, "a watch without an operation is linked"
            before = watch
            watch = watch._next
            count += 1
        assert self.tail is before, "the list's tail is not its last watch"
        assert self.size == count, f"the list has {count} watches but counts {self.size}"
