"""Shards as Spark runs them: their state in its state store, and one timer each."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from request_purgatory.pipeline.spark.worker_gc import settle_worker
from request_purgatory.pipeline.stream.state.rows import PENDING, from_blob, results, to_blob
from request_purgatory.pipeline.stream.state.shard import NO_WATERMARK_US, Shard, Step
from request_purgatory.pipeline.stream.state.store import ShardStore

_NAME = T.StructType([T.StructField("name", T.StringType())])
#: Text, not bytes: Spark hands a byte array to Python at 50 MB/s, and text, even as base64, at 140
#: MB/s of what is in it (its state server pickles an array byte by byte; PySpark 4.3).
_BLOB = T.StructType([T.StructField("blob", T.StringType())])


class StateBlobs:
    """Blobs in a map of Spark's state store."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else base64.b64decode(value[0])

    def put(self, name: str, blob: bytes) -> None:
        self._state.updateValue((name,), (base64.b64encode(blob).decode("ascii"),))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))


class ShardProcessor(StatefulProcessor):
    """Steps a shard whenever it has rows, or its one timer says that the watermark has reached something of it."""

    def __init__(self, *, remember_ms: int, max_shard_mb: int) -> None:
        # One for each start of a stream, as this is made on the driver.
        self._start = secrets.token_hex(8)
        self._remember_ms = remember_ms
        self._max_shard_mb = max_shard_mb

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark."""
        settle_worker()
        self._handle = handle
        self._state = handle.getMapState("blobs", _NAME, _BLOB)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Called by Spark with packed rows (`shard`, `kind`, `blob`) of one shard."""
        inputs: dict[str, list[pa.Table]] = {}
        for frame in rows:
            for kind, blob in zip(frame["kind"], frame["blob"], strict=True):
                inputs.setdefault(kind, []).append(from_blob(blob))
        yield from self._step(inputs, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Called by Spark when the watermark has reached the shard's timer, after the rows of the same batch."""
        yield from self._step({}, timerValues.getCurrentWatermarkInMs())

    def _step(self, inputs: dict[str, list[pa.Table]], watermark_ms: int) -> Iterator[pd.DataFrame]:
        store = ShardStore(StateBlobs(self._state), copies=True)
        shard = Shard(
            store, remember_us=self._remember_ms * 1000, max_bytes=self._max_shard_mb * 2**20
        )
        # Spark begins at 1970, and means that there is no watermark yet.
        step = shard.step(inputs, watermark_ms * 1000 if watermark_ms > 0 else NO_WATERMARK_US)
        self._set_timer(store, step, watermark_ms)
        self._tell_pending(store, step)
        store.save()
        yield pd.DataFrame({"blob": [to_blob(pa.concat_tables(step.results).combine_chunks())]})

    def _tell_pending(self, store: ShardStore, step: Step) -> None:
        """How many more requests wait than before: they add up over shards and batches.

        All that wait, first in every start.
        """
        change = step.pending_change if store.head.get("start") == self._start else step.pending
        store.head["start"] = self._start
        step.results.append(results(kind=PENDING, waited_ms=pa.array([float(change)])))

    def _set_timer(self, store: ShardStore, step: Step, watermark_ms: int) -> None:
        before = store.head.get("timer_ms")
        # Rounded up, as the watermark has whole milliseconds; and ahead of it, as that is when
        # timers are looked at.
        after = None if step.next_us is None else max(-(-step.next_us // 1000), watermark_ms + 1)
        if before == after:
            return
        if before is not None and before > watermark_ms:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)
        store.head["timer_ms"] = after

    def close(self) -> None:
        """Called by Spark."""
