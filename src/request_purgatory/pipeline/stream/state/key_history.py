"""What a shard remembers of its keys from one step to the next."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from request_purgatory.pipeline.outcomes.condition import Bools, Ints
from request_purgatory.pipeline.stream.state.columns import find
from request_purgatory.pipeline.stream.state.compaction import absorbed
from request_purgatory.pipeline.stream.state.keys import KeyTable
from request_purgatory.pipeline.stream.state.store import ShardStore

KIND = "keys"


class KeyRecords:
    """The keys' aggregates in segments, each in the order of the keys; what a newer segment says of a key counts.

    A key that a request watches is kept. One that nobody watches is kept for `remember_us` after
    its last event, and longer until its segment's turn comes.
    """

    def __init__(self, store: ShardStore, remember_us: int) -> None:
        self._store = store
        self._remember_us = remember_us

    def lookup(self, keys: Ints) -> tuple[KeyTable, Bools]:
        """The aggregates of distinct keys, in their order, and which of them are remembered."""
        found = KeyTable.unknown(keys)
        known = np.zeros(len(keys), dtype=bool)
        for segment in reversed(self._store.segments(KIND)):
            missing = np.flatnonzero(~known)
            if not len(missing):
                break
            table = KeyTable.of(self._store.read_segment(KIND, segment))
            at, there = find(table.key, keys[missing])
            found.put(missing[there], table.where(at[there]))
            known[missing[there]] = True
        return found, known

    def put(
        self, keys: KeyTable, had_record: Bools, watched: Callable[[Ints], Bools], watermark_us: int
    ) -> None:
        """Note the aggregates of keys that had events.

        Args:
            had_record: which of them are remembered: what is remembered has to stay true.
            watched: which of some keys requests watch; it may say so of others, too.
        """
        if not self._remember_us:
            keys = keys.where(had_record | watched(keys.key))
        forget_us = watermark_us - self._remember_us
        segments = self._store.segments(KIND)
        merged = absorbed(segments, len(keys)) if len(keys) else []
        if len(merged) < len(segments) and segments[0]["last_us"] <= forget_us:
            self._forget_oldest(watched, watermark_us)
        if not merged:
            self._add(keys)
            return
        whole = len(merged) == len(segments)
        parts = [KeyTable.of(self._store.read_segment(KIND, segment)) for segment in merged]
        for segment in merged:
            self._store.drop_segment(KIND, segment)
        rows = KeyTable.joined([*parts, keys])
        rows = rows.where(np.argsort(rows.key, kind="stable"))
        newest = np.append(rows.key[1:] != rows.key[:-1], True)
        if whole:
            # Nothing older is left that would count in its place.
            newest &= (rows.last_us > forget_us) | watched(rows.key)
        self._add(rows.where(newest))

    def _add(
        self, keys: KeyTable, *, first: bool = False, look_again_us: int | None = None
    ) -> None:
        if len(keys):
            last_us = int(keys.last_us.max()) if look_again_us is None else look_again_us
            self._store.add_segment(
                KIND, first=first, known={"last_us": last_us}, rows=keys.table()
            )

    def _forget_oldest(self, watched: Callable[[Ints], Bools], watermark_us: int) -> None:
        """All of the oldest segment but what is watched, which is looked at again when as much time has passed."""
        segment = self._store.segments(KIND)[0]
        keys = KeyTable.of(self._store.read_segment(KIND, segment))
        self._store.drop_segment(KIND, segment)
        self._add(keys.where(watched(keys.key)), first=True, look_again_us=watermark_us)
