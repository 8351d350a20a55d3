"""Rows on their way through the stream: packed by shard into blobs, so that Spark moves and hands over few rows instead of many.

Spark passes the rows of `transformWithStateInPandas` through Python one at a time. A blob is one
row of Spark's and any number of ours: a batch in Arrow's IPC format.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

#: The three kinds of input.
REQUESTS = "requests"
EVENTS = "events"
REJECTS = "rejects"

#: The kind of a result that is no row of the output: how many more requests wait than before, in
#: `waited_ms`.
PENDING = "pending"

_KEYS = pa.list_(pa.int64())

#: A request as a shard keeps it before its arrival has been reached: times in microseconds since
#: the epoch; `id` is a hash of host and request_id, `keys` are hashes of host and watch key;
#: `aggregate` is a position in `schema.AGGREGATES`; `every` is the quantifier `all`.
REQUEST_ROWS = pa.schema(
    {
        "id": pa.int64(),
        "host": pa.string(),
        "request_id": pa.string(),
        "request_type": pa.string(),
        "arrived_us": pa.int64(),
        "deadline_us": pa.int64(),
        "keys": _KEYS,
        "aggregate": pa.int8(),
        "threshold": pa.float64(),
        "every": pa.bool_(),
    }
)
EVENT_ROWS = pa.schema({"key": pa.int64(), "us": pa.int64(), "amount": pa.float64()})

#: With what a late row is told by, which a shard does not keep.
REQUEST_INPUT = REQUEST_ROWS.append(pa.field("watch_keys", pa.list_(pa.string())))
EVENT_INPUT = EVENT_ROWS.append(pa.field("host", pa.string())).append(
    pa.field("event_key", pa.string())
)
REJECT_INPUT = pa.schema({"reason": pa.string(), "row": pa.string()})

INPUTS = {REQUESTS: REQUEST_INPUT, EVENTS: EVENT_INPUT, REJECTS: REJECT_INPUT}

#: What a shard gives: outcomes, with `reason` and `row` null, and rows that came late or were
#: refused, with nothing else.
RESULT_ROWS = pa.schema(
    {
        "host": pa.string(),
        "request_id": pa.string(),
        "request_type": pa.string(),
        "arrived_at": pa.timestamp("us", tz="UTC"),
        "ended_at": pa.timestamp("us", tz="UTC"),
        "outcome": pa.string(),
        "waited_ms": pa.float64(),
        "reason": pa.string(),
        "row": pa.string(),
        "kind": pa.string(),
    }
)

#: A blob on its way to its shard.
PACKED = pa.schema({"shard": pa.int32(), "kind": pa.string(), "blob": pa.binary()})

# Half the size of LZ4's, as quickly: it is bytes that the way through the state store costs.
_COMPRESSION = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))


def to_blob(table: pa.Table | pa.RecordBatch) -> bytes:
    """A table in Arrow's IPC format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSION) as writer:
        writer.write(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def from_blob(blob: bytes) -> pa.Table:
    """The table that `to_blob` wrote."""
    with pa.ipc.open_stream(blob) as reader:
        return reader.read_all()


def pack(batch: pa.RecordBatch, kind: str) -> Iterator[dict[str, Any]]:
    """The rows of a batch, which has a column `shard` besides those of `INPUTS[kind]`, as a packed row for each shard."""
    shards = batch.column("shard").to_numpy()
    order = np.argsort(shards, kind="stable")
    rows = batch.select(INPUTS[kind].names).take(pa.array(order))
    shards = shards[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], shards[1:] != shards[:-1]]))
        if len(shards)
        else np.array([], dtype=np.int64)
    )
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(shards)], strict=False):
        yield {
            "shard": int(shards[start]),
            "kind": kind,
            "blob": to_blob(rows.slice(start, end - start)),
        }


def late_rows(kind: str, late: pa.Table, reason: str) -> pa.Table:
    """Rows of an input that are not taken in, as rows of `RESULT_ROWS`."""
    names = [name for name in late.schema.names if name not in ("id", "keys", "key")]
    texts = [json.dumps(row, ensure_ascii=False) for row in late.select(names).to_pylist()]
    reasons = pa.repeat(f"{reason} {kind.removesuffix('s')}", len(texts))
    return results(kind="late", reason=reasons, row=pa.array(texts, pa.string()))


def results(*, kind: str, **columns: Any) -> pa.Table:
    """Rows of `RESULT_ROWS`, null where no column is given."""
    count = len(next(iter(columns.values())))
    columns["kind"] = pa.repeat(kind, count)
    arrays = [
        columns[field.name] if field.name in columns else pa.nulls(count, field.type)
        for field in RESULT_ROWS
    ]
    return pa.table(arrays, names=RESULT_ROWS.names).cast(RESULT_ROWS)
