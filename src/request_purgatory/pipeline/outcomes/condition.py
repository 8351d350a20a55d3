"""When a trace's requests are satisfied, for many requests at once: NumPy over columns.

The definition is `schema`'s. Here a (request, watch key) pair finds the first event that satisfies
it by a binary search over the key's events in order of time, all pairs at once; then a request
takes the last or the first of its pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Ints = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

#: "Not satisfied by any event": later than every time.
NEVER = np.int64(2**63 - 1)


def epoch_us(column: pa.ChunkedArray) -> Ints:
    """A timestamp column as microseconds since the epoch."""
    us: Ints = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    return us


class KeyEvents:
    """The events of one host that some request watches, by key and time.

    Attributes:
        keys: the watched keys; a key's number is its position.
        us: the events' times, key by key, each key's in order; those of key k are
            `us[starts[k]:ends[k]]`.
    """

    def __init__(self, watch_keys: pa.Array, events: pa.Table) -> None:
        """`watch_keys`: every request's keys in one array, repeats and all."""
        self.keys = pc.unique(watch_keys)
        numbers = pc.index_in(events.column("key"), value_set=self.keys, skip_nulls=True)
        watched = pc.is_valid(numbers)
        number = np.asarray(numbers.filter(watched).to_numpy(), dtype=np.int64)
        us = epoch_us(events.column("occurred_at").filter(watched))
        amount = np.asarray(events.column("amount").filter(watched).to_numpy(), dtype=np.float64)
        order = np.lexsort((amount, us, number))
        number = number[order]
        self.us: Ints = us[order]
        self._amount: Floats = amount[order]
        self._number: Ints = number
        count = np.arange(len(self.keys))
        self.starts: Ints = np.searchsorted(number, count, side="left").astype(np.int64)
        self.ends: Ints = np.searchsorted(number, count, side="right").astype(np.int64)

    def running_totals(self) -> Floats:
        """Each event's running total of its key's amounts, added up in order and from zero for every key."""
        if not len(self._amount):
            return self._amount
        whole = np.cumsum(self._amount)
        if whole[-1] < 2**53 and np.all(self._amount == np.floor(self._amount)):
            # Whole amounts: every sum is exact, so a key's total is a difference.
            before = np.concatenate([[0.0], whole])[self.starts]
            exact: Floats = whole - before[self._number]
            return exact
        totals = np.empty_like(self._amount)
        for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True):
            # Key by key, because rounding depends on where a sum begins.
            np.cumsum(self._amount[start:end], out=totals[start:end])
        return totals

    def high_watermarks(self) -> Floats:
        """Each event's largest amount of its key so far."""
        if not len(self._amount):
            return self._amount
        values, rank = np.unique(self._amount, return_inverse=True)
        # One running maximum for all keys: a later key's ranks are all above those of an earlier
        # one.
        best = np.maximum.accumulate(self._number * len(values) + rank)
        watermarks: Floats = values[best - self._number * len(values)]
        return watermarks


def first_index(low: Ints, high: Ints, holds: Callable[[Ints, Ints], Bools]) -> Ints:
    """For each pair, the first index in [low, high) for which `holds`, or high: a binary search, all pairs at once.

    Args:
        holds: given the numbers of the pairs still searched and an index for each; false up to some
            index, true from it on.
    """
    low = low.copy()
    high = high.copy()
    open_pairs = np.flatnonzero(low < high)
    while len(open_pairs):
        middle = (low[open_pairs] + high[open_pairs]) >> 1
        found = holds(open_pairs, middle)
        high[open_pairs[found]] = middle[found]
        low[open_pairs[~found]] = middle[~found] + 1
        open_pairs = open_pairs[low[open_pairs] < high[open_pairs]]
    return high


def flat_keys(watch_keys: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """All requests' watch keys in one array, and how many of them are each request's.

    Null is none.
    """
    array = watch_keys.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return pc.list_flatten(array), np.asarray(
        pc.fill_null(pc.list_value_length(array), 0).to_numpy(), dtype=np.int64
    )


def satisfied_us(requests: pa.Table, events: pa.Table) -> Ints:
    """When each request's condition first holds, whatever its timeout: microseconds since the epoch, or NEVER.

    Args:
        requests, events: of one host, with the columns of `schema.REQUESTS` and `schema.EVENTS`.
    """
    flat, lengths = flat_keys(requests.column("watch_keys"))
    arrived = epoch_us(requests.column("arrived_at"))
    times = _pairs_satisfied_us(
        requests,
        KeyEvents(flat, events),
        flat,
        np.repeat(np.arange(len(lengths)), lengths),
        arrived,
    )

    every = _equals(requests, "quantifier", "all")
    satisfied = np.where(every, arrived, NEVER)
    some = np.flatnonzero(lengths)
    if len(some):
        firsts = (np.cumsum(lengths) - lengths)[some]
        satisfied[some] = np.where(
            every[some], np.maximum.reduceat(times, firsts), np.minimum.reduceat(times, firsts)
        )
    return satisfied


def _pairs_satisfied_us(
    requests: pa.Table, events: KeyEvents, keys: pa.Array, request: Ints, arrived: Ints
) -> Ints:
    """When each (request, watch key) pair is satisfied.

    `request` is each pair's row, `keys` its key.
    """
    number = np.asarray(
        pc.index_in(keys, value_set=events.keys).to_numpy(zero_copy_only=False), dtype=np.int64
    )
    pair_arrived = arrived[request]
    threshold = np.asarray(requests.column("threshold").to_numpy(), dtype=np.float64)[request]
    times = np.where(threshold <= 0, pair_arrived, NEVER)
    start, end = events.starts[number], events.ends[number]
    waits = threshold > 0

    def since_arrival(pairs: Ints) -> Ints:
        return first_index(
            start[pairs], end[pairs], lambda at, index: events.us[index] >= pair_arrived[pairs][at]
        )

    def settle(pairs: Ints, index: Ints) -> None:
        found = index < end[pairs]
        pairs = pairs[found]
        times[pairs] = np.maximum(events.us[index[found]], pair_arrived[pairs])

    pairs = np.flatnonzero(waits & _equals(requests, "aggregate", "count")[request])
    if len(pairs):
        # Beyond the number of events a threshold is out of reach, however large; so it can be made
        # small enough to add.
        needed = np.minimum(np.ceil(threshold[pairs]), len(events.us) + 1).astype(np.int64)
        settle(pairs, np.minimum(since_arrival(pairs) + needed - 1, end[pairs]))

    pairs = np.flatnonzero(waits & _equals(requests, "aggregate", "sum")[request])
    if len(pairs):
        totals = events.running_totals()
        first = since_arrival(pairs)
        before = np.zeros(len(pairs))
        has_before = first > start[pairs]
        before[has_before] = totals[first[has_before] - 1]
        need = threshold[pairs]
        settle(
            pairs,
            first_index(
                first, end[pairs], lambda at, index: totals[index] - before[at] >= need[at]
            ),
        )

    pairs = np.flatnonzero(waits & _equals(requests, "aggregate", "max")[request])
    if len(pairs):
        watermarks = events.high_watermarks()
        need = threshold[pairs]
        settle(
            pairs,
            first_index(start[pairs], end[pairs], lambda at, index: watermarks[index] >= need[at]),
        )
    return times


def _equals(requests: pa.Table, column: str, value: str) -> Bools:
    equal: Bools = np.asarray(pc.equal(requests.column(column), value).to_numpy(), dtype=bool)
    return equal
