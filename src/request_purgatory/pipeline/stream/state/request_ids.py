"""The ids of requests that are not to be used again yet."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from request_purgatory.pipeline.outcomes.condition import Ints
from request_purgatory.pipeline.stream.state.columns import column, find
from request_purgatory.pipeline.stream.state.compaction import absorbed
from request_purgatory.pipeline.stream.state.store import ShardStore

KIND = "ids"
IDS = pa.schema({"id": pa.int64(), "until_us": pa.int64()})
#: Before every time.
NEVER_TAKEN = -(2**62)


class TakenIds:
    """Each accepted request's id until its deadline, whether it waits or has ended.

    Segments in the order of the ids.
    """

    def __init__(self, store: ShardStore) -> None:
        self._store = store

    def until_us(self, ids: Ints) -> Ints:
        """Until when each id is taken; NEVER_TAKEN if it is not."""
        until: Ints = np.full(len(ids), NEVER_TAKEN)
        for segment in self._store.segments(KIND):
            table = self._store.read_segment(KIND, segment)
            at, there = find(column(table, "id"), ids)
            until[there] = np.maximum(until[there], column(table, "until_us")[at[there]])
        return until

    def put(self, ids: Ints, until_us: Ints, watermark_us: int) -> None:
        """Note ids, and forget those that are free."""
        for segment in list(self._store.segments(KIND)):
            if segment["until_us"] <= watermark_us:
                self._store.drop_segment(KIND, segment)
        ahead = until_us > watermark_us
        ids, until_us = ids[ahead], until_us[ahead]
        if not len(ids):
            return
        for segment in absorbed(self._store.segments(KIND), len(ids)):
            table = self._store.read_segment(KIND, segment)
            self._store.drop_segment(KIND, segment)
            old = column(table, "until_us")
            kept = old > watermark_us
            ids = np.concatenate([ids, column(table, "id")[kept]])
            until_us = np.concatenate([until_us, old[kept]])
        # What is free is not here, so no id is here twice.
        order = np.argsort(ids)
        rows = pa.table([ids[order], until_us[order]], schema=IDS)
        self._store.add_segment(KIND, known={"until_us": int(until_us.max())}, rows=rows)
