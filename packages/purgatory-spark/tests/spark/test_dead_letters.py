"""Rows that a stream does not use come out as they went in, without Spark."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from purgatory_spark._rows.packing import from_blob
from purgatory_spark._rows.schema import ARROW_SCHEMAS
from purgatory_spark._spark.files import CORRUPT, RAW
from purgatory_spark._stream.packing import Packer, shard_labels
from purgatory_spark._stream.state import rows
from purgatory_spark._stream.state.shard import Shard
from purgatory_spark._stream.state.store import ShardStore
from tests.spark.test_packing import AT_US, event, request

AT = "2023-11-14T22:13:20.000000Z"
REQUESTS = [
    request("inf", threshold=math.inf, aggregate="max", quantifier="2"),
    request("minus", threshold=-math.inf, watch_keys=["x", "y", "x"], quantifier="any"),
    request("none", watch_keys=[], aggregate="count", timeout_ms=0, host='ö"'),
]
EVENTS = [event(amount=0.1), event(key="\x00'", amount=1e300)]


def packed(kind: str, found: list[dict[str, Any]], raw: list[str] | None = None) -> list[pa.Table]:
    """Return rows as the only shard of a stream gets them."""
    schema = ARROW_SCHEMAS[kind]
    batch = pa.RecordBatch.from_pylist(found, schema)
    if raw is not None:
        nothing = pa.nulls(len(found), pa.string())
        batch = batch.append_column(CORRUPT, nothing).append_column(RAW, pa.array(raw))
    packer = Packer(kind, shard_labels(1, even=True), by_key=False, file_columns=())
    return [from_blob(row["blob"]) for each in packer([batch]) for row in each.to_pylist()]


def unused(tables: Iterable[pa.Table]) -> list[tuple[str, str]]:
    """Return the reason and the text of each unused row."""
    found = [row for table in tables for row in table.to_pylist() if row["kind"] == "late"]
    return [(row["reason"], row["row"]) for row in found]


def stepped(store: ShardStore, watermark_us: int, **inputs: list[pa.Table]) -> list[pa.Table]:
    shard = Shard(store, key_retention_us=10**12, max_bytes=2**30)
    tables = shard.step(inputs, watermark_us).tables
    store.save()
    return tables


def parsed(text: str) -> dict[str, Any]:
    """Return a row of JSON, which has no names for infinite numbers."""
    row: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return row


def as_json(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the schema as its JSON is, of which Spark reads the same row."""
    names = {math.inf: "Infinity", -math.inf: "-Infinity"}
    times = {name: AT for name in ("arrived_at", "occurred_at") if name in row}
    if "threshold" in row:
        times["threshold"] = names.get(row["threshold"], row["threshold"])
    return row | times


def test_late_rows_come_out_as_they_went_in() -> None:
    tables = stepped(
        ShardStore({}),
        AT_US,
        requests=packed(rows.REQUESTS, REQUESTS),
        events=packed(rows.EVENTS, EVENTS),
    )
    found = [(reason, parsed(text)) for reason, text in unused(tables)]
    assert found == [
        *[("late request", as_json(row)) for row in REQUESTS],
        *[("late event", as_json(row)) for row in EVENTS],
    ]


def test_repeated_requests_come_out_as_they_went_in() -> None:
    again = [row | {"timeout_ms": row["timeout_ms"] + 1} for row in REQUESTS]
    blobs: dict[str, bytes] = {}
    # They are stored until the watermark reaches them.
    stepped(ShardStore(blobs), AT_US - 1, requests=packed(rows.REQUESTS, [*REQUESTS, *again]))
    found = [
        (reason, parsed(text)) for reason, text in unused(stepped(ShardStore(blobs), AT_US + 1))
    ]
    assert sorted(found, key=str) == sorted(
        [("repeated request", as_json(row)) for row in again], key=str
    )


def test_rows_of_a_mapped_stream_come_out_as_the_users() -> None:
    texts = [f'{{"id": "{row["request_id"]}", "more": 1.50}}' for row in REQUESTS]
    given = packed(rows.REQUESTS, REQUESTS, texts)
    assert unused(stepped(ShardStore({}), AT_US, requests=given)) == [
        ("late request", text) for text in texts
    ]
    blobs: dict[str, bytes] = {}
    stepped(ShardStore(blobs), AT_US - 1, requests=[*given, *packed(rows.REQUESTS, REQUESTS)])
    repeated = unused(stepped(ShardStore(blobs), AT_US + 1))
    assert len(repeated) == len(REQUESTS)
    events = packed(rows.EVENTS, EVENTS, ["e,1", "e,2"])
    assert unused(stepped(ShardStore({}), AT_US, events=events)) == [
        ("late event", "e,1"),
        ("late event", "e,2"),
    ]
    (negative,) = packed(rows.EVENTS, [event(amount=-1.0)], ["e,-1"])
    assert negative.to_pylist() == [{"reason": "negative amount", "row": "e,-1"}]


def test_malformed_row_without_a_text_stays_null() -> None:
    batch = pa.RecordBatch.from_pylist([{"host": "a"}, {"host": "b"}], ARROW_SCHEMAS["events"])
    reasons = pa.array(["the value is null", "not an object"])
    batch = batch.append_column(CORRUPT, reasons).append_column(RAW, pa.array([None, "["]))
    packer = Packer("events", shard_labels(1, even=True), by_key=False, file_columns=())
    (blobs,) = packer([batch])
    (rejects,) = [from_blob(row["blob"]) for row in blobs.to_pylist()]
    assert rejects.column("row").to_pylist() == [None, "["]
