"""The ids of accepted requests, which no other request may use before their deadlines."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from purgatory_spark._rows.repeats import NOT_RESERVED_US
from purgatory_spark._spark.arrays import Ints
from purgatory_spark._stream.state.columns import find_sorted, numpy_column
from purgatory_spark._stream.state.compaction import segments_to_merge
from purgatory_spark._stream.state.store import ShardStore

KIND = "ids"
ID_SCHEMA = pa.schema({"id": pa.int64(), "until_us": pa.int64()})


class RequestIds:
    """Ids that are reserved until their request's deadline, even if the request ends earlier.

    They are stored in segments sorted by id, each with the latest deadline in its metadata
    (`until_us`).
    """

    def __init__(self, store: ShardStore) -> None:
        self._store = store

    def reserved_until_us(self, ids: Ints) -> Ints:
        """Return until when each id is reserved; NOT_RESERVED_US if it is free."""
        until: Ints = np.full(len(ids), NOT_RESERVED_US)
        for segment in self._store.segments(KIND):
            table = self._store.read_segment(KIND, segment)
            at, there = find_sorted(numpy_column(table, "id"), ids)
            until[there] = np.maximum(until[there], numpy_column(table, "until_us")[at[there]])
        return until

    def reserve(self, ids: Ints, until_us: Ints, watermark_us: int) -> None:
        """Reserve free ids, and remove reservations that the watermark has passed."""
        for segment in list(self._store.segments(KIND)):
            if segment["until_us"] <= watermark_us:
                self._store.drop_segment(KIND, segment)
        ahead = until_us > watermark_us
        ids, until_us = ids[ahead], until_us[ahead]
        if not len(ids):
            return
        for segment in segments_to_merge(self._store.segments(KIND), len(ids)):
            table = self._store.read_segment(KIND, segment)
            self._store.drop_segment(KIND, segment)
            old = numpy_column(table, "until_us")
            kept = old > watermark_us
            ids = np.concatenate([ids, numpy_column(table, "id")[kept]])
            until_us = np.concatenate([until_us, old[kept]])
        # Only live reservations are left, so no id occurs twice.
        order = np.argsort(ids)
        rows = pa.table([ids[order], until_us[order]], schema=ID_SCHEMA)
        self._store.add_segment(KIND, metadata={"until_us": int(until_us.max())}, rows=rows)
