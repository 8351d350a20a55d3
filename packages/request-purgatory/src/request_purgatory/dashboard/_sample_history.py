"""What has happened in the purgatories, interval by interval, for the pictures over time."""

from __future__ import annotations

import json
import weakref
from collections import Counter, deque
from typing import Any

from request_purgatory.clock import Clock
from request_purgatory.dashboard._shown import Readable, Shown
from request_purgatory.purgatory._metric_table import PurgatoryMetrics

#: Samples that are kept: ten minutes, at one a second.
LENGTH = 600
#: The most purgatories of one sample. The others are added up under one name.
MAX_NAMES = 50
OTHERS = "(others)"


#: The counters of a sample, by their names there.
_ENDS = {"completed": "completions", "expired": "expirations", "cancelled": "cancellations"}


class _Counts:
    """What happened in the purgatories of one name in one interval."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.waits: Counter[int] = Counter()

    def add(self, now: PurgatoryMetrics, before: PurgatoryMetrics | None) -> None:
        """Add a purgatory's reading, less the one before; None is a new purgatory."""
        self.counts["pending"] += now.num_delayed_operations
        self.waits.update(dict(enumerate(now.wait_histogram_ms)))
        for name, field in _ENDS.items():
            self.counts[name] += getattr(now, field)
            if before is not None:
                self.counts[name] -= getattr(before, field)
        if before is not None:
            self.waits.subtract(dict(enumerate(before.wait_histogram_ms)))

    def merge(self, other: _Counts) -> None:
        self.counts.update(other.counts)
        self.waits.update(other.waits)

    def as_json(self) -> dict[str, Any]:
        waits = [[index, count] for index, count in sorted(self.waits.items()) if count]
        values: dict[str, Any] = {**self.counts, "waits": waits}
        return {name: value for name, value in values.items() if value}


class SampleHistory:
    """The latest samples of purgatories. Not thread-safe.

    A sample has, by the purgatories' names, how many operations are pending, and how many have
    ended since the sample before, in each way and by how long they waited.
    """

    def __init__(self, shown: Shown, clock: Clock) -> None:
        self._shown = shown
        self._clock = clock
        self._before: weakref.WeakKeyDictionary[Readable, PurgatoryMetrics] = (
            weakref.WeakKeyDictionary(
                {purgatory: purgatory.metrics() for purgatory in shown.purgatories()}
            )
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
            "purgatories": {name: counts.as_json() for name, counts in self._counts().items()},
        }
        self._before_ms = now_ms
        self._samples.append(json.dumps(sample, separators=(",", ":")))
        self.taken += 1

    def _counts(self) -> dict[str, _Counts]:
        """Return the counts since the last sample, the names with the most pending first."""
        by_name: dict[str, _Counts] = {}
        for purgatory in self._shown.purgatories():
            metrics = purgatory.metrics()
            before = self._before.get(purgatory)
            by_name.setdefault(purgatory.name, _Counts()).add(metrics, before)
            self._before[purgatory] = metrics
        names = sorted(by_name, key=lambda name: (-by_name[name].counts["pending"], name))
        kept = {name: by_name[name] for name in names[:MAX_NAMES]}
        for name in names[MAX_NAMES:]:
            kept.setdefault(OTHERS, _Counts()).merge(by_name[name])
        return kept

    def since(self, seen: int) -> str:
        """Return the samples after the first `seen` ones, as a JSON array."""
        new = min(self.taken - seen, len(self._samples))
        return f"[{','.join(list(self._samples)[len(self._samples) - new :])}]"
