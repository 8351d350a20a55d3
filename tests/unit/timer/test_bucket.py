"""The bucket: a doubly linked list through the tasks."""

from __future__ import annotations

import gc
import weakref

import pytest

import request_purgatory
from request_purgatory import TimerTask
from request_purgatory.timer.bucket import Bucket, PendingTasks


@pytest.fixture
def bucket() -> Bucket:
    """Return an empty bucket."""
    return Bucket(PendingTasks())


def fill(bucket: Bucket, count: int) -> list[TimerTask]:
    """Append `count` new tasks."""
    tasks = [TimerTask(1) for _ in range(count)]
    for task in tasks:
        bucket.append(task)
    return tasks


def test_new_bucket_is_empty_and_has_no_expiration(bucket: Bucket) -> None:
    """It has no tasks and is not in a delay queue."""
    assert bucket.tasks() == []
    assert bucket.pop_first() is None
    assert bucket.expiration_ms == -1
    assert bucket.check() == 0


def test_tasks_keep_the_order_they_were_appended_in(bucket: Bucket) -> None:
    """The first task in is the first one out."""
    tasks = fill(bucket, 5)
    assert bucket.tasks() == tasks
    assert [bucket.pop_first() for _ in range(6)] == [*tasks, None]
    assert bucket.check() == 0


@pytest.mark.parametrize("place", [0, 1, 2, 3], ids=["first", "second", "third", "last"])
def test_task_is_removed_from_any_place(bucket: Bucket, place: int) -> None:
    """The other tasks keep their order, and the task can be appended again."""
    tasks = fill(bucket, 4)
    moved = tasks.pop(place)
    bucket.remove(moved)
    assert bucket.tasks() == tasks
    assert bucket.check() == 3
    bucket.append(moved)
    assert bucket.tasks() == [*tasks, moved]
    assert bucket.check() == 4


def test_removing_the_only_task_leaves_a_usable_bucket(bucket: Bucket) -> None:
    """Head and tail are both reset."""
    (task,) = fill(bucket, 1)
    bucket.remove(task)
    assert bucket.tasks() == []
    assert bucket.check() == 0
    assert fill(bucket, 2) == bucket.tasks()


def test_removed_task_can_go_to_another_bucket(bucket: Bucket) -> None:
    """It keeps no link to its old bucket."""
    tasks = fill(bucket, 3)
    other = Bucket(bucket.pending)
    bucket.remove(tasks[1])
    other.append(tasks[1])
    assert (bucket.check(), other.check()) == (2, 1)
    assert other.tasks() == [tasks[1]]


def test_check_finds_a_task_that_is_in_two_buckets(bucket: Bucket) -> None:
    """The invariant check detects a broken list."""
    (task,) = fill(bucket, 1)
    other = Bucket(bucket.pending)
    other.append(task)
    with pytest.raises(AssertionError, match="does not name"):
        bucket.check()


class WeakTask(TimerTask):
    """A task that shows when it is freed."""

    __slots__ = ("__weakref__",)


@pytest.mark.skipif(
    not request_purgatory.__compiled__, reason="interpreted, a task has a reference to its bucket"
)
def test_bucket_that_goes_first_lets_its_tasks_go() -> None:
    """A task that the program has is in no bucket then; the others are freed."""
    bucket = Bucket(PendingTasks())
    kept, dropped = WeakTask(1), WeakTask(1)
    seen = weakref.ref(dropped)
    bucket.append(dropped)
    bucket.append(kept)
    del bucket, dropped
    gc.collect()
    assert seen() is None
    assert kept.timer_list is None
    later = Bucket(PendingTasks())
    later.append(kept)
    assert later.check() == 1
