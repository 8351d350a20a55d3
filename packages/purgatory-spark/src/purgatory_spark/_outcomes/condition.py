"""Compute when the conditions of many requests are satisfied, with NumPy over columns.

`rows.schema` defines the conditions. `satisfied_us` computes them in three steps, each for all
requests at once:

1. The watch keys of all requests are listed in one array: a *pair* is a request and one of its
   watch keys, and each pair is a position in this array.
2. `KeyEvents` sorts the events by key and time. Each pair finds the first event of its key that
   satisfies it by binary search (`first_index`), as all three aggregates only grow over time.
3. A request is satisfied at the last time of its pairs (`all`), at the first one (`any`), or once
   as many of its keys are satisfied as the quantifier says.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._spark.arrays import Bools, Floats, Ints, one_chunk

#: The time of what never happens: later than every other time.
NEVER = np.int64(2**63 - 1)


def epoch_us(column: pa.ChunkedArray) -> Ints:
    """Return a timestamp column as whole microseconds since the epoch."""
    us: Ints = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64()).to_numpy()
    return us


class KeyEvents:
    """The events of one host on watched keys, sorted by key, time and amount.

    The events of the key with number k are those at positions `starts[k]` to `ends[k] - 1`:

    >>> times = pa.array([30, 10, 20, 40], pa.timestamp("us", tz="UTC"))
    >>> table = pa.table(
    ...     {"key": ["b", "a", "c", "b"], "occurred_at": times, "amount": [5.0, 1.0, 1.0, 2.0]}
    ... )
    >>> events = KeyEvents(pa.array(["a", "b", "a"]), table)  # no request watches "c"
    >>> events.keys.to_pylist(), events.us.tolist()
    (['a', 'b'], [10, 30, 40])
    >>> events.starts.tolist(), events.ends.tolist()
    ([0, 1], [1, 3])
    >>> events.running_totals().tolist(), events.high_watermarks().tolist()
    ([1.0, 5.0, 7.0], [1.0, 5.0, 5.0])

    Attributes:
        keys: The distinct watch keys; the number of a key is its position.
        numbers: The number of each of the watch keys that the object was made with.
        us: The times of the events, in microseconds since the epoch.
        starts: For each key, the position of its first event.
        ends: For each key, the position after its last event.
    """

    def __init__(self, watch_keys: pa.Array, events: pa.Table) -> None:
        of_events = events.column("key").chunks
        encoded = pa.concat_arrays([watch_keys, *of_events]).dictionary_encode("encode")
        # Keys are numbered in order of appearance, and those that nobody watches come last.
        numbers = np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
        self.numbers: Ints = numbers[: len(watch_keys)]
        self.keys = encoded.dictionary[: self.numbers.max(initial=-1) + 1]
        number = numbers[len(watch_keys) :]
        us = epoch_us(events.column("occurred_at"))
        amount = np.asarray(events.column("amount").to_numpy(), dtype=np.float64)
        watched = number < len(self.keys)
        if not watched.all():
            number, us, amount = number[watched], us[watched], amount[watched]
        # NumPy sorts numbers of 16 bits by counting.
        order = np.lexsort((amount, us, number.astype(np.min_scalar_type(len(self.keys)))))
        self.us: Ints = us[order]
        self._amount: Floats = amount[order]
        self._number: Ints = number[order]
        counts = np.bincount(number, minlength=len(self.keys))
        self.ends: Ints = np.cumsum(counts)
        self.starts: Ints = self.ends - counts

    def running_totals(self) -> Floats:
        """Return the sum of the key's amounts up to and including each event."""
        nothing = np.zeros(len(self.keys))
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

    Below, the pairs of the first two requests are satisfied at 10 (key a) and at 20 (key b). The
    third request arrives at 25, so the first event does not count for its sum:

    >>> def times(*us):
    ...     return pa.array(us, pa.timestamp("us", tz="UTC"))
    >>> requests = pa.table(
    ...     {
    ...         "arrived_at": times(0, 0, 25, 25),
    ...         "watch_keys": [["a", "b"], ["a", "b"], ["a"], ["a"]],
    ...         "aggregate": ["count", "count", "sum", "sum"],
    ...         "threshold": [1.0, 1.0, 5.0, 6.0],
    ...         "quantifier": ["all", "any", "all", "all"],
    ...     }
    ... )
    >>> events = pa.table(
    ...     {"key": ["a", "b", "a"], "occurred_at": times(10, 20, 30), "amount": [2.0, 2.0, 5.0]}
    ... )
    >>> [int(us) if us != NEVER else None for us in satisfied_us(requests, events)]
    [20, 10, 30, None]

    `requests`: the requests of one host, with columns of `schema.REQUESTS`. `events`: the events of
    the same host, with columns of `schema.EVENTS`. Returns for each request the time in
    microseconds since the epoch, or NEVER.
    """
    keys, lengths = flat_keys(requests.column("watch_keys"))
    pairs = _Pairs(requests, keys, lengths, KeyEvents(keys, events))
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

    def __init__(
        self, requests: pa.Table, keys: pa.Array, lengths: Ints, events: KeyEvents
    ) -> None:
        is_identity = len(keys) == len(lengths) and bool(np.all(lengths == 1))
        request = slice(None) if is_identity else np.repeat(np.arange(len(lengths)), lengths)
        self._lengths: Ints = lengths
        self._events = events
        self._start, self._end = events.starts[events.numbers], events.ends[events.numbers]
        self._arrived: Ints = epoch_us(requests.column("arrived_at"))[request]
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
                found = index < self._end[pairs]
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

    def _since_arrival(self, pairs: Ints) -> Ints:
        us, arrived = self._events.us, self._arrived[pairs]
        return first_index(
            self._start[pairs],
            self._end[pairs],
            lambda searches, index: us[index] >= arrived[searches],
        )

    def _count(self, pairs: Ints) -> Ints:
        # Thresholds above the number of events can't be reached. They are limited to it plus one,
        # so that infinite ones become integers too.
        needed = np.minimum(np.ceil(self._threshold[pairs]), len(self._events.us) + 1)
        return np.minimum(
            self._since_arrival(pairs) + needed.astype(np.int64) - 1, self._end[pairs]
        )

    def _sum(self, pairs: Ints) -> Ints:
        totals = self._events.running_totals()
        first = self._since_arrival(pairs)
        before = np.zeros(len(pairs))
        has_before = first > self._start[pairs]
        before[has_before] = totals[first[has_before] - 1]
        threshold = self._threshold[pairs]
        return first_index(
            first,
            self._end[pairs],
            lambda searches, index: totals[index] - before[searches] >= threshold[searches],
        )

    def _max(self, pairs: Ints) -> Ints:
        watermarks, threshold = self._events.high_watermarks(), self._threshold[pairs]
        return first_index(
            self._start[pairs],
            self._end[pairs],
            lambda searches, index: watermarks[index] >= threshold[searches],
        )


def _equals(requests: pa.Table, column: str, value: str) -> Bools:
    return np.asarray(pc.equal(requests.column(column), value).to_numpy(), dtype=bool)
