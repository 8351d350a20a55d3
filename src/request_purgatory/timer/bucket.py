"""A bucket of the timing wheel: a doubly linked list through the tasks themselves."""

from __future__ import annotations

from request_purgatory import native
from request_purgatory.timer.task import TaskList, TimerTask


class PendingTasks:
    """What all buckets of one timer share: the lock that guards every link, and the number of tasks linked.

    One lock a timer, held for a few list operations and never while a task runs.
    """

    __slots__ = ("count", "lock")

    def __init__(self) -> None:
        self.lock = native.CoreLock()
        self.count = 0


class Bucket(TaskList):
    """The tasks of one slot of a wheel. Not safe by itself, but for `take_out`: callers hold `pending.lock`.

    Attributes:
        pending: shared by all buckets of the timer.
        expiration_ms: when the bucket comes due; -1 while it is not in the delay queue.
    """

    __slots__ = ("expiration_ms", "head", "pending", "tail")

    def __init__(self, pending: PendingTasks) -> None:
        self.pending = pending
        self.expiration_ms = -1
        self.head: TimerTask | None = None
        self.tail: TimerTask | None = None

    def __lt__(self, other: Bucket) -> bool:
        """Order in the delay queue."""
        return self.expiration_ms < other.expiration_ms

    def append(self, task: TimerTask) -> None:
        """Link a task that is in no bucket at the end."""
        tail = self.tail
        task._bucket = self
        task._prev = tail
        if tail is None:
            self.head = task
        else:
            tail._next = task
        self.tail = task

    def remove(self, task: TimerTask) -> None:
        """Unlink a task that is in this bucket."""
        before = task._prev
        after = task._next
        if before is None:
            self.head = after
        else:
            before._next = after
        if after is None:
            self.tail = before
        else:
            after._prev = before
        task._bucket = None
        task._prev = None
        task._next = None

    def take_out(self, task: TimerTask) -> bool:
        pending = self.pending
        pending.lock.acquire()
        found = task._bucket is self
        if found:
            self.remove(task)
            pending.count -= 1
        pending.lock.release()
        return found

    def pop_first(self) -> TimerTask | None:
        """Unlink the first task and return it; None if the bucket is empty."""
        task = self.head
        if task is not None:
            self.remove(task)
        return task

    def tasks(self) -> list[TimerTask]:
        """The tasks in order."""
        found = []
        task = self.head
        while task is not None:
            found.append(task)
            task = task._next
        return found

    def check(self) -> int:
        """Assert that the links agree with one another; how many tasks there are."""
        count = 0
        before = None
        task = self.head
        while task is not None:
            assert task._bucket is self, f"{task!r} is linked in a bucket that it does not name"
            assert task._prev is before, f"{task!r} has a wrong link backwards"
            before = task
            task = task._next
            count += 1
        assert self.tail is before, "the bucket's tail is not its last task"
        return count
