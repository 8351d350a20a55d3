"""Replay one host's trace through a real purgatory on virtual time, in one or several parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from purgatory_spark._spark.arrays import Bools, Ints
from purgatory_spark._spark.worker_gc import gc_paused
from request_purgatory import DelayedOperationPurgatory, ManualClock, SystemTimer
from request_purgatory.replay.replay_driver import ReplayDriver


@dataclass(frozen=True, slots=True)
class RequestPart:
    """Requests of one host in columns, in any order; times are in microseconds since the epoch."""

    arrived_us: Ints
    timeouts_ms: list[int]
    watch_keys: list[list[str]] | list[list[str] | None]
    aggregates: list[str]
    thresholds: list[float]
    quantifiers: list[str]


@dataclass(frozen=True, slots=True)
class EventPart:
    """Events of one host in columns, in any order; times are in microseconds since the epoch."""

    occurred_us: Ints
    keys: list[str]
    amounts: list[float]


@dataclass(frozen=True, slots=True)
class EndedRequests:
    """Requests that have ended, in columns; times are in microseconds since the epoch.

    `row` is that in the `RequestPart`. An expired request ends when its timeout's callback runs.
    """

    row: Ints
    arrived_us: Ints
    deadline_us: Ints
    ended_us: Ints
    expired: Bools


class HostDriver(ReplayDriver):
    """A `ReplayDriver` that is given parts of a trace as NumPy arrays, in any order."""

    def __init__(
        self, purgatory: DelayedOperationPurgatory, clock: ManualClock, first_us: int
    ) -> None:
        super().__init__(purgatory, clock, first_us)
        self._samples = 0
        # By tick: the number of buckets with tasks, summed over all samples, and its maximum.
        self._bucket_usage: dict[int, tuple[int, int]] = {}

    def play(self, requests: RequestPart, events: EventPart) -> None:
        """Replay the next part of the trace, which has all events of its interval."""
        request_rows = np.argsort(requests.arrived_us, kind="stable")
        # Events of the same time are sorted by amount, so that running totals do not depend on the
        # order of the rows.
        event_rows = np.lexsort((np.asarray(events.amounts, dtype=np.float64), events.occurred_us))
        with gc_paused():
            self.play_sorted(
                requests,
                request_rows.tolist(),
                requests.arrived_us[request_rows].tolist(),
                event_rows.tolist(),
                events.occurred_us[event_rows].tolist(),
                events.keys,
                events.amounts,
            )

    def ended(self) -> EndedRequests:
        """Return the requests that ended in the latest call of `play` or `finish`."""
        columns = {
            name: np.frombuffer(column, dtype=np.int64)
            for name, column in self.ends.ended().items()
        }
        return EndedRequests(**columns | {"expired": columns["expired"].astype(bool)})

    def sample(self) -> None:
        """Count the timing wheels' buckets with tasks."""
        timer = self.purgatory.timer
        if isinstance(timer, SystemTimer):
            self._samples += 1
            for wheel in timer.occupancy(at_most=1):
                used = sum(wheel.counts)
                total, peak = self._bucket_usage.get(wheel.tick_ms, (0, 0))
                self._bucket_usage[wheel.tick_ms] = total + used, max(peak, used)

    def counts(self) -> dict[str, Any]:
        """Return the counters of the purgatory and of this replay, by name."""
        metrics = self.purgatory.metrics()
        return {
            "requests": self.arrivals,
            "events": self.events,
            "completed": metrics.completions,
            "expired": metrics.expirations,
            "peak_pending": self.peak_pending,
            "peak_queued": self.peak_queued,
            "purges": metrics.purges,
            "purged_entries": metrics.purged_entries,
            "tries": self.ends.tries,
            "callbacks": self.ends.callbacks,
            "callback_errors": metrics.callback_errors,
        }

    def occupancy(self, wheel_size: int) -> list[dict[str, Any]]:
        """Return the usage of the timing wheels, the finest one first.

        The mean is over all samples; a wheel that did not exist yet at a sample counts as empty.
        """
        return [
            {
                "tick_ms": tick_ms,
                "buckets": wheel_size,
                "mean_used": total / self._samples,
                "peak_used": peak,
            }
            for tick_ms, (total, peak) in sorted(self._bucket_usage.items())
        ]
