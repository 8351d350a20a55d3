"""The aggregates of a shard's watch keys, from one step to the next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from purgatory_spark._spark.arrays import Bools, Ints
from purgatory_spark._stream.state.columns import find_sorted
from purgatory_spark._stream.state.compaction import segments_to_merge
from purgatory_spark._stream.state.keys import KeyAggregates
from purgatory_spark._stream.state.store import ShardStore

KIND = "keys"


class KeyHistory:
    """The keys' aggregates in segments sorted by key; a newer segment overrides an older one.

    A key that a pending request watches is retained. Any other key is retained for `retention_us`
    after its last event, and longer until its segment is merged or expires.
    """

    def __init__(self, store: ShardStore, retention_us: int) -> None:
        self._store = store
        self._retention_us = retention_us

    def lookup(self, keys: Ints) -> tuple[KeyAggregates, Bools]:
        """Return the aggregates of distinct, ascending keys, and which of the keys are stored."""
        found = KeyAggregates.without_events(keys)
        stored = np.zeros(len(keys), dtype=bool)
        for segment in reversed(self._store.segments(KIND)):
            missing = np.flatnonzero(~stored)
            if not len(missing):
                break
            table = KeyAggregates.from_table(self._store.read_segment(KIND, segment))
            at, there = find_sorted(table.key, keys[missing])
            found.set_rows(missing[there], table.take(at[there]))
            stored[missing[there]] = True
        return found, stored

    def update(
        self,
        keys: KeyAggregates,
        stored: Bools,
        watched: Callable[[Ints], Bools],
        watermark_us: int,
    ) -> None:
        """Store the aggregates of keys that had events, and forget keys past their retention."""
        if not self._retention_us:
            keys = keys.take(stored | watched(keys.key))
        forget_us = watermark_us - self._retention_us
        segments = self._store.segments(KIND)
        merged = segments_to_merge(segments, len(keys)) if len(keys) else []
        if len(merged) < len(segments) and segments[0]["last_us"] <= forget_us:
            self._expire_oldest_segment(watched, watermark_us)
        if not merged:
            self._add_segment(keys)
            return
        merges_all = len(merged) == len(segments)
        parts = [
            KeyAggregates.from_table(self._store.read_segment(KIND, segment)) for segment in merged
        ]
        for segment in merged:
            self._store.drop_segment(KIND, segment)
        rows = KeyAggregates.concat([*parts, keys])
        rows = rows.take(np.argsort(rows.key, kind="stable"))
        kept = np.append(rows.key[1:] != rows.key[:-1], True)
        if merges_all:
            # A key may be forgotten only here: no older segment is left whose row would count
            # instead.
            kept &= (rows.last_us > forget_us) | watched(rows.key)
        self._add_segment(rows.take(kept))

    def _add_segment(
        self, keys: KeyAggregates, *, as_oldest: bool = False, last_us: int | None = None
    ) -> None:
        if len(keys):
            last_us = int(keys.last_us.max()) if last_us is None else last_us
            self._store.add_segment(
                KIND, as_oldest=as_oldest, metadata={"last_us": last_us}, rows=keys.to_table()
            )

    def _expire_oldest_segment(self, watched: Callable[[Ints], Bools], watermark_us: int) -> None:
        """Reduce the oldest segment to its watched keys.

        The rest is dated `watermark_us`, so it is not examined again before another `retention_us`
        has passed.
        """
        segment = self._store.segments(KIND)[0]
        keys = KeyAggregates.from_table(self._store.read_segment(KIND, segment))
        self._store.drop_segment(KIND, segment)
        self._add_segment(keys.take(watched(keys.key)), as_oldest=True, last_us=watermark_us)
