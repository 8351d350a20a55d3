"""What a shard knows of its watch keys: how many events, their total and their largest amount, now and event by event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.condition import Bools, Floats, Ints
from request_purgatory.pipeline.stream.columns import Columns

#: A key that is watched: its aggregates now, how much of the total was there before it was watched last, and whether what was
#: known of it from before has been added (it is not where only counts are asked for).
WATCHED_KEYS = pa.schema(
    {
        "key": pa.int64(),
        "count": pa.int64(),
        "total": pa.float64(),
        "carried": pa.float64(),
        "high": pa.float64(),
        "last_us": pa.int64(),
        "recalled": pa.int8(),
    }
)
#: What has come since a key was last put away; all of a key's rows together are what is known of it.
IDLE_KEYS = pa.schema({"key": pa.int64(), "total": pa.float64(), "high": pa.float64(), "last_us": pa.int64()})


@dataclass
class KeyTable(Columns):
    """Aggregates of keys, in the order of the keys."""

    SCHEMA = WATCHED_KEYS

    key: Ints
    count: Ints
    total: Floats
    carried: Floats
    high: Floats
    last_us: Ints
    recalled: Ints

    @classmethod
    def unknown(cls, keys: Ints) -> KeyTable:
        """Keys of which nothing is known."""
        zeros = np.zeros(len(keys))
        nothing = np.zeros(len(keys), dtype=np.int64)
        return cls(keys, nothing, zeros, zeros.copy(), zeros.copy(), np.full(len(keys), -(2**62)), nothing.astype(np.int8))

    def put(self, other: KeyTable) -> None:
        """Take over what another table says of keys that are here, too."""
        at, known = find(self.key, other.key)
        for name in WATCHED_KEYS.names[1:]:
            getattr(self, name)[at[known]] = getattr(other, name)[known]

    def idle(self) -> pa.Table:
        """A table of `IDLE_KEYS`: what has come since these keys were watched first."""
        return pa.table([self.key, self.total - self.carried, self.high, self.last_us], schema=IDLE_KEYS)

    def add_idle(self, idle: pa.Table) -> None:
        """Take in what is known of keys from before they were watched."""
        at, known = find(self.key, np.asarray(idle.column("key").to_numpy()))
        at = at[known]
        total = np.asarray(idle.column("total").to_numpy())[known]
        np.add.at(self.total, at, total)
        np.add.at(self.carried, at, total)
        np.maximum.at(self.high, at, np.asarray(idle.column("high").to_numpy())[known])
        np.maximum.at(self.last_us, at, np.asarray(idle.column("last_us").to_numpy())[known])


def find(ordered: Ints, wanted: Ints) -> tuple[Ints, Bools]:
    """Where each of `wanted` is in `ordered`, and whether it is there at all."""
    at = np.searchsorted(ordered, wanted)
    if not len(ordered):
        return at, np.zeros(len(wanted), dtype=bool)
    inside = np.minimum(at, len(ordered) - 1)
    return inside, ordered[inside] == wanted


class EventRun:
    """The events of one stretch of time, by key and time, on top of what was known of their keys.

    Attributes:
        keys: the keys' aggregates before these events; those of key k are at `starts[k]` to `ends[k]`.
        us: the events' times.
        values: after each event, the key's count, running total and high watermark, by the position in `schema.AGGREGATES`.
    """

    def __init__(self, key: Ints, us: Ints, amount: Floats, keys: KeyTable) -> None:
        """`keys`: every key of the events, and others."""
        number, _ = find(keys.key, key)
        # Equal times by amount, so that totals do not depend on the order in which rows came in.
        order = np.lexsort((amount, us, number))
        number, self.us, amount = number[order], us[order], amount[order]
        self.keys = keys
        count = np.arange(len(keys.key))
        self.starts: Ints = np.searchsorted(number, count, side="left")
        self.ends: Ints = np.searchsorted(number, count, side="right")
        position = np.arange(len(number))
        counts = keys.count[number] + (position - self.starts[number] + 1)
        self.values: list[Floats] = [
            counts.astype(np.float64),
            self._totals(number, amount),
            np.maximum(self._highs(number, amount), keys.high[number]),
        ]

    def _totals(self, number: Ints, amount: Floats) -> Floats:
        base = self.keys.total
        if not len(amount):
            return amount
        whole = np.cumsum(amount)
        used = base[number]
        if whole[-1] + used.max() < 2**53 and np.all(amount == np.floor(amount)) and np.all(used == np.floor(used)):
            # Whole amounts: every sum is exact, in whatever order.
            before = np.concatenate([[0.0], whole])[self.starts]
            exact: Floats = whole - before[number] + used
            return exact
        totals = np.empty_like(amount)
        for at in np.unique(number).tolist():
            start, end = self.starts[at], self.ends[at]
            # One by one from what was there, as rounding depends on the order.
            totals[start:end] = np.cumsum(np.concatenate([[base[at]], amount[start:end]]))[1:]
        return totals

    def _highs(self, number: Ints, amount: Floats) -> Floats:
        if not len(amount):
            return amount
        distinct, rank = np.unique(amount, return_inverse=True)
        best = np.maximum.accumulate(number * len(distinct) + rank)
        highs: Floats = distinct[best - number * len(distinct)]
        return highs

    def after(self) -> KeyTable:
        """The keys' aggregates after these events."""
        keys = self.keys
        known = self.ends > self.starts
        last = self.ends[known] - 1
        after = keys.where(np.arange(len(keys.key)))
        after.count[known] = self.values[0][last].astype(np.int64)
        after.total[known] = self.values[1][last]
        after.high[known] = self.values[2][last]
        after.last_us[known] = self.us[last]
        return after
