"""A bucket of the timing wheel."""

from __future__ import annotations

from request_purgatory.timer.task import PendingTasks, TaskList, TimerTask


class Bucket(TaskList):
    """The tasks of one slot of a wheel. Not thread-safe: callers hold `pending.lock`.

    Attributes:
        pending: The state shared by all buckets of the timer.
        expiration_ms: When the bucket is due; -1 while it is not in the delay queue.
    """

    __slots__ = ("expiration_ms",)

    def __init__(self, pending: PendingTasks) -> None:
        super().__init__(pending)
        self.expiration_ms = -1

    def append(self, task: TimerTask) -> None:
        """Append a task that is in no bucket."""
        self.link(task)

    def remove(self, task: TimerTask) -> None:
        """Remove a task that is in this bucket."""
        self.unlink(task)

    def pop_first(self) -> TimerTask | None:
        """Remove the first task.

        Returns:
            The task; None if the bucket is empty.
        """
        task = self.head
        if task is not None:
            self.unlink(task)
        return task

    def tasks(self) -> list[TimerTask]:
        """Return the tasks, in order."""
        found = []
        task = self.head
        while task is not None:
            found.append(task)
            task = task.timer_next
        return found

    def check(self) -> int:
        """Assert that the links are consistent.

        Returns:
            The number of tasks.
        """
        count = 0
        before = None
        task = self.head
        while task is not None:
            assert task.timer_list is self, f"{task!r} is linked in a bucket that it does not name"
            assert task.timer_prev is before, f"{task!r} has a wrong link backwards"
            before = task
            task = task.timer_next
            count += 1
        assert self.tail is before, "the bucket's tail is not its last task"
        return count
