"""How many tasks the buckets of a timing wheel hold."""

from __future__ import annotations

from dataclasses import dataclass


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
