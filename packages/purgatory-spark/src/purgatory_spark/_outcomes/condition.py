"""Compute when the conditions of many requests are satisfied, with NumPy over columns.

`rows.schema` defines the conditions. `satisfied_us` computes them in three steps, each for all
requests at once:

1. The watch keys of all requests are listed in one array: a *pair* is a request and one of its
   watch keys, and each pair is a position in this array.
2. `KeyEvents` sorts pairs and events by key and time, so each pair knows the next event of its key.
   It finds the first event whose sum or maximum satisfies it by binary search (`first_index`), as
   all aggregates only grow over time.
3. A request is satisfied at the last time of its pairs (`all`), at the first one (`any`), or once
   as many of its keys are satisfied as the quantifier says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._spark.arrays import Bools, Floats, Ints, Words, one_chunk
from purgatory_spark._spark.orders import group_hashes, stable_order

#: The time of what never happens: later than every other time.
NEVER = np.int64(2**63 - 1)


def epoch_us(column: pa.ChunkedArray) -> Ints:
    """Return a timestamp column as whole microseconds since the epoch."""
    us: Ints = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    return us


class KeyEvents:
    """Events in order of their keys, then of time and amount, and where pairs are among them.

    A key is a hash of host and key. The events of the key with number k are those at positions
    `starts[k]` to `ends[k] - 1`:

    >>> events = pa.table(
    ...     {
    ...         "key": pa.array([8, 7, 6, 8], pa.uint64()),
    ...         "occurred_at": [30, 10, 20, 40],
    ...         "amount": [5.0, 1.0, 1.0, 2.0],
    ...     }
    ... )
    >>> events = KeyEvents(np.array([7, 8, 7], np.uint64), np.array([10, 35, 20]), events)
    >>> events.us.tolist(), events.numbers.tolist()
    ([20, 10, 30, 40], [1, 2, 1])
    >>> events.starts.tolist(), events.ends.tolist(), events.since.tolist()
    ([0, 1, 2], [1, 2, 4], [1, 3, 2])
    >>> events.running_totals().tolist(), events.high_watermarks().tolist()
    ([1.0, 1.0, 5.0, 7.0], [1.0, 1.0, 5.0, 5.0])

    Attributes:
        us: The times of the events, in microseconds since the epoch.
        starts: For each key, the position of its first event.
        ends: For each key, the position after its last event.
        numbers: For each pair, the number of its key.
        since: For each pair, the position of its key's first event that is not before its arrival.
    """

    def __init__(self, keys: Words, arrived_us: Ints, events: pa.Table) -> None:
        """Sort events; the pairs have these keys and arrivals."""
        key, us = events.column("key").to_numpy(), epoch_us(events.column("occurred_at"))
        amount = np.asarray(events.column("amount").to_numpy(), dtype=np.float64)
        if (amount[1:] != amount[:-1]).any():
            by_amount = np.argsort(amount, kind="stable")
            key, us, amount = key[by_amount], us[by_amount], amount[by_amount]
        # Pairs come first, so that those that arrive at an event's time are before it.
        by_time = stable_order(np.concatenate([arrived_us, us]))
        order, is_first = group_hashes(np.concatenate([keys, key])[by_time])
        order = by_time[order]
        number, is_event = np.cumsum(is_first) - 1, order >= len(keys)
        position: Ints = np.cumsum(is_event) - is_event
        self.starts: Ints = position[is_first]
        self.ends: Ints = np.append(self.starts[1:], len(us))[: len(self.starts)]
        # Positions take less time than a mask.
        at = np.flatnonzero(is_event)
        of_event = order[at] - len(keys)
        self.us: Ints = us[of_event]
        self._amount: Floats = amount[of_event]
        self._number: Ints = number[at]
        at = np.flatnonzero(~is_event)
        pair = order[at]
        self.numbers: Ints = np.empty_like(pair)
        self.numbers[pair] = number[at]
        self.since: Ints = np.empty_like(pair)
        self.since[pair] = position[at]

    def running_totals(self) -> Floats:
        """Return the sum of the key's amounts up to and including each event."""
        nothing = np.zeros(len(self.starts))
        return running_totals(self._number, self._amount, self.starts, self.ends, nothing)

    def high_watermarks(self) -> Floats:
        """Return the largest of the key's amounts up to and including each event."""
        return running_maxima(self._number, self._amount)


def running_totals(number: Ints, amount: Floats, starts: Ints, ends: Ints, bases: Floats) -> Floats:
    """Return for each event its key's base and the sum of the key's amounts up to this event.

    The events are sorted by `number`, that of their keys, and then by time.
    """
    if not len(amount):
        return amount
    sums = np.cumsum(amount)
    if (
        sums[-1] + bases.max() < 2**53
        and np.all(amount == np.floor(amount))
        and np.all(bases == np.floor(bases))
    ):
        # Doubles add whole numbers below 2^53 exactly, in any order. So a key's total is a
        # difference of two sums over all keys.
        exact: Floats = sums + (bases - np.concatenate([[0.0], sums])[starts])[number]
        return exact
    totals = amount.copy()
    filled = np.flatnonzero(ends > starts)
    totals[starts[filled]] += bases[filled]
    # Added one by one to the key's base, because rounding depends on the order.
    several = np.flatnonzero(ends - starts > 1)
    for start, end in zip(starts[several].tolist(), ends[several].tolist(), strict=True):
        np.cumsum(totals[start:end], out=totals[start:end])
    return totals


def running_maxima(number: Ints, amount: Floats) -> Floats:
    """Return for each event the largest of its key's amounts up to it; `number` ascends."""
    if not len(amount):
        return amount
    # One running maximum serves all keys: the ranks of amounts are shifted by key, so that all
    # ranks of a later key are above those of earlier keys.
    values, rank = np.unique(amount, return_inverse=True)
    shift = number * len(values)
    return values[np.maximum.accumulate(shift + rank) - shift]


def first_index(low: Ints, high: Ints, holds: Callable[[Ints, Ints], Bools]) -> Ints:
    """Run many binary searches at once.

    Search k finds the first index from `low[k]` to `high[k] - 1` at which a predicate is true:

    >>> values = np.array([1, 3, 5, 1, 9])
    >>> wanted = np.array([4, 2, 6])
    >>> low, high = np.array([0, 3, 0]), np.array([3, 5, 3])
    >>> first_index(low, high, lambda searches, index: values[index] >= wanted[searches]).tolist()
    [2, 4, 3]

    `holds`: the predicate. It gets the numbers of the searches that have not finished and one index
    for each. Within a search it must be false up to some index, and true from then on.
    """
    low = low.copy()
    high = high.copy()
    unfinished = np.flatnonzero(low < high)
    while len(unfinished):
        middle = (low[unfinished] + high[unfinished]) >> 1
        holding = holds(unfinished, middle)
        high[unfinished[holding]] = middle[holding]
        low[unfinished[~holding]] = middle[~holding] + 1
        unfinished = unfinished[low[unfinished] < high[unfinished]]
    return high


def flat_keys(watch_keys: pa.ChunkedArray) -> tuple[pa.Array, Ints]:
    """Return all watch keys, and how many each request has; null is an empty list."""
    array = one_chunk(watch_keys)
    return pc.list_flatten(array), np.asarray(
        pc.fill_null(pc.list_value_length(array), 0).to_numpy(), dtype=np.int64
    )


def satisfied_us(requests: pa.Table, events: pa.Table) -> Ints:
    """Compute when each request's condition is first satisfied, regardless of its timeout.

    Below, the pairs of the first two requests are satisfied at 10 (key 7) and at 20 (key 8). The
    third request arrives at 25, so the first event does not count for its sum:

    >>> requests = pa.table(
    ...     {
    ...         "arrived_at": [0, 0, 25, 25],
    ...         "watch_keys": pa.array([[7, 8], [7, 8], [7], [7]], pa.list_(pa.uint64())),
    ...         "aggregate": ["count", "count", "sum", "sum"],
    ...         "threshold": [1.0, 1.0, 5.0, 6.0],
    ...         "quantifier": ["all", "any", "all", "all"],
    ...     }
    ... )
    >>> events = pa.table(
    ...     {
    ...         "key": pa.array([7, 8, 7], pa.uint64()),
    ...         "occurred_at": [10, 20, 30],
    ...         "amount": [2.0, 2.0, 5.0],
    ...     }
    ... )
    >>> [int(us) if us != NEVER else None for us in satisfied_us(requests, events)]
    [20, 10, 30, None]

    `requests`: the requests of one host, with columns of `schema.REQUESTS`. `events`: the events of
    the same host, with columns of `schema.EVENTS`. Returns for each request the time in
    microseconds since the epoch, or NEVER.
    """
    keys, lengths = flat_keys(requests.column("watch_keys"))
    pairs = _Pairs(requests, keys, lengths, events)
    times = pairs.satisfied_us()

    is_all = _equals(requests, "quantifier", "all")
    # Without keys, `all` is satisfied at the arrival and `any` never.
    satisfied = np.where(is_all, epoch_us(requests.column("arrived_at")), NEVER)
    with_keys = np.flatnonzero(lengths)
    if len(with_keys):
        first_pair = (np.cumsum(lengths) - lengths)[with_keys]
        satisfied[with_keys] = np.where(
            is_all[with_keys],
            np.maximum.reduceat(times, first_pair),
            np.minimum.reduceat(times, first_pair),
        )
    is_quorum = ~is_all & ~_equals(requests, "quantifier", "any")
    if is_quorum.any():
        needed = np.zeros(len(lengths), dtype=np.int64)
        numbers = requests.column("quantifier").filter(pa.array(is_quorum)).cast(pa.int64())
        needed[is_quorum] = numbers.to_numpy()
        satisfied[is_quorum] = pairs.quorum_us(times, needed)[is_quorum]
    return satisfied


class _Pairs:
    """The pairs of requests and watch keys, as columns with one element per pair.

    A method that takes `pairs` gets positions of pairs in these columns. It returns, for each of
    them, the position of the first event in `KeyEvents` that satisfies the pair, or the end of its
    key's events.
    """

    def __init__(self, requests: pa.Table, keys: pa.Array, lengths: Ints, events: pa.Table) -> None:
        is_identity = len(keys) == len(lengths) and bool(np.all(lengths == 1))
        request = slice(None) if is_identity else np.repeat(np.arange(len(lengths)), lengths)
        self._lengths: Ints = lengths
        self._arrived: Ints = epoch_us(requests.column("arrived_at"))[request]
        self._events = events = KeyEvents(keys.to_numpy(), self._arrived, events)
        self._threshold: Floats = np.asarray(
            requests.column("threshold").to_numpy(), dtype=np.float64
        )[request]
        self._has_aggregate = {
            name: _equals(requests, "aggregate", name)[request] for name in ("count", "sum", "max")
        }

    def satisfied_us(self) -> Ints:
        """Return when each pair is satisfied, in microseconds since the epoch, or NEVER."""
        times = np.where(self._threshold <= 0, self._arrived, NEVER)
        for name, search in (("count", self._count), ("sum", self._sum), ("max", self._max)):
            pairs = np.flatnonzero((self._threshold > 0) & self._has_aggregate[name])
            if len(pairs):
                index = search(pairs)
                found = index < self._end(pairs)
                pairs = pairs[found]
                # The maximum may have been reached before the arrival.
                times[pairs] = np.maximum(self._events.us[index[found]], self._arrived[pairs])
        return times

    def quorum_us(self, times: Ints, needed: Ints) -> Ints:
        """Return when requests have `needed` keys satisfied, each counted once, or NEVER."""
        request, number = np.repeat(np.arange(len(needed)), self._lengths), self._events.numbers
        pairs = np.flatnonzero(needed[request] > 0)
        pairs = pairs[np.lexsort((number[pairs], request[pairs]))]
        again = (np.diff(request[pairs]) == 0) & (np.diff(number[pairs]) == 0)
        pairs = np.delete(pairs, np.flatnonzero(again) + 1)
        pairs = pairs[np.lexsort((times[pairs], request[pairs]))]
        rows = np.arange(len(needed))
        first = np.searchsorted(request[pairs], rows, side="left")
        end = np.searchsorted(request[pairs], rows, side="right")
        reached: Ints = np.full(len(needed), NEVER)
        has_enough = (needed > 0) & (first + needed <= end)
        reached[has_enough] = times[pairs[(first + needed - 1)[has_enough]]]
        return reached

    def _start(self, pairs: Ints) -> Ints:
        return self._events.starts[self._events.numbers[pairs]]

    def _end(self, pairs: Ints) -> Ints:
        return self._events.ends[self._events.numbers[pairs]]

    def _count(self, pairs: Ints) -> Ints:
        # Thresholds above the number of events can't be reached. They are limited to it plus one,
        # so that infinite ones become integers too.
        needed = np.minimum(np.ceil(self._threshold[pairs]), len(self._events.us) + 1)
        return np.minimum(self._events.since[pairs] + needed.astype(np.int64) - 1, self._end(pairs))

    def _sum(self, pairs: Ints) -> Ints:
        totals = self._events.running_totals()
        first = self._events.since[pairs]
        before = np.zeros(len(pairs))
        has_before = first > self._start(pairs)
        before[has_before] = totals[first[has_before] - 1]
        threshold = self._threshold[pairs]
        return first_index(
            first,
            self._end(pairs),
            lambda searches, index: totals[index] - before[searches] >= threshold[searches],
        )

    def _max(self, pairs: Ints) -> Ints:
        watermarks, threshold = self._events.high_watermarks(), self._threshold[pairs]
        return first_index(
            self._start(pairs),
            self._end(pairs),
            lambda searches, index: watermarks[index] >= threshold[searches],
        )


def _equals(requests: pa.Table, column: str, value: str) -> Bools:
    return np.asarray(pc.equal(requests.column(column), value).to_numpy(), dtype=bool)
