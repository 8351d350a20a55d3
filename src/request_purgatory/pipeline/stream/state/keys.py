"""What a shard knows of its watch keys.

How many events, their total and their largest amount, now and event by event.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.outcomes.condition import Floats, Ints
from request_purgatory.pipeline.stream.state.columns import Columns, find

#: A key's aggregates as of its last event: how many events it has had, their total and their
#: largest amount.
KEYS = pa.schema(
    {
        "key": pa.int64(),
        "count": pa.int64(),
        "total": pa.float64(),
        "high": pa.float64(),
        "last_us": pa.int64(),
    }
)


@dataclass
class KeyTable(Columns):
    """Aggregates of keys, in the order of the keys."""

    SCHEMA = KEYS

    key: Ints
    count: Ints
    total: Floats
    high: Floats
    last_us: Ints

    @classmethod
    def unknown(cls, keys: Ints) -> KeyTable:
        """Keys that have had no events."""
        zeros = np.zeros(len(keys))
        return cls(
            keys,
            np.zeros(len(keys), dtype=np.int64),
            zeros,
            zeros.copy(),
            np.full(len(keys), -(2**62)),
        )

    def put(self, at: Ints, other: KeyTable) -> None:
        """Take over another table's aggregates, row by row, at these positions."""
        for name in KEYS.names[1:]:
            getattr(self, name)[at] = getattr(other, name)


class EventRun:
    """The events of one stretch of time, by key and time, on top of what was known of their keys.

    Attributes:
        keys: the keys' aggregates before these events; those of key k are at `starts[k]` to
            `ends[k]`.
        us: the events' times.
        values: after each event, the key's count, running total and high watermark, by the position
            in `schema.AGGREGATES`.
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
        if (
            whole[-1] + used.max() < 2**53
            and np.all(amount == np.floor(amount))
            and np.all(used == np.floor(used))
        ):
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
        """The aggregates after these events of the keys that had any."""
        known = np.flatnonzero(self.ends > self.starts)
        last = self.ends[known] - 1
        count, total, high = (values[last] for values in self.values)
        return KeyTable(self.keys.key[known], count.astype(np.int64), total, high, self.us[last])
