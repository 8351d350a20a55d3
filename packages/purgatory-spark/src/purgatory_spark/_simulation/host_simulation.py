"""Simulation of one host: its trace is made and replayed block by block, in bounded memory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from purgatory_spark._analysis.aggregates import QUANTILES
from purgatory_spark._analysis.histogram import Histogram, added
from purgatory_spark._outcomes.host_driver import EventPart, HostDriver, RequestPart
from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._spark.worker_gc import gc_paused
from purgatory_spark._traces.workload import START, Workload, host_name
from purgatory_spark._traces.workload_blocks import Block, host_blocks
from request_purgatory.clock import ManualClock

TracePart = tuple[RequestPart, EventPart]

_START_US = int(START.timestamp()) * 1_000_000
_NO_TIMES: Ints = np.zeros(0, dtype=np.int64)


def count_rows(index: str, counts: Mapping[str, Ints]) -> list[dict[str, int]]:
    """Return the index and the counts of each position at which one of them is not 0."""
    table = np.zeros((max(map(len, counts.values())), len(counts)), dtype=np.int64)
    for number, column in enumerate(counts.values()):
        table[: len(column), number] = column
    return [
        {index: at, **dict(zip(counts, table[at].tolist(), strict=True))}
        for at in np.flatnonzero(table.any(axis=1)).tolist()
    ]


class Timeline:
    """Counts of arrivals and ends in bins of equal width, from the workload's `START` on."""

    COLUMNS = ("arrived", "completed", "expired")

    def __init__(self, bin_us: int) -> None:
        self._bin_us = bin_us
        self._counts: dict[str, Ints] = dict.fromkeys(self.COLUMNS, _NO_TIMES)

    def add(self, column: str, times_us: Ints) -> None:
        if len(times_us):
            bins = (times_us - _START_US) // self._bin_us
            self._add_counts(column, np.bincount(bins).astype(np.int64))

    def merge(self, other: Timeline) -> None:
        for column, counts in other._counts.items():
            self._add_counts(column, counts)

    def _add_counts(self, column: str, counts: Ints) -> None:
        self._counts[column] = added(self._counts[column], counts)

    def rows(self) -> list[dict[str, int]]:
        """Return `bin`, the bin's index, and the counts in `COLUMNS` for each non-empty bin."""
        return count_rows("bin", self._counts)


class OutcomeCounts:
    """Counts of outcomes that can be merged; waiting times are in microseconds."""

    def __init__(self, bin_us: int) -> None:
        self.completed = Histogram()
        self.expired = Histogram()
        self.timeline = Timeline(bin_us)

    def merge(self, other: OutcomeCounts) -> None:
        self.completed.merge(other.completed)
        self.expired.merge(other.expired)
        self.timeline.merge(other.timeline)

    def wait_rows(self) -> list[dict[str, int]]:
        """Return rows of `cluster_simulation.WAITS`."""
        return count_rows(
            "bucket", {"completed": self.completed.counts, "expired": self.expired.counts}
        )

    def waits(self) -> Histogram:
        both = Histogram()
        both.merge(self.completed)
        both.merge(self.expired)
        return both


class SimulatedHost(HostDriver):
    """One host whose requests are counted when they end, and then dropped.

    Memory depends on the number of pending requests, and not on the number of all requests.
    """

    def __init__(self, settings: ReplaySettings, first_us: int, bin_us: int) -> None:
        """Create a host; no request or event is before `first_us`."""
        clock = ManualClock()
        super().__init__(settings.purgatory(clock), clock, first_us)
        self._settings = settings
        self.counts_by_outcome = OutcomeCounts(bin_us)
        self._peak_keys = 0
        self._total_wait_us = 0
        self._max_wait_us = 0
        self._max_late_us = 0

    def sample(self) -> None:
        """Look at the occupied buckets, and at the number of watched keys."""
        super().sample()
        self._peak_keys = max(self._peak_keys, self.purgatory.num_keys)

    def play(self, requests: RequestPart, events: EventPart) -> None:
        super().play(requests, events)
        self.counts_by_outcome.timeline.add("arrived", requests.arrived_us)
        self._count_ended()

    def finish(self) -> None:
        super().finish()
        self._count_ended()

    def _count_ended(self) -> None:
        ended = self.ended()
        # By the trace's rule an expired request ends at its deadline, even if its timeout fires
        # later.
        ends_us = np.where(ended.expired, ended.deadline_us, ended.ended_us)
        waits_us = ends_us - ended.arrived_us
        counts = self.counts_by_outcome
        for column, histogram, chosen in (
            ("completed", counts.completed, ~ended.expired),
            ("expired", counts.expired, ended.expired),
        ):
            if chosen.any():
                counts.timeline.add(column, ends_us[chosen])
                histogram.add(waits_us[chosen])
        if len(waits_us):
            self._total_wait_us += int(waits_us.sum())
            self._max_wait_us = max(self._max_wait_us, int(waits_us.max()))
            self._max_late_us = max(self._max_late_us, int((ended.ended_us - ends_us).max()))

    def row(self) -> dict[str, Any]:
        """Return the row of `cluster_simulation.HOSTS`, without the host's name and CPU times."""
        waits = self.counts_by_outcome.waits()
        return {
            "design": self._settings.design,
            **self.counts(),
            "peak_watched_keys": self._peak_keys,
            "mean_ms": self._total_wait_us / waits.total / 1000 if waits.total else None,
            **wait_quantiles(waits, self._max_wait_us),
            "max_ms": self._max_wait_us / 1000,
            "max_late_ms": self._max_late_us / 1000,
            "wheel": self.occupancy(self._settings.wheel_size),
        }


def wait_quantiles(waits: Histogram, max_wait_us: int) -> dict[str, float | None]:
    """Return the `QUANTILES` in ms of waits in microseconds; None without requests."""
    quantiles = {name: waits.quantile(share) for name, share in QUANTILES.items()}
    return {
        name: None if wait_us is None else min(wait_us, max_wait_us) / 1000
        for name, wait_us in quantiles.items()
    }


def trace_parts(blocks: Iterable[Block]) -> Iterator[TracePart]:
    """Convert the blocks of a host's trace to parts for `HostDriver.play`, in order of time.

    A block has the events of its own requests, and many of them occur during later blocks. A part
    has all requests and events of a span of time: no two parts share an instant.
    """
    arrived, occurred = _NO_TIMES, _NO_TIMES
    watched: list[list[str]] = []
    keys = np.zeros(0, dtype=object)
    workload: Workload | None = None
    for block in blocks:
        workload = block.workload
        own_keys = block.own_keys().to_numpy(zero_copy_only=False)
        arrived = np.concatenate([arrived, block.arrived_us])
        pool = np.array([f"key-{number}" for number in range(workload.keys)], dtype=object)
        watched += np.column_stack([own_keys, pool[block.shared]]).tolist()
        occurred = np.concatenate([occurred, block.occurred_us])
        keys = np.concatenate([keys, own_keys])
        num_arrived = int(np.searchsorted(arrived, block.end_us))
        early = occurred < block.end_us
        if num_arrived or early.any():
            yield _part(
                workload, arrived[:num_arrived], watched[:num_arrived], occurred[early], keys[early]
            )
        arrived, watched = arrived[num_arrived:], watched[num_arrived:]
        occurred, keys = occurred[~early], keys[~early]
    if workload is not None and len(arrived) + len(occurred):
        yield _part(workload, arrived, watched, occurred, keys)


def request_part(
    arrived: Ints, timeout_ms: int, watched: list[list[str]] | list[list[str] | None]
) -> RequestPart:
    count = len(arrived)
    timeouts = [timeout_ms] * count
    return RequestPart(
        arrived, timeouts, watched, ["count"] * count, [1.0] * count, ["any"] * count
    )


def _part(
    workload: Workload,
    arrived: Ints,
    watched: list[list[str]],
    occurred: Ints,
    keys: np.ndarray[Any, np.dtype[np.object_]],
) -> TracePart:
    requests = request_part(arrived, workload.timeout_ms, watched)
    return requests, EventPart(occurred, keys.tolist(), [float(workload.amount)] * len(keys))


def simulate_host(
    workload: Workload, host: int, settings: ReplaySettings, bin_us: int
) -> tuple[dict[str, Any], OutcomeCounts]:
    """Make one host's trace and replay it, block by block.

    In memory are at most two blocks of requests, the pending requests, the future events of
    requests that have arrived, and the watcher-list entries of ended requests until they are
    purged.
    """
    began = time.process_time()
    making_s = 0.0
    trace = trace_parts(host_blocks(workload, host))
    simulated: SimulatedHost | None = None
    while True:
        before = time.process_time()
        with gc_paused():
            part = next(trace, None)
        making_s += time.process_time() - before
        if part is None:
            break
        requests, events = part
        if simulated is None:
            # No event occurs before its request arrives.
            simulated = SimulatedHost(settings, int(requests.arrived_us[0]), bin_us)
        simulated.play(requests, events)
        # Each key has one event, and only the request that it completes watches the key.
        simulated.forget(events.keys)
    assert simulated is not None
    simulated.finish()
    total_s = time.process_time() - began
    row = {
        "host": host_name(workload, host),
        **simulated.row(),
        "make_cpu_seconds": making_s,
        "replay_cpu_seconds": total_s - making_s,
    }
    return row, simulated.counts_by_outcome
