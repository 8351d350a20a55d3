"""Pairs of a request and a watch key that it waits for, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from purgatory_spark._outcomes.condition import NEVER, first_index
from purgatory_spark._rows.schema import AGGREGATES
from purgatory_spark._spark.arrays import Bools, Floats, Ints, one_chunk
from purgatory_spark._stream.state.columns import ColumnTable, find_sorted, numpy_column
from purgatory_spark._stream.state.keys import KeyedEvents

_MAX = AGGREGATES.index("max")
#: Relative error that more than covers the two roundings (of 2^-53 each) in which `before + need`
#: and `aggregate - before` may differ.
_ROUNDING = 1e-15

#: Row numbers of a table of requests.
RowNumbers = np.ndarray[Any, np.dtype[np.int32]]


@dataclass
class Pairs(ColumnTable):
    """Pairs, those of waiting requests in the order of `sorted_by_need`.

    `request` is a row of a table of requests, `key` a hash of host and watch key, `aggregate` an
    index into `schema.AGGREGATES`. The pair is satisfied once the key's aggregate, less `before`,
    reaches `need`. `before` is the aggregate as of the request's arrival; 0 for `max`, which also
    counts earlier events.
    """

    SCHEMA = pa.schema(
        {
            "request": pa.int32(),
            "key": pa.int64(),
            "aggregate": pa.int8(),
            "before": pa.float64(),
            "need": pa.float64(),
        }
    )

    request: RowNumbers
    key: Ints
    aggregate: Ints
    before: Floats
    need: Floats

    @classmethod
    def from_requests(cls, requests: pa.Table) -> Pairs:
        """Return one pair for each watch key of new requests; `before` is 0 so far."""
        keys = one_chunk(requests.column("keys"))
        lengths = np.diff(keys.offsets.to_numpy()) if len(keys) else np.array([], dtype=np.int64)
        row = np.repeat(np.arange(len(keys), dtype=np.int32), lengths)
        return cls(
            row,
            np.asarray(keys.flatten().to_numpy(), dtype=np.int64),
            numpy_column(requests, "aggregate")[row],
            np.zeros(len(row)),
            numpy_column(requests, "threshold")[row],
        )

    def sorted_by_need(self) -> Pairs:
        """Return the pairs by key, then by aggregate, then by `before + need`."""
        return self.take(np.lexsort((self.before + self.need, self.aggregate, self.key)))

    def of_requests(self, chosen: Bools) -> Pairs:
        """Return the pairs of some requests, whose rows are renumbered from 0."""
        number = np.cumsum(chosen, dtype=np.int32) - np.int32(1)
        pairs = self.take(chosen[self.request])
        pairs.request = number[pairs.request]
        return pairs

    def find_satisfied_new(self, events: KeyedEvents, arrived_us: Ints) -> Ints:
        """Find when the pairs of new requests are satisfied, and set their `before`.

        Returns for each pair a time in microseconds since the epoch, not before the arrival; NEVER
        if these events do not satisfy it.
        """
        since_us = arrived_us[self.request]
        at, known = find_sorted(events.initial.key, self.key)
        start = np.where(known, events.starts[at], 0)
        end = np.where(known, events.ends[at], 0)
        since = first_index(start, end, lambda pairs, index: events.us[index] >= since_us[pairs])
        self._set_before(events, at, start, since)
        times = np.where(self.need <= 0, since_us, NEVER)
        is_max = self.aggregate == _MAX
        # Earlier events count for `max`: the key's stored maximum may be enough.
        stored_high = np.where(known, events.initial.high[at], 0)
        reached = is_max & (times == NEVER) & (stored_high >= self.need)
        times[reached] = since_us[reached]
        search_from = np.where(is_max, start, since)
        for aggregate in range(len(AGGREGATES)):
            open_pairs = np.flatnonzero(
                (self.aggregate == aggregate) & (times == NEVER) & (search_from < end)
            )
            times[open_pairs] = self._first_satisfying_us(
                open_pairs, aggregate, search_from[open_pairs], end[open_pairs], events
            )
        return np.where(times == NEVER, NEVER, np.maximum(times, since_us))

    def _set_before(self, events: KeyedEvents, at: Ints, start: Ints, since: Ints) -> None:
        """Set `before` to the count or total of each pair's key just before the arrival."""
        for aggregate, stored in ((0, events.initial.count), (1, events.initial.total)):
            chosen = self.aggregate == aggregate
            before = stored[at[chosen]].astype(np.float64)
            passed = since[chosen] > start[chosen]
            before[passed] = events.running[aggregate][since[chosen][passed] - 1]
            self.before[chosen] = before

    def find_satisfied(self, events: KeyedEvents) -> tuple[Ints, Ints]:
        """Find the pairs that a step's events satisfy, without visiting the others.

        The pairs must be `sorted_by_need`, and their requests must have arrived in an earlier step.

        All pairs of one key are adjacent, and among them those of one aggregate are adjacent, by
        ascending target `before + need`. A pair is satisfied if the aggregate after the key's last
        event reaches the target. So for each key with events the satisfied pairs of an aggregate
        are a slice, whose ends are found by binary search:

            pair  key  aggregate  before  need  target
               0    7  count           2     1       3
               1    7  count           2     2       4
               2    7  count           2     4       6
               3    7  sum            10     5      15
               4    9  count           0     1       1

        Suppose key 7 has events after which its count is 4 and its total 12, and key 9 has none.
        The slice of key 7 is 0 to 3. Of its count pairs 0 to 2, the targets of 0 and 1 are at most
        4; of its sum pairs, no target is at most 12. Pairs 0 and 1 are satisfied. A second binary
        search, among the key's events, finds when.

        Returns positions of satisfied pairs, and for each the time of the event that satisfied it,
        in microseconds since the epoch.
        """
        keys, low, high = self._slices_of_keys(events)
        found_pairs, found_us = [_EMPTY], [_EMPTY]
        for aggregate, running in enumerate(events.running):
            reached = running[events.ends[keys] - 1]
            first, counts = self._candidates(aggregate, reached, low, high)
            pairs = _concatenate_ranges(first, counts)
            key = np.repeat(keys, counts)
            times = self._first_satisfying_us(
                pairs, aggregate, events.starts[key], events.ends[key], events
            )
            found_pairs.append(pairs[times != NEVER])
            found_us.append(times[times != NEVER])
        return np.concatenate(found_pairs), np.concatenate(found_us)

    def _slices_of_keys(self, events: KeyedEvents) -> tuple[Ints, Ints, Ints]:
        keys = np.flatnonzero(events.ends > events.starts)
        low = np.searchsorted(self.key, events.initial.key[keys], side="left")
        high = np.searchsorted(self.key, events.initial.key[keys], side="right")
        watched = high > low
        return keys[watched], low[watched], high[watched]

    def _candidates(
        self, aggregate: int, reached: Floats, low: Ints, high: Ints
    ) -> tuple[Ints, Ints]:
        """Narrow each key's slice to the pairs that `reached` may satisfy.

        A pair whose target differs from `reached` by less than `_ROUNDING` is included: whether it
        is satisfied is decided by `_first_satisfying_us`, by the same subtraction as in the batch
        job.
        """
        bound = reached * (1 + _ROUNDING)

        def is_of_aggregate(_: Ints, pair: Ints) -> Bools:
            return self.aggregate[pair] >= aggregate

        def is_beyond(key: Ints, pair: Ints) -> Bools:
            target: Floats = (self.before[pair] + self.need[pair]) * (1 - _ROUNDING)
            return (self.aggregate[pair] > aggregate) | (target > bound[key])

        first = first_index(low, high, is_of_aggregate)
        return first, first_index(first, high, is_beyond) - first

    def _first_satisfying_us(
        self, pairs: Ints, aggregate: int, start: Ints, end: Ints, events: KeyedEvents
    ) -> Ints:
        """Return when an event first satisfies each of some pairs of one aggregate, or NEVER."""
        before, need, running = self.before[pairs], self.need[pairs], events.running[aggregate]
        index = first_index(start, end, lambda at, index: running[index] - before[at] >= need[at])
        times: Ints = np.full(len(pairs), NEVER)
        found = index < end
        times[found] = events.us[index[found]]
        return times


_EMPTY = np.array([], dtype=np.int64)


def _concatenate_ranges(first: Ints, counts: Ints) -> Ints:
    """Return `counts[i]` consecutive numbers from `first[i]` on, for each `i`, in one array.

    For example, first = [10, 20] and counts = [2, 3] give [10, 11, 20, 21, 22].
    """
    return np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
