"""Read what the checkpoint of a stream holds, without running the query."""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as T  # noqa: N812

from purgatory_spark._spark.files import spark_write_path
from purgatory_spark._spark.schemas import fields_of, from_micros, micros_schema, utc_schema
from purgatory_spark._stream.checkpoint import CheckpointError
from purgatory_spark._stream.processor import STATE_NAME
from purgatory_spark._stream.state import key_history, pending, request_ids, rows
from purgatory_spark._stream.state.columns import numpy_column
from purgatory_spark._stream.state.layout import OLDEST_VERSION, STATE_VERSION
from purgatory_spark._stream.state.store import ShardStore

#: The parts of a shard's state whose sizes are reported. All but two are the rows of the segments
#: of that kind; `pairs` is the other part of `pending`, and `head` the list of segments.
PARTS = (rows.REQUESTS, rows.EVENTS, pending.KIND, "pairs", key_history.KIND, request_ids.KIND)
HEAD = "head"

#: What Java encodes in a URI. Spark's reader of state encodes paths twice (4.3), and finds nothing.
_ENCODED = re.compile(r"""[\x00-\x20\x7f"#%<>?\[\\\]^`{|}]""")

#: A row for each shard that has state; see `read_stream_state`.
SHARD_STATE = T.StructType(
    [
        *fields_of(T.IntegerType(), "shard"),
        *fields_of(T.LongType(), "batch"),
        *fields_of(T.IntegerType(), "layout", "segments"),
        *fields_of(T.LongType(), "pending"),
        *fields_of(T.TimestampType(), "oldest_arrived_at", "first_deadline_at", "last_deadline_at"),
        *fields_of(
            T.LongType(), "requests_ahead", "events_ahead", "remembered_keys", "reserved_ids"
        ),
        *fields_of(T.TimestampType(), "due_at"),
        *fields_of(T.StructType(fields_of(T.LongType(), *PARTS, HEAD)), "bytes"),
    ]
)
#: What Python returns: times in microseconds since the epoch, since Spark refuses Arrow's
#: timestamps of another zone than the session's.
_DESCRIBED = T.StructType([field for field in micros_schema(SHARD_STATE) if field.name != "batch"])


def read_stream_state(spark: SparkSession, checkpoint: str | Path) -> DataFrame:
    """Return what a stream's checkpoint holds, as of its last committed batch.

    The checkpoint is read and not changed, and the stream may be running.

    Args:
        spark: any session.
        checkpoint: the stream's `checkpointLocation`: a local path, or what Spark takes for one.

    Returns:
        A DataFrame of `SHARD_STATE`, with a row for each shard that has state: `batch`, the last
        committed one; `layout`, the earliest of its segments; the numbers of `segments`, of
        `pending` requests, of requests and events that are ahead of the watermark, of
        `remembered_keys`, and of stored request ids; the oldest arrival, and the first and last
        deadline, of the pending requests; `due_at`, when the shard is stepped next without further
        rows; and `bytes` as the state store has them, before it compresses its files.

    Raises:
        CheckpointError: the folder is not the checkpoint of a purgatory stream, no batch of it has
            been committed, or Spark can't read a path such as this. Where this version can't read
            the layout, Spark raises an error with the text of a `StateLayoutError` as soon as it
            runs the DataFrame.
    """
    location = (
        spark_write_path(checkpoint) if isinstance(checkpoint, Path) else checkpoint.rstrip("/")
    )
    if encoded := _ENCODED.search(location):
        raise CheckpointError(
            f"{checkpoint}: Spark's reader of state can't open a path with {encoded.group()!r}; "
            "make a link to it without (ln -s), and read that"
        )
    operator = _find_operator(spark, location, str(checkpoint))
    stored = (
        spark.read.format("statestore")
        .option("stateVarName", STATE_NAME)
        .option("operatorId", operator["operatorId"])
        .option("batchId", operator["maxBatchId"])
        .load(location)
    )
    name, blob = F.col("user_map_key.name"), F.col("user_map_value.blob")
    is_needed = name.rlike(rf"^({HEAD}|({pending.KIND}|{key_history.KIND})-\d+-rows)$")
    blobs = stored.select(
        _shard_number(F.col("key.shard")).alias("shard"),
        name.alias("name"),
        F.octet_length(blob).cast("bigint").alias("bytes"),
        F.when(is_needed, blob).alias("blob"),
    )
    described = blobs.mapInArrow(_describe_shards, _DESCRIBED)
    batch = F.lit(operator["maxBatchId"]).cast("bigint")
    return from_micros(described.withColumn("batch", batch), SHARD_STATE)


def _shard_number(label: Column) -> Column:
    """Return a shard's number; see `packing.shard_labels`.

    No label of `even` shards is among the labels of the others, up to this number of shards.
    """
    return F.when(label.between(0, 65_535), label).otherwise(F.hash(label))


def _find_operator(spark: SparkSession, location: str, checkpoint: str) -> Row:
    operators = spark.read.format("state-metadata").load(location).collect()
    ours = [
        operator
        for operator in operators
        if STATE_NAME
        in {
            variable["stateName"]
            for variable in json.loads(operator["operatorProperties"] or "{}").get(
                "stateVariables", ()
            )
        }
    ]
    if len(ours) == 1 and ours[0]["maxBatchId"] >= 0:
        return ours[0]
    if not operators or (ours and ours[0]["maxBatchId"] < 0):
        reason = "it has no state, or no batch has been committed yet"
    elif not ours:
        names = ", ".join(operator["operatorName"] for operator in operators)
        reason = f"its state is that of {names}"
    else:
        reason = f"it has the state of {len(ours)} of them"
    raise CheckpointError(f"{checkpoint}: not the checkpoint of a purgatory stream: {reason}")


def _describe_shards(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield rows of `_DESCRIBED` for the shards of a partition, which has all their blobs."""
    blobs: dict[int, dict[str, bytes]] = defaultdict(dict)
    sizes: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys((*PARTS, HEAD), 0))
    for batch in batches:
        for row in batch.to_pylist():
            if row["blob"] is not None:
                blobs[row["shard"]][row["name"]] = base64.b64decode(row["blob"])
            kind, _, part = row["name"].partition("-")
            sizes[row["shard"]]["pairs" if part.endswith("-pairs") else kind] += row["bytes"]
    described = [
        {"shard": shard, **describe_state(ShardStore(blobs[shard])), "bytes": size}
        for shard, size in sizes.items()
    ]
    yield pa.RecordBatch.from_pylist(described, schema=utc_schema(_DESCRIBED))


def describe_state(store: ShardStore) -> dict[str, Any]:
    """Return the columns of `SHARD_STATE` that a store decides; times are in microseconds."""
    generations = [
        pending.StoredGeneration(store, segment) for segment in store.segments(pending.KIND)
    ]
    arrived, deadline = (
        np.concatenate(
            [
                np.array([], dtype=np.int64),
                *(numpy_column(each.requests, time)[each.alive] for each in generations),
            ]
        )
        for time in ("arrived_us", "deadline_us")
    )
    keys = [
        numpy_column(store.read_segment(key_history.KIND, segment), "key")
        for segment in store.segments(key_history.KIND)
    ]
    segments = [segment for some in store.head["segments"].values() for segment in some]
    timer_ms = store.head.get("timer_ms")
    return {
        "layout": min(
            (segment.get("layout", OLDEST_VERSION) for segment in segments), default=STATE_VERSION
        ),
        "segments": len(segments),
        "pending": len(arrived),
        "oldest_arrived_at": int(arrived.min()) if len(arrived) else None,
        "first_deadline_at": int(deadline.min()) if len(arrived) else None,
        "last_deadline_at": int(deadline.max()) if len(arrived) else None,
        "requests_ahead": _rows(store, rows.REQUESTS),
        "events_ahead": _rows(store, rows.EVENTS),
        # A key may be in several segments, of which the newest counts.
        "remembered_keys": len(np.unique(np.concatenate(keys))) if keys else 0,
        "reserved_ids": _rows(store, request_ids.KIND),
        "due_at": None if timer_ms is None else timer_ms * 1000,
    }


def _rows(store: ShardStore, kind: str) -> int:
    return sum(segment["rows"] for segment in store.segments(kind))
