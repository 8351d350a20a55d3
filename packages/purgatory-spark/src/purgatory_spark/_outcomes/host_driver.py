"""Replay one host's trace through a real purgatory on virtual time, in one or several parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from purgatory_spark._spark.arrays import Bools, Ints
from purgatory_spark._spark.worker_gc import gc_paused
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

    def play(self, requests: RequestPart, events: EventPart) -> None:
        """Replay the next part of the trace, which has all events of its interval."""
        request_rows = np.argsort(requests.arrived_us, kind="stable")
        # Events of the same time are sorted by amount, so that running totals do not depend on the
        # order of the rows.
        event_rows = np.lexsort((np.asarray(events.amounts, dtype=np.float64), events.occurred_us))
        self.set_requests(
            requests.timeouts_ms,
            requests.watch_keys,
            requests.aggregates,
            requests.thresholds,
            requests.quantifiers,
        )
        with gc_paused():
            self.play_sorted(
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
