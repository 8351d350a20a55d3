"""What has happened in the purgatories, interval by interval, for the pictures over time."""

from __future__ import annotations

import json
import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from request_purgatory.clock import Clock
from request_purgatory.dashboard.shown import Readable, Shown
from request_purgatory.purgatory.counters import WAIT_BUCKETS
from request_purgatory.purgatory.metric_table import PurgatoryMetrics

#: Samples that are kept: ten minutes, at one a second.
LENGTH = 600
#: The most purgatories of one sample. The others are added up under one name.
MAX_NAMES = 50
OTHERS = "(others)"


@dataclass(slots=True)
class _Counts:
    """What happened in the purgatories of one name in one interval."""

    pending: int = 0
    completed: int = 0
    expired: int = 0
    cancelled: int = 0
    waits: list[int] = field(default_factory=lambda: [0] * WAIT_BUCKETS)

    def add(self, now: PurgatoryMetrics, before: PurgatoryMetrics | None) -> None:
        """Add a purgatory's reading, less the one before; None is a new purgatory."""
        self.pending += now.num_delayed_operations
        self.completed += now.completions - (before.completions if before else 0)
        self.expired += now.expirations - (before.expirations if before else 0)
        self.cancelled += now.cancellations - (before.cancellations if before else 0)
        for index, count in enumerate(now.wait_histogram_ms):
            self.waits[index] += count - (before.wait_histogram_ms[index] if before else 0)

    def merge(self, other: _Counts) -> None:
        self.pending += other.pending
        self.completed += other.completed
        self.expired += other.expired
        self.cancelled += other.cancelled
        self.waits = [one + each for one, each in zip(self.waits, other.waits, strict=True)]

    def as_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "pending": self.pending,
            "completed": self.completed,
            "expired": self.expired,
            "cancelled": self.cancelled,
            "waits": [[index, count] for index, count in enumerate(self.waits) if count],
        }
        return {name: value for name, value in found.items() if value}


class SampleHistory:
    """The latest samples of purgatories. Not thread-safe.

    A sample has, by the purgatories' names, how many operations are pending, and how many have
    ended since the sample before, in each way and by how long they waited.
    """

    def __init__(self, shown: Shown, clock: Clock) -> None:
        self._shown = shown
        self._clock = clock
        self._before: weakref.WeakKeyDictionary[Readable, PurgatoryMetrics] = (
            weakref.WeakKeyDictionary({each: each.metrics() for each in shown.purgatories()})
        )
        self._before_ms = clock.now_ms
        #: The samples as JSON, and the number of those that were taken.
        self._samples: deque[str] = deque(maxlen=LENGTH)
        self.taken = 0

    def take(self) -> None:
        """Add a sample. O(watched keys) for each purgatory."""
        now_ms = self._clock.now_ms
        sample = {
            "at_ms": now_ms,
            "span_ms": now_ms - self._before_ms,
            "purgatories": {name: each.as_json() for name, each in self._counts().items()},
        }
        self._before_ms = now_ms
        self._samples.append(json.dumps(sample, separators=(",", ":")))
        self.taken += 1

    def _counts(self) -> dict[str, _Counts]:
        """Return the counts since the last sample, the names with the most pending first."""
        found: dict[str, _Counts] = {}
        for purgatory in self._shown.purgatories():
            metrics = purgatory.metrics()
            before = self._before.get(purgatory)
            found.setdefault(purgatory.name, _Counts()).add(metrics, before)
            self._before[purgatory] = metrics
        names = sorted(found, key=lambda name: (-found[name].pending, name))
        kept = {name: found[name] for name in names[:MAX_NAMES]}
        for name in names[MAX_NAMES:]:
            kept.setdefault(OTHERS, _Counts()).merge(found[name])
        return kept

    def since(self, seen: int) -> str:
        """Return the samples after the first `seen` ones, as a JSON array."""
        new = min(self.taken - seen, len(self._samples))
        return f"[{','.join(list(self._samples)[len(self._samples) - new :])}]"
