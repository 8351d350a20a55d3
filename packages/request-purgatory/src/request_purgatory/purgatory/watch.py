"""A place in the list of operations that watch one key, and that list."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from request_purgatory._native import linked_list


class Watch:
    """An operation's place in the watcher list of one key.

    The watches of one operation are chained. So an operation that has ended leaves every list in
    O(1) each, without a walk past operations that are still pending. The compiled build has places
    in the operation instead (`watch_table.pyx`).

    Attributes:
        operation: The DelayedOperation that waits; None once the watch has left its list. Typed as
            Any because `operation.py` imports this module.
        sibling: The operation's watch of another key.
        node_list, node_prev, node_next: The list, and the watch's neighbours there.
    """

    __slots__ = ("node_list", "node_next", "node_prev", "operation", "sibling")

    operation: Any
    sibling: Watch | None
    node_list: WatcherList | None
    node_prev: Watch | None
    node_next: Watch | None

    def __init__(self, operation: Any, sibling: Watch | None) -> None:
        """Make a watch that is in no list yet."""
        self.operation = operation
        self.sibling = sibling
        self.node_list = None
        self.node_prev = None
        self.node_next = None


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
        linked_list.append(self, watch)
        self.size += 1

    def remove(self, watch: Watch) -> None:
        """Unlink a watch of this list."""
        linked_list.remove(self, watch)
        watch.operation = None
        self.size -= 1

    def check_invariants(self) -> None:
        """Assert that the links agree with one another and with the size."""
        count = linked_list.check(self)
        assert self.size == count, f"the list has {count} watches but counts {self.size}"
        assert all(watch.operation is not None for watch in linked_list.objects_in(self)), (
            "a watch without an operation is linked"
        )
