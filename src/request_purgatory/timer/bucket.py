"""A bucket of the timing wheel: a doubly linked list through the tasks themselves."""

from __future__ import annotations

from request_purgatory.timer.task import PendingTasks, TaskList, TimerTask


class Bucket(TaskList):
    """The tasks of one slot of a wheel. Not safe by itself: callers hold `pending.lock`.

    Attributes:
        pending: shared by all buckets of the timer.
        expiration_ms: when the bucket comes due; -1 while it is not in the delay queue.
    """

    __slots__ = ("expiration_ms",)

    def __init__(self, pending: PendingTasks) -> None:
        super().__init__(pending)
        self.expiration_ms = -1

    def append(self, task: TimerTask) -> None:
        """Link a task that is in no bucket at the end."""
        self._link(task)

    def remove(self, task: TimerTask) -> None:
        """Unlink a task that is in this bucket."""
        self._unlink(task)

    def pop_first(self) -> TimerTask | None:
        """Unlink the first task and return it; None if the bucket is empty."""
        task = self.head
        if task is not None:
            self._unlink(task)
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
