"""Aggregates of watch keys: as they are stored, and event by event within a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from purgatory_spark._outcomes.condition import running_maxima, running_totals
from purgatory_spark._spark.arrays import Floats, Ints
from purgatory_spark._stream.state.columns import ColumnTable, find_sorted


@dataclass
class KeyAggregates(ColumnTable):
    """Keys' aggregates as of their last events, by ascending key.

    They are the number of a key's events, and the total and the maximum of their amounts.
    """

    SCHEMA = pa.schema(
        {
            "key": pa.int64(),
            "count": pa.int64(),
            "total": pa.float64(),
            "high": pa.float64(),
            "last_us": pa.int64(),
        }
    )

    key: Ints
    count: Ints
    total: Floats
    high: Floats
    last_us: Ints

    @classmethod
    def without_events(cls, keys: Ints) -> KeyAggregates:
        zeros = np.zeros(len(keys))
        return cls(
            keys,
            np.zeros(len(keys), dtype=np.int64),
            zeros,
            zeros.copy(),
            np.full(len(keys), -(2**62)),
        )

    def set_rows(self, at: Ints, other: KeyAggregates) -> None:
        for name in self.SCHEMA.names[1:]:
            getattr(self, name)[at] = getattr(other, name)


class KeyedEvents:
    """The events of one step, grouped by key and sorted by time, with running aggregates.

    Attributes:
        initial: the aggregates of the keys before these events. The events of the key
            `initial.key[k]` are at the positions `starts[k]` to `ends[k]` (exclusive).
        starts: first position of each key's events.
        ends: position after each key's last event; equal to `starts` for a key without events.
        us: times of the events, in microseconds since the epoch.
        running: for each of `schema.AGGREGATES` the value that the event's key has after it: the
            count, the total or the maximum.
    """

    def __init__(self, key: Ints, us: Ints, amount: Floats, initial: KeyAggregates) -> None:
        number, _ = find_sorted(initial.key, key)
        # Events of equal time are sorted by amount, so that totals do not depend on the order in
        # which rows were read.
        order = np.lexsort((amount, us, number))
        number, self.us, amount = number[order], us[order], amount[order]
        self.initial = initial
        counts = np.bincount(number, minlength=len(initial.key))
        self.ends: Ints = np.cumsum(counts)
        self.starts: Ints = self.ends - counts
        position = np.arange(len(number))
        counts = initial.count[number] + (position - self.starts[number] + 1)
        self.running: list[Floats] = [
            counts.astype(np.float64),
            running_totals(number, amount, self.starts, self.ends, initial.total),
            np.maximum(running_maxima(number, amount), initial.high[number]),
        ]

    def final(self) -> KeyAggregates:
        """Return the aggregates after these events, of the keys that had events."""
        touched = np.flatnonzero(self.ends > self.starts)
        last = self.ends[touched] - 1
        count, total, high = (values[last] for values in self.running)
        return KeyAggregates(
            self.initial.key[touched], count.astype(np.int64), total, high, self.us[last]
        )
