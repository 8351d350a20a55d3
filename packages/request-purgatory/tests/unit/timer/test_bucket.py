"""The bucket: a doubly linked list through the tasks."""

from __future__ import annotations

import gc
import weakref

import pytest

import request_purgatory
from request_purgatory import InvalidArgumentError, TaskInUseError, TimerTask
from request_purgatory.timer._bucket import Bucket, PendingTasks
from request_purgatory.timer.task import append_to, remove_from


@pytest.fixture
def bucket() -> Bucket:
    """Return an empty bucket."""
    return Bucket(PendingTasks())


def fill(bucket: Bucket, count: int) -> list[TimerTask]:
    """Append `count` new tasks."""
    tasks = [TimerTask(1) for _ in range(count)]
    for task in tasks:
        append_to(bucket, task)
    return tasks


def test_new_bucket_is_empty_and_has_no_expiration(bucket: Bucket) -> None:
    assert bucket.tasks() == []
    assert bucket.expiration_ms == -1
    assert bucket.check() == 0


def test_tasks_keep_the_order_they_were_appended_in(bucket: Bucket) -> None:
    tasks = fill(bucket, 5)
    assert bucket.tasks() == tasks
    assert bucket.check() == 5


@pytest.mark.parametrize("place", [0, 1, 2, 3], ids=["first", "second", "third", "last"])
def test_task_is_removed_from_any_place(bucket: Bucket, place: int) -> None:
    tasks = fill(bucket, 4)
    moved = tasks.pop(place)
    remove_from(bucket, moved)
    assert bucket.tasks() == tasks
    assert bucket.check() == 3
    append_to(bucket, moved)
    assert bucket.tasks() == [*tasks, moved]
    assert bucket.check() == 4


def test_removing_the_only_task_leaves_a_usable_bucket(bucket: Bucket) -> None:
    (task,) = fill(bucket, 1)
    remove_from(bucket, task)
    assert bucket.tasks() == []
    assert bucket.check() == 0
    assert fill(bucket, 2) == bucket.tasks()


def test_removed_task_can_go_to_another_bucket(bucket: Bucket) -> None:
    tasks = fill(bucket, 3)
    other = Bucket(bucket.pending)
    remove_from(bucket, tasks[1])
    append_to(other, tasks[1])
    assert (bucket.check(), other.check()) == (2, 1)
    assert other.tasks() == [tasks[1]]


@pytest.mark.skipif(request_purgatory.__compiled__, reason="C alone sets the links of a task")
def test_check_finds_a_task_that_is_in_two_buckets(bucket: Bucket) -> None:
    (task,) = fill(bucket, 1)
    task.node_list = None
    append_to(Bucket(bucket.pending), task)
    with pytest.raises(AssertionError, match="does not name"):
        bucket.check()


def test_task_in_a_bucket_is_not_appended_to_another(bucket: Bucket) -> None:
    (task,) = fill(bucket, 1)
    other = Bucket(bucket.pending)
    with pytest.raises(TaskInUseError, match="is in a bucket"):
        append_to(other, task)
    with pytest.raises(InvalidArgumentError, match="task must be in"):
        remove_from(other, task)
    assert (bucket.check(), other.check()) == (1, 0)


class WeakTask(TimerTask):
    """A task that shows when it is freed."""

    __slots__ = ("__weakref__",)


@pytest.mark.skipif(
    not request_purgatory.__compiled__, reason="interpreted, a task has a reference to its bucket"
)
def test_bucket_that_goes_first_lets_its_tasks_go() -> None:
    bucket = Bucket(PendingTasks())
    kept, dropped = WeakTask(1), WeakTask(1)
    seen = weakref.ref(dropped)
    append_to(bucket, dropped)
    append_to(bucket, kept)
    del bucket, dropped
    gc.collect()
    assert seen() is None
    assert kept._timer_list is None
    later = Bucket(PendingTasks())
    append_to(later, kept)
    assert later.check() == 1
