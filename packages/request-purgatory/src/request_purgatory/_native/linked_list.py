"""Doubly linked lists through the objects that are in them: linking allocates nothing.

A list has the attributes `head` and `tail`, and an object that can be linked has `node_list`,
`node_prev` and `node_next`. None of these functions is thread-safe: the caller holds the lock of
the list. Compiled, `linked_list.h` takes the place of this module; there an object may have several
places, and the header has the rules for references.
"""

from __future__ import annotations

from typing import Any


def append(linked_list: Any, linked: Any) -> None:
    """Append an object that is in no list."""
    tail = linked_list.tail
    linked.node_list = linked_list
    linked.node_prev = tail
    if tail is None:
        linked_list.head = linked
    else:
        tail.node_next = linked
    linked_list.tail = linked


def remove(linked_list: Any, linked: Any) -> None:
    """Remove an object that is in this list; the caller has a reference to the object."""
    before = linked.node_prev
    after = linked.node_next
    if before is None:
        linked_list.head = after
    else:
        before.node_next = after
        linked.node_prev = None
    if after is None:
        linked_list.tail = before
    else:
        after.node_prev = before
        linked.node_next = None
    linked.node_list = None


def pop_first(linked_list: Any) -> Any:
    """Remove and return the first object; None if the list is empty."""
    first = linked_list.head
    if first is not None:
        remove(linked_list, first)
    return first


def detach_first(linked_list: Any) -> Any:
    """Remove and return the first object for a move: it names this list until it is in another.

    So a thread that looks without the lock never takes it for an object that is in no list.
    """
    first = linked_list.head
    if first is not None:
        after = first.node_next
        linked_list.head = after
        if after is None:
            linked_list.tail = None
        else:
            after.node_prev = None
            first.node_next = None
    return first


def is_empty(linked_list: Any) -> bool:
    return linked_list.head is None


def list_of(linked: Any) -> Any:
    return linked.node_list


def is_linked(linked: Any) -> bool:
    return linked.node_list is not None


def is_in(linked_list: Any, linked: Any) -> bool:
    return linked.node_list is linked_list


def objects_in(linked_list: Any) -> list[Any]:
    found = []
    linked = linked_list.head
    while linked is not None:
        found.append(linked)
        linked = linked.node_next
    return found


def count(linked_list: Any, at_most: int) -> int:
    """Return the number of objects in a list, or `at_most` if there are as many or more."""
    found = 0
    linked = linked_list.head
    while linked is not None and found < at_most:
        linked = linked.node_next
        found += 1
    return found


def check(linked_list: Any) -> int:
    """Assert that the links agree with one another, and return the number of objects."""
    count = 0
    before = None
    linked = linked_list.head
    while linked is not None:
        assert linked.node_list is linked_list, (
            f"{linked!r} is linked in a list that it does not name"
        )
        assert linked.node_prev is before, f"{linked!r} has a wrong link backwards"
        before = linked
        linked = linked.node_next
        count += 1
    assert linked_list.tail is before, "the list's tail is not its last object"
    return count
