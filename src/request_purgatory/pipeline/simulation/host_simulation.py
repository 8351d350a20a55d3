"""A simulated host: its trace is made block by block and goes through a real purgatory at once.

Only sums are kept.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from request_purgatory.clock import ManualClock
from request_purgatory.pipeline.analysis.histogram import Histogram
from request_purgatory.pipeline.outcomes.condition import Ints
from request_purgatory.pipeline.outcomes.replay import ReplaySettings
from request_purgatory.pipeline.outcomes.replay_driver import EventPart, HostDriver, RequestPart
from request_purgatory.pipeline.spark.worker_gc import paused
from request_purgatory.pipeline.traces.workload import (
    START,
    Block,
    Workload,
    host_blocks,
    host_name,
)

Part = tuple[RequestPart, EventPart]

#: Quantiles of the waiting times, by the name of their column.
QUANTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}

_START_US = int(START.timestamp()) * 1_000_000
_NO_TIMES: Ints = np.zeros(0, dtype=np.int64)


class Timeline:
    """Counts by bin of time. Bins are of one width and begin at the workload's `START`."""

    COLUMNS = ("arrived", "completed", "expired")

    def __init__(self, bin_us: int) -> None:
        """Bins of `bin_us` microseconds."""
        self._bin_us = bin_us
        self._counts: dict[str, Ints] = dict.fromkeys(self.COLUMNS, _NO_TIMES)

    def add(self, column: str, times_us: Ints) -> None:
        """Count moments, in microseconds since the epoch."""
        if len(times_us):
            self._put(column, np.bincount((times_us - _START_US) // self._bin_us).astype(np.int64))

    def merge(self, other: Timeline) -> None:
        """Add what another one of the same width counted."""
        for column, counts in other._counts.items():
            self._put(column, counts)

    def _put(self, column: str, counts: Ints) -> None:
        known = self._counts[column]
        total = np.zeros(max(len(known), len(counts)), dtype=np.int64)
        total[: len(known)] += known
        total[: len(counts)] += counts
        self._counts[column] = total

    def rows(self) -> list[dict[str, int]]:
        """A row a bin that is not empty: `bin` and the `COLUMNS`."""
        columns = [self._counts[column] for column in self.COLUMNS]
        table = np.zeros((max(map(len, columns)), len(columns)), dtype=np.int64)
        for number, column in enumerate(columns):
            table[: len(column), number] = column
        bins = np.flatnonzero(table.any(axis=1)).tolist()
        return [
            {"bin": bin_, **dict(zip(self.COLUMNS, table[bin_].tolist(), strict=True))}
            for bin_ in bins
        ]


class Ends:
    """How requests ended.

    The histograms of their waits in microseconds, by outcome, and the timeline. Adds up.
    """

    def __init__(self, bin_us: int) -> None:
        """Nothing has ended."""
        self.completed = Histogram()
        self.expired = Histogram()
        self.timeline = Timeline(bin_us)

    def merge(self, other: Ends) -> None:
        """Add another part's."""
        self.completed.merge(other.completed)
        self.expired.merge(other.expired)
        self.timeline.merge(other.timeline)

    def waits(self) -> Histogram:
        """Of all requests."""
        both = Histogram()
        both.merge(self.completed)
        both.merge(self.expired)
        return both


class SimulatedHost(HostDriver):
    """One host whose requests are counted as they end, and then gone: memory is for what is pending, however many there are.

    Attributes:
        ends: what became of those that have ended, up to the last `play` or `finish`.
    """

    def __init__(self, settings: ReplaySettings, first_us: int, bin_us: int) -> None:
        """A host on which nothing happens before `first_us`."""
        clock = ManualClock()
        super().__init__(settings.purgatory(clock), clock, first_us)
        self._settings = settings
        self.ends = Ends(bin_us)
        self._peak_keys = 0
        self._waited_us = 0
        self._longest_us = 0
        self._latest_us = 0

    def sample(self) -> None:
        super().sample()
        self._peak_keys = max(self._peak_keys, sum(shard.keys for shard in self.purgatory._shards))

    def play(self, requests: RequestPart, events: EventPart) -> None:
        super().play(requests, events)
        self.ends.timeline.add("arrived", requests.arrived_us)
        self._count_ends()

    def finish(self) -> None:
        super().finish()
        self._count_ends()

    def _count_ends(self) -> None:
        ended = self.ended()
        # By the trace's rule a request that expires has ended at its deadline, whenever the timeout
        # fired.
        moments = np.where(ended.expired, ended.deadline_us, ended.ended_us)
        waits = moments - ended.arrived_us
        for column, histogram, chosen in (
            ("completed", self.ends.completed, ~ended.expired),
            ("expired", self.ends.expired, ended.expired),
        ):
            if chosen.any():
                self.ends.timeline.add(column, moments[chosen])
                histogram.add(waits[chosen])
        if len(waits):
            self._waited_us += int(waits.sum())
            self._longest_us = max(self._longest_us, int(waits.max()))
            self._latest_us = max(self._latest_us, int((ended.ended_us - moments).max()))

    def row(self) -> dict[str, Any]:
        """What happened on this host.

        A row of `simulation.HOSTS`, but for its name and what it cost.
        """
        waits = self.ends.waits()
        quantiles = wait_quantiles(waits, self._longest_us)
        return {
            "design": self._settings.design,
            **self.counts(),
            "peak_watched_keys": self._peak_keys,
            "mean_ms": self._waited_us / waits.total / 1000 if waits.total else None,
            **quantiles,
            "max_ms": self._longest_us / 1000,
            "max_late_ms": self._latest_us / 1000,
            "wheel": self.occupancy(self._settings.wheel_size),
        }


def wait_quantiles(waits: Histogram, longest_us: int) -> dict[str, float | None]:
    """The `QUANTILES` of a histogram of waits in microseconds, in ms.

    None is beyond the longest wait, which is known exactly.
    """
    found = {name: waits.quantile(share) for name, share in QUANTILES.items()}
    return {
        name: None if wait_us is None else min(wait_us, longest_us) / 1000
        for name, wait_us in found.items()
    }


def parts(blocks: Iterable[Block]) -> Iterator[Part]:
    """A host's trace in parts for `HostDriver.play`.

    No instant is in two, and events wait for the part that they fall into.
    """
    arrived, occurred = _NO_TIMES, _NO_TIMES
    watched: list[list[str]] = []
    keys = np.zeros(0, dtype=object)
    workload: Workload | None = None
    for block in blocks:
        workload = block.workload
        own = block.own_keys().to_numpy(zero_copy_only=False)
        arrived = np.concatenate([arrived, block.arrived_us])
        watched += _watch_keys(block, own)
        occurred = np.concatenate([occurred, block.occurred_us])
        keys = np.concatenate([keys, own])
        come = int(np.searchsorted(arrived, block.end_us))
        early = occurred < block.end_us
        if come or early.any():
            yield _part(workload, arrived[:come], watched[:come], occurred[early], keys[early])
        arrived, watched = arrived[come:], watched[come:]
        occurred, keys = occurred[~early], keys[~early]
    if workload is not None and len(arrived) + len(occurred):
        yield _part(workload, arrived, watched, occurred, keys)


def _watch_keys(block: Block, own: np.ndarray[Any, np.dtype[np.object_]]) -> list[list[str]]:
    pool = np.array([f"key-{number}" for number in range(block.workload.keys)], dtype=object)
    lists: list[list[str]] = np.column_stack([own, pool[block.shared]]).tolist()
    return lists


def _part(
    workload: Workload,
    arrived: Ints,
    watched: list[list[str]],
    occurred: Ints,
    keys: np.ndarray[Any, np.dtype[np.object_]],
) -> Part:
    count = len(arrived)
    requests = RequestPart(
        arrived,
        [workload.timeout_ms] * count,
        watched,
        ["count"] * count,
        [1.0] * count,
        ["any"] * count,
    )
    return requests, EventPart(occurred, keys.tolist(), [float(workload.amount)] * len(keys))


def simulate_host(
    workload: Workload, host: int, settings: ReplaySettings, bin_us: int
) -> tuple[dict[str, Any], Ends]:
    """Make one host's trace of a workload that is drawn `host_by_host`, and replay it: a row of `simulation.HOSTS`, and its ends.

    In memory are a block or two of requests, those that are pending, the events to come of requests
    that have arrived, and the entries of ended ones that are not purged yet.
    """
    begun = time.process_time()
    making = 0.0
    trace = parts(host_blocks(workload, host))
    simulated: SimulatedHost | None = None
    while True:
        before = time.process_time()
        with paused():
            part = next(trace, None)
        making += time.process_time() - before
        if part is None:
            break
        requests, events = part
        if simulated is None:
            # No event comes before its request.
            simulated = SimulatedHost(settings, int(requests.arrived_us[0]), bin_us)
        simulated.play(requests, events)
        # Each key has one event, and the request that it is for has arrived.
        simulated.forget(events.keys)
    assert simulated is not None
    simulated.finish()
    spent = time.process_time() - begun
    costs = {"make_cpu_seconds": making, "replay_cpu_seconds": spent - making}
    return {"host": host_name(workload, host)} | simulated.row() | costs, simulated.ends
