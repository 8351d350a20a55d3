"""A bucket of the timing wheel."""

from __future__ import annotations

from typing import Any

from request_purgatory._native import linked_list, primitives


class PendingTasks:
    """The state that all buckets of one timer share.

    `lock` guards every link of the timer. It is held for a few list operations, never while a task
    runs.

    Attributes:
        count: The tasks in all buckets.
        due_ms: When the bucket is due that a task was linked into last.
        passed_over: True while the cyclic collector does not look into the buckets.
    """

    __slots__ = ("count", "due_ms", "lock", "passed_over")

    def __init__(self) -> None:
        self.lock = primitives.CoreLock()
        self.count = 0
        self.due_ms = -1
        self.passed_over = False


class Bucket:
    """The tasks of one slot of a wheel, in the order in which they were added.

    Tasks are typed as Any, because `task.py` imports this module. Only `remove_if_linked`
    and `count_tasks` are thread-safe. Callers of the other methods hold `pending.lock`.

    Attributes:
        expiration_ms: When the bucket is due; -1 while it is not in the delay queue.
    """

    __slots__ = ("expiration_ms", "head", "pending", "tail")

    def __init__(self, pending: PendingTasks) -> None:
        self.pending = pending
        self.expiration_ms = -1
        if not primitives.COMPILED:  # A constant: compiled, the links begin as none.
            self.head = None
            self.tail = None

    def remove_if_linked(self, task: Any) -> bool:
        """Remove a task and count it, under the timer's lock; False if it is not in this bucket."""
        # No local name for what timers share: compiled, each would count a reference.
        self.pending.lock.acquire()
        found = linked_list.is_in(self, task)
        if found:
            linked_list.remove(self, task)
            self.pending.count -= 1
        self.pending.lock.release()
        return found

    @property
    def is_empty(self) -> bool:
        return linked_list.is_empty(self)

    def tasks(self) -> list[Any]:
        return linked_list.objects_in(self)

    def count_tasks(self, at_most: int) -> int:
        """Return the number of tasks, at most `at_most`, counted under the timer's lock."""
        pending = self.pending
        pending.lock.acquire()
        found = linked_list.count(self, at_most)
        pending.lock.release()
        return found

    def check(self) -> int:
        return linked_list.check(self)

    def __dealloc__(self) -> None:
        # Compiled, a task has no reference to its bucket, which may go first where a timer is
        # dropped. Interpreted, nothing calls this.
        while linked_list.pop_first(self) is not None:
            pass
