"""The stateful processor: runs shards in Spark, each with its state and one timer."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from purgatory_spark._outcomes.results import OUTCOME_KIND, RESULTS
from purgatory_spark._rows.packing import from_blob
from purgatory_spark._rows.schema import COMPLETED, EXPIRED, IDENTITY
from purgatory_spark._spark.schemas import batch_to_micros, from_micros, micros_schema, text_schema
from purgatory_spark._spark.worker_gc import freeze_imported_objects
from purgatory_spark._stream.state.layout import StateLayoutError
from purgatory_spark._stream.state.rows import RESULT_SCHEMA
from purgatory_spark._stream.state.shard import NO_WATERMARK_US, Shard, StepResult
from purgatory_spark._stream.state.store import ShardStore

if TYPE_CHECKING:
    import pandas as pd

#: The counts of a step that the query observes: input rows, results by kind, and by how much the
#: step has changed the number of pending requests and the state's bytes.
COUNTS = ("rows", "completed", "expired", "late", "pending_change", "state_change")
_RESULT_NAMES = (*IDENTITY, "arrived_at", "ended_at", "outcome", "reason", "row")
#: What a step returns: results, and one row of which only `counts` is not null: the values of
#: `COUNTS`, with commas. Spark copies each value of each row several times, so what follows from
#: other columns is left out. Times are in microseconds since the epoch, since Spark refuses Arrow's
#: timestamps of another zone than the session's.
STEPPED = T.StructType(
    [
        *[field for field in micros_schema(RESULTS) if field.name in _RESULT_NAMES],
        T.StructField("counts", T.StringType()),
    ]
)
#: The most rows of a frame, which becomes one Arrow batch.
_FRAME_ROWS = 65_536

#: The state variable that has all blobs, by name.
STATE_NAME = "blobs"
_NAME = text_schema("name")
#: Blobs are base64 text, because Spark hands text to Python at 140 MB/s of decoded contents, and
#: byte arrays at 50 MB/s: its state server pickles them byte by byte (PySpark 4.3).
_BLOB = text_schema("blob")


class SparkBlobStore:
    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else base64.b64decode(value[0])

    def __setitem__(self, name: str, blob: bytes) -> None:
        self._state.updateValue((name,), (base64.b64encode(blob).decode("ascii"),))

    def __delitem__(self, name: str) -> None:
        self._state.removeKey((name,))


class ShardProcessor(StatefulProcessor):
    """Steps a shard when it has rows, and when the watermark reaches its timer.

    The timer is set to the event time at which something of the shard is due next.
    """

    def __init__(
        self, *, labels: tuple[int, ...], key_retention_ms: int, max_shard_mb: int
    ) -> None:
        # The driver makes one processor for each start of a stream.
        self._start = secrets.token_hex(8)
        self._labels = frozenset(labels)
        self._key_retention_ms = key_retention_ms
        self._max_shard_mb = max_shard_mb

    def init(self, handle: StatefulProcessorHandle) -> None:
        freeze_imported_objects()
        self._handle = handle
        self._state = handle.getMapState(STATE_NAME, _NAME, _BLOB)

    def handleInputRows(
        self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        inputs: dict[str, list[pa.Table]] = {}
        for frame in rows:
            for kind, blob in zip(frame["kind"], frame["blob"], strict=True):
                inputs.setdefault(kind, []).append(from_blob(blob))
        yield from self._step(inputs, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[pd.DataFrame]:
        """Step a shard whose timer the watermark has reached, after the rows of the same batch."""
        (label,) = key
        if label not in self._labels:
            raise StateLayoutError(
                f"the state has a shard with the label {label}, and this stream has none: the "
                "checkpoint began with another number of shards, or another even_shards"
            )
        yield from self._step(
            {},
            timerValues.getCurrentWatermarkInMs(),
            expired_ms=expiredTimerInfo.getExpiryTimeInMs(),
        )

    def _step(
        self, inputs: dict[str, list[pa.Table]], watermark_ms: int, *, expired_ms: int | None = None
    ) -> Iterator[pd.DataFrame]:
        store = ShardStore(SparkBlobStore(self._state), use_local_cache=True)
        shard = Shard(
            store,
            key_retention_us=self._key_retention_ms * 1000,
            max_bytes=self._max_shard_mb * 2**20,
        )
        # Spark's watermark is 0 until there is one.
        result = shard.step(inputs, watermark_ms * 1000 if watermark_ms > 0 else NO_WATERMARK_US)
        self._set_timer(store, result, watermark_ms, expired_ms)
        tables = [RESULT_SCHEMA.empty_table(), *result.tables]
        results = pa.concat_tables(tables)
        rows = sum(table.num_rows for tables in inputs.values() for table in tables)
        counts = {"rows": rows} | _count_results(results) | self._changes(store, result)
        store.save()
        yield from _frames(results, counts)

    def _changes(self, store: ShardStore, result: StepResult) -> dict[str, int]:
        """Return the changes of the number of pending requests and of the state's bytes.

        The changes of all shards and batches since the start add up to what there is. So a shard's
        first step of each start counts all its pending requests and bytes as new.
        """
        is_first = store.head.get("start") != self._start
        stored = store.stored_bytes()
        before = 0 if is_first else store.head["bytes"]
        store.head |= {"start": self._start, "bytes": stored}
        return {
            "pending_change": result.pending if is_first else result.pending_change,
            "state_change": stored - before,
        }

    def _set_timer(
        self, store: ShardStore, result: StepResult, watermark_ms: int, expired_ms: int | None
    ) -> None:
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
        if before not in (None, expired_ms):
            self._handle.deleteTimer(before)
        if after is not None:
            self._handle.registerTimer(after)
        store.head["timer_ms"] = after

    def close(self) -> None:
        """Do nothing; Spark calls this at the end of each task."""


def _count_results(results: pa.Table) -> dict[str, int]:
    return {
        name: pc.sum(pc.equal(results.column(column), value)).as_py() or 0
        for name, column, value in (
            ("completed", "outcome", COMPLETED),
            ("expired", "outcome", EXPIRED),
            ("late", "kind", "late"),
        )
    }


def _frames(results: pa.Table, counts: dict[str, int]) -> Iterator[pd.DataFrame]:
    """Yield results and counts as rows of `STEPPED`.

    Spark passes the columns of these frames on, as pandas keeps them in Arrow. Others it would
    convert value by value, which takes 14 times as long.
    """
    import pandas as pd  # Only a stream's workers need it, and it is a third of all imports' time.

    count_row = pa.table({"counts": [",".join(str(counts[name]) for name in COUNTS)]})
    ended = batch_to_micros(results.select(_RESULT_NAMES))
    rows = pa.concat_tables([ended, count_row], promote_options="default").combine_chunks()
    for start in range(0, rows.num_rows, _FRAME_ROWS):
        yield rows.slice(start, _FRAME_ROWS).to_pandas(types_mapper=pd.ArrowDtype)


def results_of(stepped: DataFrame) -> DataFrame:
    """Return the results among rows of `STEPPED`, as rows of `RESULTS`."""
    kind = F.when(F.col("reason").isNull(), OUTCOME_KIND).otherwise("late")
    results = stepped.where(F.col("counts").isNull()).select(
        *_RESULT_NAMES,
        ((F.col("ended_at") - F.col("arrived_at")) / 1000).alias("waited_ms"),
        kind.alias("kind"),
    )
    return from_micros(results, RESULTS)


def step_counts() -> list[Column]:
    counts = F.split("counts", ",")
    return [
        F.sum(F.get(counts, F.lit(at)).cast("bigint")).alias(name) for at, name in enumerate(COUNTS)
    ]
