"""Rows between Spark and the shards, packed into blobs.

Spark passes the rows of `transformWithStateInPandas` through Python one at a time. So the rows of a
batch are packed by shard: one row of Spark's holds a blob, an Arrow IPC stream of any number of
rows.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from purgatory_spark._outcomes.results import RESULTS
from purgatory_spark._rows.schema import ARROW_SCHEMAS, IDENTITY
from purgatory_spark._spark.schemas import utc_schema

#: The three kinds of input. Segments of the first two are stored under these names.
REQUESTS = "requests"
EVENTS = "events"
REJECTS = "rejects"

#: A request that a shard stores until the watermark reaches its arrival: times in microseconds
#: since the epoch; `id` is a hash of host and request_id, `keys` are hashes of host and watch key;
#: `aggregate` is an index into `schema.AGGREGATES`; `needed` is the number of keys that must be
#: satisfied: all of them for `all`, 1 for `any`. Only for these two may a key occur twice.
REQUEST_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        **{name: ARROW_SCHEMAS["requests"].field(name).type for name in IDENTITY},
        "arrived_us": pa.int64(),
        "deadline_us": pa.int64(),
        "keys": pa.list_(pa.int64()),
        "aggregate": pa.int8(),
        "threshold": pa.float64(),
        "needed": pa.int32(),
    }
)
#: An event that a shard stores until the watermark reaches its time; `key` is a hash of host and
#: key.
EVENT_SCHEMA = pa.schema({"key": pa.int64(), "us": pa.int64(), "amount": pa.float64()})

#: With the original names, which only the report of a late row needs; a shard does not store them.
REQUEST_INPUT_SCHEMA = REQUEST_SCHEMA.append(pa.field("watch_keys", pa.list_(pa.string())))
EVENT_INPUT_SCHEMA = EVENT_SCHEMA.append(pa.field("host", pa.string())).append(
    pa.field("event_key", pa.string())
)
REJECT_INPUT_SCHEMA = pa.schema({"reason": pa.string(), "row": pa.string()})

#: What a shard returns: outcomes, with null `reason` and `row`; and late or rejected rows, with
#: null in all columns but `reason`, `row` and `kind`.
RESULT_SCHEMA = utc_schema(RESULTS)


def late_rows(kind: str, rows: pa.Table, reason: str) -> pa.Table:
    """Return input rows that a shard refuses, as rows of `RESULT_SCHEMA`."""
    names = [name for name in rows.schema.names if name not in ("id", "keys", "key")]
    texts = [json.dumps(row, ensure_ascii=False) for row in rows.select(names).to_pylist()]
    reasons = pa.repeat(f"{reason} {kind.removesuffix('s')}", len(texts))
    return result_rows(kind="late", reason=reasons, row=pa.array(texts, pa.string()))


def result_rows(*, kind: str, **columns: Any) -> pa.Table:
    """Return rows of `RESULT_SCHEMA`, null in the columns that are not given."""
    columns["kind"] = pa.repeat(kind, len(next(iter(columns.values()))))
    parts = [RESULT_SCHEMA.empty_table(), pa.table(columns)]
    return pa.concat_tables(parts, promote_options="default")
