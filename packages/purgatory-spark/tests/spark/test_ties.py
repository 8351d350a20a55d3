"""Of two requests with an id, an arrival and a deadline in common, one counts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from purgatory_spark._importers.recorded import check_tables
from purgatory_spark._outcomes.replay import ReplaySettings, _replay_host
from purgatory_spark._outcomes.satisfied import reject_repeated_parts, satisfy_part, satisfy_shard
from purgatory_spark._outcomes.shards import Sharding, pack_batches
from purgatory_spark._rows.checks import REASON
from purgatory_spark._rows.schema import ARROW_SCHEMAS, REQUESTS
from purgatory_spark._rows.schema import EVENTS as EVENTS_SCHEMA
from purgatory_spark._spark.files import RAW
from purgatory_spark._spark.schemas import from_micros, to_micros
from purgatory_spark._stream.state.store import ShardStore
from tests.spark.test_dead_letters import packed, stepped
from tests.spark.test_packing import AT_US, event, request

Row = dict[str, Any]

END_US = AT_US + 10**9
#: Each key has an event at another time, so the wait says which request counted.
EVENTS = [event(key=key, occurred_at=AT_US + us, amount=9.0) for us, key in enumerate("uvwxyz")]


def table(kind: str, rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, ARROW_SCHEMAS[kind])


def shards(requests: list[Row], sharding: Sharding) -> list[pa.Table]:
    """Return the packed rows of each shard."""
    batches = [
        batch
        for kind, rows in (("requests", requests), ("events", EVENTS))
        for batch in pack_batches(table(kind, rows).to_batches(max_chunksize=1), kind, sharding)
    ]
    rows = pa.Table.from_batches(batches)
    return [
        rows.filter(pa.compute.equal(rows.column("shard"), shard))
        for shard in rows.column("shard").unique()
    ]


def batch(requests: list[Row]) -> list[Row]:
    (shard,) = shards(requests, Sharding(1))
    rows = satisfy_shard(shard).to_pylist()
    return [row | {"ended_us": row["satisfied_us"]} for row in rows]


def batch_in_parts(requests: list[Row]) -> list[Row]:
    parts = [satisfy_part(shard) for shard in shards(requests, Sharding(1, {"a": 3, "b": 1}))]
    rows = reject_repeated_parts(pa.concat_tables(parts)).to_pylist()
    return [row | {"ended_us": row["satisfied_us"]} for row in rows]


def replay(requests: list[Row]) -> list[Row]:
    found = []
    for host in ("a", "b"):
        tables = [
            table(kind, [row for row in rows if row["host"] == host])
            for kind, rows in (("requests", requests), ("events", EVENTS))
        ]
        for name in (REASON, RAW):
            tables = [each.append_column(name, pa.nulls(len(each), pa.string())) for each in tables]
        found += _replay_host(*tables, [ReplaySettings()]).to_pylist()
    rows = [row for row in found if row["kind"] == "outcomes"]
    return [row | {"reason": None, "ended_us": row["ended_at"]} for row in rows]


def stream(requests: list[Row]) -> list[Row]:
    blobs: dict[str, bytes] = {}
    stepped(ShardStore(blobs), AT_US - 1, events=packed("events", EVENTS))
    for row in requests:
        stepped(ShardStore(blobs), AT_US - 1, requests=packed("requests", [row]))
    rows = [row for each in stepped(ShardStore(blobs), END_US) for row in each.to_pylist()]
    return [
        row | {"ended_us": row["ended_at"] and round(row["ended_at"].timestamp() * 1e6)}
        for row in rows
    ]


def counted(requests: list[Row], outcomes: Callable[[list[Row]], list[Row]]) -> tuple[Any, ...]:
    """Return the type, and the end, of the one request of host `a` that counts."""
    rows = [row for row in outcomes(requests) if not row["reason"]]
    assert sorted(row["host"] for row in rows) == ["a", "b"]
    return next((row["request_type"], row["ended_us"]) for row in rows if row["host"] == "a")


#: Watch keys of two requests, and what the second one has instead.
DIFFERENCES: list[tuple[list[str], Row]] = [
    (["x"], {"watch_keys": ["z"]}),
    (["x"], {"threshold": 20.0}),
    (["x"], {"aggregate": "count"}),
    (["x", "z"], {"quantifier": "any"}),
    (["x"], {"request_type": "put"}),
]


@pytest.mark.parametrize(("keys", "changes"), DIFFERENCES, ids=str)
def test_which_one_counts_depends_on_the_rows_alone(keys: list[str], changes: Row) -> None:
    first = request("a", watch_keys=keys)
    found = [first, first | changes, request("a", host="b", watch_keys=["x"])]
    # Hosts whose requests have several keys are not divided.
    ways = [batch, replay, stream, *([batch_in_parts] if len(keys) == 1 else [])]
    counts = {counted(list(order), way) for order in permutations(found) for way in ways}
    assert len(counts) == 1


@pytest.mark.parametrize("rows_of_a_batch", [1, 100])
def test_an_import_takes_the_one_that_counts_in_a_batch(
    spark: SparkSession, rows_of_a_batch: int
) -> None:
    rows = []
    for keys, changes in DIFFERENCES:
        # Each pair in both orders.
        for order in ([{}, changes], [changes, {}]):
            rows += [request(f"r{len(rows) // 2}", watch_keys=keys) | each for each in order]
    session = spark.newSession()
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", rows_of_a_batch)
    requests, events = (
        from_micros(session.createDataFrame(table(kind, found)), schema)
        for kind, found, schema in (("requests", rows, REQUESTS), ("events", EVENTS, EVENTS_SCHEMA))
    )
    with check_tables(requests, events) as trace:
        taken = trace.requests.select(*to_micros(REQUESTS)).collect()
    counts = [row for row in batch(rows) if not row["reason"]]
    assert len(counts) == len(rows) // 2
    assert in_order(batch([row.asDict() for row in taken])) == in_order(counts)


def in_order(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: str(row["request_id"]))
