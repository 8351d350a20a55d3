"""What has happened in the purgatories, interval by interval, for the pictures over time."""

from __future__ import annotations

import json
from collections import Counter, deque
from typing import Any

from request_purgatory._native.forks import IdentityRef
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
_NAMES = ("pending", "arrived", *_ENDS)


def _ends(reading: PurgatoryMetrics) -> Counter[str | int]:
    """Return how many operations have ended, in each way, and by the buckets of their waits."""
    waits = enumerate(reading.wait_histogram_ms)
    counts: Counter[str | int] = Counter({index: count for index, count in waits if count})
    counts.update({name: getattr(reading, field) for name, field in _ENDS.items()})
    counts["arrived"] = sum(counts[name] for name in _ENDS) + reading.num_delayed_operations
    return counts


def _as_json(counts: Counter[str | int]) -> dict[str, Any]:
    waits = sorted((key, count) for key, count in counts.items() if count and key not in _NAMES)
    values: dict[str, Any] = {name: counts[name] for name in _NAMES} | {"waits": waits}
    return {name: value for name, value in values.items() if value}


class SampleHistory:
    """The latest samples of purgatories. Not thread-safe.

    A sample has, by the purgatories' names, how many operations are pending, how many have come
    since the sample before, and how many have ended, in each way and by how long they waited.
    """

    def __init__(self, shown: Shown, clock: Clock) -> None:
        self._shown = shown
        self._clock = clock
        self._before: dict[IdentityRef[Readable], PurgatoryMetrics] = {
            IdentityRef(purgatory): purgatory.metrics() for purgatory in shown.purgatories()
        }
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
            "purgatories": {name: _as_json(counts) for name, counts in self._counts().items()},
        }
        self._before_ms = now_ms
        self._samples.append(json.dumps(sample, separators=(",", ":")))
        self.taken += 1

    def _counts(self) -> dict[str, Counter[str | int]]:
        """Return the counts since the last sample, the names with the most pending first."""
        by_name: dict[str, Counter[str | int]] = {}
        latest: dict[IdentityRef[Readable], PurgatoryMetrics] = {}
        for purgatory in self._shown.purgatories():
            reference = IdentityRef(purgatory)
            latest[reference] = metrics = purgatory.metrics()
            before = self._before.get(reference)
            counts = by_name.setdefault(purgatory.name, Counter())
            counts.update(_ends(metrics))
            if before is not None:
                counts.subtract(_ends(before))
            counts["pending"] += metrics.num_delayed_operations
        self._before = latest
        names = sorted(by_name, key=lambda name: (-by_name[name]["pending"], name))
        kept = {name: by_name[name] for name in names[:MAX_NAMES]}
        for name in names[MAX_NAMES:]:
            kept.setdefault(OTHERS, Counter()).update(by_name[name])
        return kept

    def since(self, seen: int) -> str:
        """Return the samples after the first `seen` ones, as a JSON array."""
        new = min(self.taken - seen, len(self._samples))
        return f"[{','.join(list(self._samples)[len(self._samples) - new :])}]"
