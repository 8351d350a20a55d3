"""Rows between Spark and the shards, packed into blobs.

Spark passes the rows of `transformWithStateInPandas` through Python one at a time. So the rows of a
batch are packed by shard: one row of Spark's holds a blob, an Arrow IPC stream of any number of
rows.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from purgatory_spark._outcomes.reject_rows import rows_as_json
from purgatory_spark._outcomes.results import RESULTS
from purgatory_spark._rows.schema import AGGREGATES, ARROW_SCHEMAS, IDENTITY
from purgatory_spark._spark.schemas import utc_schema

#: The three kinds of input. Segments of the first two are stored under these names.
REQUESTS = "requests"
EVENTS = "events"
REJECTS = "rejects"

#: A request that a shard stores until the watermark reaches its arrival: times in microseconds
#: since the epoch; `id` is a hash of host and request_id, `keys` are hashes of host and watch key;
#: `aggregate` is an index into `schema.AGGREGATES`; `needed` is the number of keys that must be
#: satisfied: all of them for `all`, 1 for `any`. Only for these two may a key occur twice. The last
#: columns are for the report of a repeated request: `row` is the row of a mapped input as text, and
#: null of others.
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
        "watch_keys": pa.list_(pa.string()),
        "quantifier": pa.string(),
        "row": pa.string(),
    }
)
#: An event that a shard stores until the watermark reaches its time; `key` is a hash of host and
#: key.
EVENT_SCHEMA = pa.schema({"key": pa.int64(), "us": pa.int64(), "amount": pa.float64()})

#: With the original names, which only the report of a late event needs; a shard does not store
#: them.
EVENT_INPUT_SCHEMA = pa.schema(
    [
        *EVENT_SCHEMA,
        *[pa.field(name, pa.string()) for name in ("host", "event_key", "row")],
    ]
)
REJECT_INPUT_SCHEMA = pa.schema({"reason": pa.string(), "row": pa.string()})

#: What a shard returns: outcomes, with null `reason` and `row`; and late or rejected rows, with
#: null in all columns but `reason`, `row` and `kind`.
RESULT_SCHEMA = utc_schema(RESULTS)


def late_rows(kind: str, rows: pa.Table, reason: str) -> pa.Table:
    """Return input rows that a shard refuses, as they came in, as rows of `RESULT_SCHEMA`."""
    original = original_requests(rows) if kind == REQUESTS else _original_events(rows)
    texts = pc.coalesce(rows.column("row"), pa.array(rows_as_json(original), pa.string()))
    reasons = pa.repeat(f"{reason} {kind.removesuffix('s')}", len(texts))
    return result_rows(kind="late", reason=reasons, row=texts)


def original_requests(rows: pa.Table) -> pa.Table:
    """Return requests of `REQUEST_SCHEMA` in the columns of the trace's schema.

    Those that earlier code stored have neither watch keys nor a quantifier.
    """
    timeout_us = pc.subtract(rows.column("deadline_us"), rows.column("arrived_us"))
    columns = {
        "arrived_at": rows.column("arrived_us"),
        "timeout_ms": pc.divide(timeout_us, 1000),
        "aggregate": pa.array(AGGREGATES).take(rows.column("aggregate")),
    }
    names = ARROW_SCHEMAS[REQUESTS].names
    return pa.table(
        {name: columns[name] if name in columns else rows.column(name) for name in names}
    )


def _original_events(rows: pa.Table) -> pa.Table:
    names = {"key": "event_key", "occurred_at": "us"}
    return pa.table(
        {name: rows.column(names.get(name, name)) for name in ARROW_SCHEMAS[EVENTS].names}
    )


def result_rows(*, kind: str, **columns: Any) -> pa.Table:
    """Return rows of `RESULT_SCHEMA`, null in the columns that are not given."""
    columns["kind"] = pa.repeat(kind, len(next(iter(columns.values()))))
    parts = [RESULT_SCHEMA.empty_table(), pa.table(columns)]
    return pa.concat_tables(parts, promote_options="default")
