"""The stateful processor: runs shards in Spark, each with its state and one timer."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from request_purgatory.pipeline.spark.worker_gc import freeze_imported_objects
from request_purgatory.pipeline.stream.state.rows import (
    PENDING_CHANGE,
    STATE_CHANGE,
    from_blob,
    result_rows,
    to_blob,
)
from request_purgatory.pipeline.stream.state.shard import NO_WATERMARK_US, Shard, StepResult
from request_purgatory.pipeline.stream.state.store import ShardStore

#: The state variable that has all blobs, by name.
STATE_NAME = "blobs"
_NAME = T.StructType([T.StructField("name", T.StringType())])
#: Blobs are base64 text, because Spark hands text to Python at 140 MB/s of decoded contents, and
#: byte arrays at 50 MB/s: its state server pickles them byte by byte (PySpark 4.3).
_BLOB = T.StructType([T.StructField("blob", T.StringType())])


class SparkBlobStore:
    """Blobs in a map of Spark's state store."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        """Return a blob, or None if there is none of that name."""
        value = self._state.getValue((name,))
        return None if value is None else base64.b64decode(value[0])

    def put(self, name: str, blob: bytes) -> None:
        """Store a blob, in place of one of the same name."""
        self._state.updateValue((name,), (base64.b64encode(blob).decode("ascii"),))

    def remove(self, name: str) -> None:
        """Remove a blob, which exists."""
        self._state.removeKey((name,))


class ShardProcessor(StatefulProcessor):
    """Steps a shard when it has rows, and when the watermark reaches its timer.

    The timer is set to the event time at which something of the shard is due next.
    """

    def __init__(self, *, key_retention_ms: int, max_shard_mb: int) -> None:
        # The driver makes one processor for each start of a stream.
        self._start = secrets.token_hex(8)
        self._key_retention_ms = key_retention_ms
        self._max_shard_mb = max_shard_mb

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; Spark calls this once in each task."""
        freeze_imported_objects()
        self._handle = handle
        self._state = handle.getMapState(STATE_NAME, _NAME, _BLOB)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Step a shard that has rows.

        Args:
            key: the shard's number.
            rows: frames of `rows.PACKED_SCHEMA`.
            timerValues: Spark's clock and watermark.

        Yields:
            One row with a blob of results.
        """
        inputs: dict[str, list[pa.Table]] = {}
        for frame in rows:
            for kind, blob in zip(frame["kind"], frame["blob"], strict=True):
                inputs.setdefault(kind, []).append(from_blob(blob))
        yield from self._step(inputs, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Step a shard whose timer the watermark has reached, after the rows of the same batch.

        Args:
            key: the shard's number.
            timerValues: Spark's clock and watermark.
            expiredTimerInfo: the timer, which Spark deletes afterwards.

        Yields:
            One row with a blob of results.
        """
        yield from self._step({}, timerValues.getCurrentWatermarkInMs(), has_expired=True)

    def _step(
        self, inputs: dict[str, list[pa.Table]], watermark_ms: int, *, has_expired: bool = False
    ) -> Iterator[pd.DataFrame]:
        store = ShardStore(SparkBlobStore(self._state), use_local_cache=True)
        shard = Shard(
            store,
            key_retention_us=self._key_retention_ms * 1000,
            max_bytes=self._max_shard_mb * 2**20,
        )
        # Spark's watermark is 0 until there is one.
        result = shard.step(inputs, watermark_ms * 1000 if watermark_ms > 0 else NO_WATERMARK_US)
        self._set_timer(store, result, watermark_ms, has_expired=has_expired)
        self._add_changes(store, result)
        store.save()
        yield pd.DataFrame({"blob": [to_blob(pa.concat_tables(result.tables).combine_chunks())]})

    def _add_changes(self, store: ShardStore, result: StepResult) -> None:
        """Add rows with the changes of the number of pending requests and of the state's bytes.

        The changes of all shards and batches since the start add up to what there is. So a shard's
        first step of each start counts all its pending requests and bytes as new.
        """
        is_first = store.head.get("start") != self._start
        pending = result.pending if is_first else result.pending_change
        stored = store.stored_bytes()
        changes = {
            PENDING_CHANGE: pending,
            STATE_CHANGE: stored if is_first else stored - store.head["bytes"],
        }
        store.head |= {"start": self._start, "bytes": stored}
        for kind, change in changes.items():
            result.tables.append(result_rows(kind=kind, waited_ms=pa.array([float(change)])))

    def _set_timer(
        self, store: ShardStore, result: StepResult, watermark_ms: int, *, has_expired: bool
    ) -> None:
        """Move the shard's timer to the time at which it is due next."""
        before = store.head.get("timer_ms")
        # Rounded up, because the watermark is in whole milliseconds. At least one millisecond ahead
        # of the watermark, because everything up to it has been done.
        after = (
            None
            if result.next_due_us is None
            else max(-(-result.next_due_us // 1000), watermark_ms + 1)
        )
        if before == after:
            return
        # Spark looks for expired timers after a batch's rows. One that is due now is deleted as
        # well: it would only step the shard a second time.
        if before is not None and not has_expired:
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)
        store.head["timer_ms"] = after

    def close(self) -> None:
        """Do nothing; Spark calls this at the end of each task."""
