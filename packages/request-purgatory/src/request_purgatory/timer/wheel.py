# cython: cdivision=True
# (No dividend here is negative and no divisor is 0, so C's division gives Python's result.)
"""The hierarchical timing wheel: O(1) insertion for any delay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from request_purgatory._native import linked_list, primitives
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.timer._bucket import Bucket, PendingTasks
from request_purgatory.timer._delay_queue import DelayQueue
from request_purgatory.timer.task import TimerTask


def max_buckets(tick_ms: int, wheel_size: int) -> int:
    """Return the number of buckets of all wheels that the longest delay needs."""
    buckets = wheel_size
    reach_ms = max(tick_ms, 1) * wheel_size
    while reach_ms <= 2 * primitives.MAX_DELAY_MS:
        buckets += wheel_size
        reach_ms *= wheel_size
    return buckets


@dataclass(frozen=True, slots=True)
class WheelOccupancy:
    """The tasks of one wheel of a timer at one moment, bucket by bucket.

    Attributes:
        tick_ms: The width of a bucket.
        position: The index of the bucket that the present time is in.
        counts: The number of tasks in each bucket, by index.
    """

    tick_ms: int
    position: int
    counts: tuple[int, ...]


class TimingWheel:
    """A ring of `wheel_size` buckets, each `tick_ms` wide, with coarser overflow wheels above it.

    A wheel of n buckets of u ms, at time c, holds tasks that expire before c + n*u. A later task
    overflows into a wheel whose ticks are as wide as this whole ring, n*u. Above that wheel is one
    with ticks of n^2*u, and so on: at 1 ms, three levels of 256 reach 4.6 hours, five 34 years.
    Overflow wheels are made when first needed, and buckets are reused round after round. When a
    coarse bucket is due, its tasks move to finer wheels, and in the end to the finest one.

    Expirations are rounded *up* to the finest tick, once, when a task is added (`round_up`). So a
    task never runs early, and at most one tick late. Above the finest wheel a bucket expires at the
    *start* of its span: its tasks have to move to a finer wheel before the first of them is due.

    Example: three levels, tick 1 ms, size 3, at c = 0. Spans are [from, to):

        level  tick   holds until   buckets (expiration -> slot = expiration // tick % 3)
        0      1      3             1 -> 1, 2 -> 2
        1      3      9             3 -> 1, 6 -> 2
        2      9      27            9 -> 1, 18 -> 2

    A task due at 13 is added at level 2, to the bucket of [9, 18). At 9 that bucket is due, and the
    task moves to level 1, where c is 9, into the bucket of [12, 15). At 12 the task moves to
    level 0, bucket 13. At 13 it runs.

    >>> from request_purgatory.timer._bucket import PendingTasks
    >>> from request_purgatory.timer._delay_queue import DelayQueue
    >>> from request_purgatory.timer.task import TimerTask, remove_from
    >>> queue = DelayQueue()
    >>> wheel = TimingWheel(1, 3, 0, PendingTasks(), queue)
    >>> task = TimerTask(13)
    >>> task._timer_expiration_ms = wheel.round_up(13)
    >>> while wheel.add(task):
    ...     bucket = queue.poll(now_ms=task._timer_expiration_ms)
    ...     print(f"in the bucket that is due at {bucket.expiration_ms}")
    ...     wheel.advance(bucket.expiration_ms)
    ...     bucket.expiration_ms = -1
    ...     remove_from(bucket, task)
    in the bucket that is due at 9
    in the bucket that is due at 12
    in the bucket that is due at 13
    >>> len(list(wheel))
    3

    Not thread-safe: callers hold the timer's lock. The algorithm is scheme 7 of G. Varghese and T.
    Lauck, "Hashed and hierarchical timing wheels" (1987). As in Apache Kafka, a delay queue of
    buckets drives the wheel.

    Attributes:
        tick_ms: The width of one bucket.
        wheel_size: The number of buckets.
        interval_ms: The width of the whole ring, `tick_ms * wheel_size`.
        current_ms: The wheel's clock, rounded down to a tick.
        pending: The state shared by all buckets of the timer.
        queue: The delay queue, shared by all wheels of the timer.
        buckets: The ring.
        overflow_wheel: The next coarser wheel; None until it is needed.
    """

    __slots__ = (
        "buckets",
        "current_ms",
        "interval_ms",
        "overflow_wheel",
        "pending",
        "queue",
        "tick_ms",
        "wheel_size",
    )

    def __init__(
        self, tick_ms: int, wheel_size: int, start_ms: int, pending: PendingTasks, queue: DelayQueue
    ) -> None:
        if tick_ms < 1:
            raise InvalidArgumentError("tick_ms", "at least 1", tick_ms)
        if wheel_size < 2:
            raise InvalidArgumentError("wheel_size", "at least 2", wheel_size)
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        # Limited to what 64 bits hold. No delay is that long, so such a wheel never overflows.
        self.interval_ms = (
            tick_ms * wheel_size if tick_ms <= primitives.LIMIT // wheel_size else primitives.LIMIT
        )
        self.current_ms = start_ms - start_ms % tick_ms
        self.pending = pending
        self.queue = queue
        self.buckets = [Bucket(pending) for _ in range(wheel_size)]
        self.overflow_wheel: TimingWheel | None = None

    def round_up(self, expiration_ms: int) -> int:
        """Return the first tick at or after `expiration_ms`."""
        tick_ms = self.tick_ms
        if tick_ms == 1:
            return expiration_ms
        return (expiration_ms + tick_ms - 1) // tick_ms * tick_ms

    def add(self, task: TimerTask) -> bool:
        """Link a task into the bucket of its `_timer_expiration_ms`, a tick; False if it is due."""
        expiration_ms = task._timer_expiration_ms
        return expiration_ms > self.current_ms and self.link(task, expiration_ms)

    def link(self, task: TimerTask, expiration_ms: int) -> bool:
        """As `add`, for a task that is not due."""
        # No local name for a wheel: compiled, each would count a reference.
        if expiration_ms >= self.current_ms + self.interval_ms:
            if self.overflow_wheel is None:
                self.set_overflow(self.make_overflow())
            return self.overflow_wheel.link(task, expiration_ms)  # type: ignore[union-attr]
        tick_ms = self.tick_ms
        slot = expiration_ms if tick_ms == 1 else expiration_ms // tick_ms
        bucket = self.buckets[slot % self.wheel_size]
        if bucket.expiration_ms < 0:
            self.queue.push(bucket, slot * tick_ms)
        linked_list.append(bucket, task)
        self.pending.due_ms = bucket.expiration_ms
        return True

    def advance(self, now_ms: int) -> None:
        """Move the clock of every level to `now_ms`.

        All buckets that are due at `now_ms` or before have to be empty.
        """
        wheel: TimingWheel | None = self
        while wheel is not None and now_ms >= wheel.current_ms + wheel.tick_ms:
            wheel.current_ms = now_ms - now_ms % wheel.tick_ms
            wheel = wheel.overflow_wheel

    def go_back(self, now_ms: int, moved: Bucket) -> None:
        """Move the clock of every level back to `now_ms`, and each task to the bucket it has then.

        O(tasks). None of them is due: all expire after the later time. `moved` is an empty bucket.
        """
        bucket = self.queue.poll(primitives.LIMIT)
        while bucket is not None:
            bucket.expiration_ms = -1
            task = linked_list.detach_first(bucket)
            while task is not None:
                linked_list.append(moved, task)
                task = linked_list.detach_first(bucket)
            bucket = self.queue.poll(primitives.LIMIT)
        wheel: TimingWheel | None = self
        while wheel is not None:
            wheel.current_ms = now_ms - now_ms % wheel.tick_ms
            wheel = wheel.overflow_wheel
        task = linked_list.detach_first(moved)
        while task is not None:
            self.add(task)
            task = linked_list.detach_first(moved)

    def make_overflow(self) -> TimingWheel:
        """Return a new overflow wheel for this wheel, not attached yet."""
        return TimingWheel(
            self.interval_ms, self.wheel_size, self.current_ms, self.pending, self.queue
        )

    def set_overflow(self, overflow: TimingWheel) -> None:
        """Attach a wheel that `make_overflow` created; the clock may have advanced since."""
        overflow.current_ms = self.current_ms - self.current_ms % overflow.tick_ms
        self.overflow_wheel = overflow

    def __iter__(self) -> Iterator[TimingWheel]:
        """Yield this wheel and its overflow wheels, finest first."""
        wheel: TimingWheel | None = self
        while wheel is not None:
            yield wheel
            wheel = wheel.overflow_wheel
