# cython: cdivision=True
# (Nothing that is divided here is negative, and no divisor is 0: C's own division will do.)
"""The hierarchical timing wheel: O(1) insertion for any delay."""

from __future__ import annotations

from collections.abc import Iterator

from request_purgatory._native import primitives
from request_purgatory.errors import InvalidArgumentError
from request_purgatory.timer.bucket import Bucket
from request_purgatory.timer.delay_queue import DelayQueue
from request_purgatory.timer.task import PendingTasks, TimerTask


def most_buckets(tick_ms: int, wheel_size: int) -> int:
    """How many buckets a wheel and those above it have once the longest delay was added."""
    buckets = wheel_size
    reach_ms = max(tick_ms, 1) * wheel_size
    while wheel_size > 1 and reach_ms <= 2 * primitives.MAX_DELAY_MS:
        buckets += wheel_size
        reach_ms *= wheel_size
    return buckets


class TimingWheel:
    """A ring of `wheel_size` buckets, each `tick_ms` wide, and coarser rings above it, made when first needed.

    A wheel of n buckets of u ms, at time c, takes what expires before c + n*u. Anything later
    overflows into a wheel whose ticks are as wide as this whole ring, n*u, and from there into
    n^2*u, and so on: five levels of twenty reach 53 minutes at 1 ms, nine reach 16 years. A bucket
    is used again round after round. When the time of a coarse bucket comes, its tasks go down into
    finer wheels, until the finest one holds them to the tick.

    Times are rounded *up* to the finest tick, once, when a task enters (`round_up`): a task is
    never early, and late by less than a tick. Above the finest wheel a bucket's expiration is the
    *start* of the span it covers, because its tasks have to be sorted into the finer wheel before
    the first of them is due.

    Three levels, tick 1 ms, size 3, at c = 0. Spans are [from, to):

        level  tick   takes until   buckets (expiration -> slot = expiration // tick % 3)
        0      1      3             1 -> 1, 2 -> 2
        1      3      9             3 -> 1, 6 -> 2
        2      9      27            9 -> 1, 18 -> 2

    A task due at 13 enters at level 2, in the bucket of [9, 18). At 9 that bucket comes due and the
    task goes to level 1, where c is 9 and the bucket of [12, 15) takes it. At 12 it goes to level
    0, bucket 13; at 13 it runs.

    >>> from request_purgatory.timer.delay_queue import DelayQueue
    >>> from request_purgatory.timer.task import PendingTasks, TimerTask
    >>> queue = DelayQueue()
    >>> wheel = TimingWheel(1, 3, 0, PendingTasks(), queue)
    >>> task = TimerTask(13)
    >>> task._expiration_ms = wheel.round_up(13)
    >>> while wheel.add(task):
    ...     bucket = queue.poll(now_ms=task._expiration_ms)
    ...     print(f"in the bucket that comes due at {bucket.expiration_ms}")
    ...     wheel.advance(bucket.expiration_ms)
    ...     bucket.expiration_ms = -1
    ...     bucket.remove(task)
    in the bucket that comes due at 9
    in the bucket that comes due at 12
    in the bucket that comes due at 13
    >>> wheel.levels
    3

    Not safe by itself: callers hold the timer's lock. After G. Varghese and T. Lauck, "Hashed and
    hierarchical timing wheels" (1987), scheme 6, with the delay queue of buckets that Apache Kafka
    drives its wheel by.
    """

    __slots__ = (
        "_overflow",
        "buckets",
        "current_ms",
        "interval_ms",
        "pending",
        "queue",
        "tick_ms",
        "wheel_size",
    )

    def __init__(
        self, tick_ms: int, wheel_size: int, start_ms: int, pending: PendingTasks, queue: DelayQueue
    ) -> None:
        """A wheel that stands at `start_ms`.

        `tick_ms` >= 1, `wheel_size` >= 2, or InvalidArgumentError.
        """
        if tick_ms < 1:
            raise InvalidArgumentError("tick_ms", "at least 1", tick_ms)
        if wheel_size < 2:
            raise InvalidArgumentError("wheel_size", "at least 2", wheel_size)
        self.tick_ms = tick_ms
        self.wheel_size = wheel_size
        # Cut where 64 bits end; no delay reaches so far, so there is never a wheel above such a
        # one.
        self.interval_ms = (
            tick_ms * wheel_size if tick_ms <= primitives.LIMIT // wheel_size else primitives.LIMIT
        )
        self.current_ms = start_ms - start_ms % tick_ms
        self.pending = pending
        self.queue = queue
        self.buckets = [Bucket(pending) for _ in range(wheel_size)]
        self._overflow: TimingWheel | None = None

    def round_up(self, expiration_ms: int) -> int:
        """The first tick that is not before `expiration_ms`."""
        tick_ms = self.tick_ms
        if tick_ms == 1:
            return expiration_ms
        return (expiration_ms + tick_ms - 1) // tick_ms * tick_ms

    def add(self, task: TimerTask) -> bool:
        """Link a task, whose `_expiration_ms` is a whole number of ticks.

        False if it is due already: not linked.
        """
        expiration_ms = task._expiration_ms
        if expiration_ms <= self.current_ms:
            return False
        wheel = self
        while expiration_ms >= wheel.current_ms + wheel.interval_ms:
            overflow = wheel._overflow
            if overflow is None:
                overflow = wheel.make_overflow()
                wheel.set_overflow(overflow)
            wheel = overflow
        tick_ms = wheel.tick_ms
        slot = expiration_ms if tick_ms == 1 else expiration_ms // tick_ms
        bucket = wheel.buckets[slot % wheel.wheel_size]
        if bucket.expiration_ms < 0:
            wheel.queue.push(bucket, slot * tick_ms)
        bucket._link(task)
        return True

    def advance(self, now_ms: int) -> None:
        """Move the clock of every level to `now_ms`.

        No bucket that is due at or before it may hold tasks still.
        """
        wheel: TimingWheel | None = self
        while wheel is not None and now_ms >= wheel.current_ms + wheel.tick_ms:
            wheel.current_ms = now_ms - now_ms % wheel.tick_ms
            wheel = wheel._overflow

    def make_overflow(self) -> TimingWheel:
        """The wheel that belongs above this one, which is not there yet."""
        return TimingWheel(
            self.interval_ms, self.wheel_size, self.current_ms, self.pending, self.queue
        )

    def set_overflow(self, overflow: TimingWheel) -> None:
        """Put a wheel that `make_overflow` made above this one; time may have passed meanwhile."""
        overflow.current_ms = self.current_ms - self.current_ms % overflow.tick_ms
        self._overflow = overflow

    def __iter__(self) -> Iterator[TimingWheel]:
        """This wheel and the overflow wheels above it that exist, finest first."""
        wheel: TimingWheel | None = self
        while wheel is not None:
            yield wheel
            wheel = wheel._overflow

    @property
    def levels(self) -> int:
        """How many wheels there are, this one and those above it."""
        return sum(1 for _ in self)

    @property
    def used_buckets(self) -> int:
        """How many of this level's buckets hold tasks."""
        return sum(bucket.head is not None for bucket in self.buckets)

    def check(self) -> int:
        """Assert every invariant of the wheels and the delay queue; how many tasks they hold."""
        self.queue.check()
        count = 0
        finer: TimingWheel | None = None
        for wheel in self:
            assert wheel.current_ms % wheel.tick_ms == 0, "a wheel stands between two ticks"
            if finer is not None:
                assert wheel.tick_ms == finer.interval_ms, (
                    "an overflow wheel's tick is not the finer one's interval"
                )
                assert wheel.current_ms == finer.current_ms - finer.current_ms % wheel.tick_ms, (
                    "a wheel lags behind"
                )
            for index, bucket in enumerate(wheel.buckets):
                held = bucket.check()
                count += held
                if held:
                    assert bucket.expiration_ms >= 0, (
                        "a bucket with tasks is not in the delay queue"
                    )
                if bucket.expiration_ms >= 0:
                    slot = bucket.expiration_ms // wheel.tick_ms
                    assert slot % wheel.wheel_size == index, (
                        "a bucket's expiration belongs to another slot"
                    )
                    assert bucket.expiration_ms > wheel.current_ms, (
                        "a bucket in the delay queue has been passed"
                    )
                for task in bucket.tasks():
                    ahead_ms = task._expiration_ms - bucket.expiration_ms
                    assert 0 <= ahead_ms < wheel.tick_ms, f"{task!r} is in a bucket of another time"
            finer = wheel
        return count
