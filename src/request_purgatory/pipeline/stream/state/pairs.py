"""The keys that requests wait for, as columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.outcomes.condition import (
    NEVER,
    Bools,
    Floats,
    Ints,
    first_index,
)
from request_purgatory.pipeline.stream.state.columns import Columns, column, find
from request_purgatory.pipeline.stream.state.keys import EventRun
from request_purgatory.pipeline.traces.schema import AGGREGATES

#: A key that a request waits for: it is satisfied once the key's aggregate less `before` reaches
#: `need`. `request` is a row of a table of requests, `aggregate` a position in `schema.AGGREGATES`.
PAIRS = pa.schema(
    {
        "request": pa.int32(),
        "key": pa.int64(),
        "aggregate": pa.int8(),
        "before": pa.float64(),
        "need": pa.float64(),
    }
)

_HIGH = AGGREGATES.index("max")
#: More than what two roundings may change of a sum, as a part of it.
_ROUNDING = 1e-15


#: Rows of a table.
Rows = np.ndarray[Any, np.dtype[np.int32]]


@dataclass
class Pairs(Columns):
    """Keys that requests wait for."""

    SCHEMA = PAIRS

    request: Rows
    key: Ints
    aggregate: Ints
    before: Floats
    need: Floats

    @classmethod
    def of_requests(cls, requests: pa.Table) -> Pairs:
        """Every key of new requests (`REQUEST_ROWS`); `before` is not known yet."""
        keys = requests.column("keys").combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = pa.concat_arrays(keys.chunks) if keys.num_chunks else pa.array([], keys.type)
        lengths = np.diff(keys.offsets.to_numpy()) if len(keys) else np.array([], dtype=np.int64)
        row = np.repeat(np.arange(len(keys), dtype=np.int32), lengths)
        return cls(
            row,
            np.asarray(keys.flatten().to_numpy(), dtype=np.int64),
            column(requests, "aggregate")[row],
            np.zeros(len(row)),
            column(requests, "threshold")[row],
        )

    def ordered(self) -> Pairs:
        """By key and aggregate, and those that need least first."""
        return self.where(np.lexsort((self.before + self.need, self.aggregate, self.key)))

    def of_some(self, chosen: Bools) -> Pairs:
        """The pairs of some requests, chosen by a mask, whose rows are then numbered among themselves."""
        number = np.cumsum(chosen, dtype=np.int32) - np.int32(1)
        pairs = self.where(chosen[self.request])
        pairs.request = number[pairs.request]
        return pairs

    def arrive(self, run: EventRun, arrived: Ints) -> Ints:
        """When each pair of new requests is satisfied by the events of `run`, or NEVER; fills in `before`.

        Args:
            arrived: when each request arrived, which is within the time of `run`.
        """
        since_us = arrived[self.request]
        at, known = find(run.keys.key, self.key)
        start, end = np.where(known, run.starts[at], 0), np.where(known, run.ends[at], 0)
        times = np.where(self.need <= 0, since_us, NEVER)
        since = first_index(start, end, lambda pairs, index: run.us[index] >= since_us[pairs])
        for aggregate, base in ((0, run.keys.count), (1, run.keys.total)):
            chosen = self.aggregate == aggregate
            before = base[at[chosen]].astype(np.float64)
            passed = since[chosen] > start[chosen]
            before[passed] = run.values[aggregate][since[chosen][passed] - 1]
            self.before[chosen] = before
        # A high watermark counts from the beginning of time: what it was may be enough.
        high = self.aggregate == _HIGH
        enough = high & (times == NEVER) & (np.where(known, run.keys.high[at], 0) >= self.need)
        times[enough] = since_us[enough]
        search_from = np.where(high, start, since)
        for aggregate in range(len(AGGREGATES)):
            chosen = np.flatnonzero(
                (self.aggregate == aggregate) & (times == NEVER) & (search_from < end)
            )
            times[chosen] = self._first_us(chosen, aggregate, search_from[chosen], end[chosen], run)
        return np.where(times == NEVER, NEVER, np.maximum(times, since_us))

    def satisfied(self, run: EventRun) -> tuple[Ints, Ints]:
        """Which pairs the events of `run` satisfy, and when.

        These pairs are `ordered`, and of requests that arrived before `run`: only pairs that are
        satisfied are looked at, but for a search by each key that had events.
        """
        touched = np.flatnonzero(run.ends > run.starts)
        low = np.searchsorted(self.key, run.keys.key[touched], side="left")
        high = np.searchsorted(self.key, run.keys.key[touched], side="right")
        watched = high > low
        touched, low, high = touched[watched], low[watched], high[watched]
        rows, times = [np.array([], dtype=np.int64)], [np.array([], dtype=np.int64)]
        for aggregate, values in enumerate(run.values):
            reached = values[run.ends[touched] - 1] * (1 + _ROUNDING)
            first = first_index(low, high, self._not_before(aggregate))
            counts = first_index(first, high, self._beyond(aggregate, reached)) - first
            at = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
            key = np.repeat(touched, counts)
            found = self._first_us(at, aggregate, run.starts[key], run.ends[key], run)
            rows.append(at[found != NEVER])
            times.append(found[found != NEVER])
        return np.concatenate(rows), np.concatenate(times)

    def _not_before(self, aggregate: int) -> Callable[[Ints, Ints], Bools]:
        return lambda _, index: self.aggregate[index] >= aggregate

    def _beyond(self, aggregate: int, reached: Floats) -> Callable[[Ints, Ints], Bools]:
        """Where pairs need more than what the aggregate has `reached`, or are of the next aggregate."""

        def holds(at: Ints, index: Ints) -> Bools:
            needed: Floats = (self.before[index] + self.need[index]) * (1 - _ROUNDING)
            beyond: Bools = (self.aggregate[index] > aggregate) | (needed > reached[at])
            return beyond

        return holds

    def _first_us(self, pairs: Ints, aggregate: int, start: Ints, end: Ints, run: EventRun) -> Ints:
        """When the first of the events from `start` to `end` satisfies each of some pairs of an aggregate, or NEVER."""
        before, need, values = self.before[pairs], self.need[pairs], run.values[aggregate]
        index = first_index(start, end, lambda at, index: values[index] - before[at] >= need[at])
        times: Ints = np.full(len(pairs), NEVER)
        found = index < end
        times[found] = run.us[index[found]]
        return times
