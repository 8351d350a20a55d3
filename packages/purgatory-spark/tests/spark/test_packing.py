"""Rows on their way to the shards of a stream, without Spark.

That the rules are those of the batch and of the plain model is tested with Spark, in
`test_results.py` and `test_stream.py`.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from purgatory_spark._rows.packing import from_blob
from purgatory_spark._rows.schema import ARROW_SCHEMAS, PASSED, PassedFields
from purgatory_spark._spark.files import CORRUPT, RAW
from purgatory_spark._spark.hashes import SEED, xxhash64
from purgatory_spark._stream.packing import Packer, shard_labels
from purgatory_spark._stream.state import rows

LABELS = shard_labels(4, even=True)
AT_US = 1_700_000_000_000_000


def request(request_id: str, **changes: Any) -> dict[str, Any]:
    """Return a row of requests."""
    row = {
        "host": "a",
        "request_id": request_id,
        "request_type": "get",
        "arrived_at": AT_US,
        "timeout_ms": 1_000,
        "watch_keys": ["x", "y"],
        "aggregate": "sum",
        "threshold": 2.5,
        "quantifier": "all",
    }
    return row | changes


def event(**changes: Any) -> dict[str, Any]:
    """Return a row of events."""
    return {"host": "a", "key": "x", "occurred_at": AT_US, "amount": 1.0} | changes


def pack(
    kind: str, found: list[dict[str, Any]], *, by_key: bool = False, described: bool = False
) -> list[dict[str, Any]]:
    """Return what a packer makes of one batch, with the rows in place of the blobs."""
    schema = ARROW_SCHEMAS[kind]
    if described:
        schema = schema.append(pa.field(CORRUPT, pa.string())).append(pa.field(RAW, pa.string()))
    batch = pa.RecordBatch.from_pylist(found, schema)
    packer = Packer(kind, LABELS, by_key=by_key, file_columns=())
    return [
        row | {"blob": from_blob(row["blob"]).to_pylist()}
        for packed in packer([batch, batch.slice(0, 0)])
        for row in packed.to_pylist()
    ]


def hashed(*texts: str) -> int:
    """Return the hash of some columns as Spark's `xxhash64` gives it."""
    value = np.full(1, SEED)
    for text in texts:
        value = xxhash64(pa.array([text]), value)
    return int(value.view(np.int64)[0])


def test_requests_are_packed_as_their_shard_stores_them() -> None:
    found = [
        request("all"),
        request("any", quantifier="any", request_type=None, arrived_at=AT_US + 5),
        request("two", quantifier="2", watch_keys=["x", "x", "y", "z", "x"]),
        request("twice", watch_keys=["x", "x"], aggregate="max"),
        request("none", watch_keys=[], aggregate="count"),
        request("elsewhere", host="b"),
    ]
    packed = pack(rows.REQUESTS, found)
    assert {row["kind"] for row in packed} == {rows.REQUESTS}
    assert {row["event_us"] for row in packed} == {AT_US + 5}
    by_id = {row["request_id"]: row | {"shard": p["shard"]} for p in packed for row in p["blob"]}
    assert len(by_id) == sum(len(row["blob"]) for row in packed) == len(found)
    for name, row in by_id.items():
        assert row["shard"] == LABELS[hashed(row["host"]) % len(LABELS)]
        assert row["id"] == hashed(row["host"], name)
        assert row["deadline_us"] - row["arrived_us"] == 1_000_000
    x, y, z = (hashed("a", key) for key in "xyz")
    assert {name: (row["keys"], row["needed"]) for name, row in by_id.items()} == {
        "all": ([x, y], 2),
        "any": ([x, y], 1),
        "two": ([x, y, z], 2),
        "twice": ([x, x], 2),
        "none": ([], 0),
        "elsewhere": ([hashed("b", "x"), hashed("b", "y")], 2),
    }
    assert [by_id[name]["aggregate"] for name in ("none", "all", "twice")] == [0, 1, 2]
    assert [by_id[name]["request_type"] for name in ("all", "any")] == ["get", "request"]


def test_events_are_packed_with_their_names() -> None:
    found = [event(), event(key="y", occurred_at=AT_US + 7, amount=2.0)]
    (packed,) = pack(rows.EVENTS, found)
    assert (packed["kind"], packed["event_us"]) == (rows.EVENTS, AT_US + 7)
    assert packed["blob"][1] == {
        "key": hashed("a", "y"),
        "us": AT_US + 7,
        "amount": 2.0,
        "host": "a",
        "event_key": "y",
        "row": None,
    }
    by_key = pack(rows.EVENTS, [event(key=key) for key in "uvwxyz"], by_key=True)
    for row in by_key:
        for packed_event in row["blob"]:
            assert row["shard"] == LABELS[packed_event["key"] % len(LABELS)]
    assert len(by_key) > 1


def test_unusable_rows_are_packed_apart_and_tell_no_time() -> None:
    late = AT_US + 10**9
    found = [
        request("good") | {CORRUPT: None, RAW: None},
        request("bad", arrived_at=late, timeout_ms=-1) | {CORRUPT: None, RAW: None},
        request("worse", host=None, arrived_at=late) | {CORRUPT: "malformed row", RAW: "a;b"},
    ]
    rejects, good = pack(rows.REQUESTS, found, described=True)
    assert (rejects["kind"], rejects["shard"]) == (rows.REJECTS, LABELS[0])
    assert [row["request_id"] for row in good["blob"]] == ["good"]
    assert rejects["event_us"] == good["event_us"] == AT_US
    assert [row["reason"] for row in rejects["blob"]] == ["negative timeout", "malformed row"]
    assert json.loads(rejects["blob"][0]["row"])["request_id"] == "bad"
    assert rejects["blob"][1]["row"] == "a;b"
    (alone,) = pack(rows.EVENTS, [event(amount=-1.0, host=None)])
    assert (alone["kind"], alone["event_us"]) == (rows.REJECTS, None)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"aggregate": "average"}, "unknown aggregate"),
        ({"aggregate": None}, "null aggregate"),
        ({"quantifier": "most"}, "unknown quantifier"),
        ({"quantifier": "3", "watch_keys": ["x", "x"]}, "quorum of more keys than the request has"),
        ({"host": None}, "null host"),
        ({"watch_keys": None}, "null watch_keys"),
        ({"watch_keys": ["x", None]}, "null watch key"),
    ],
)
def test_values_of_unusable_rows_do_not_reach_others(changes: dict[str, Any], reason: str) -> None:
    found = [request("before"), request("bad", **changes), request("after")]
    rejects, good = pack(rows.REQUESTS, found)
    assert [row["reason"] for row in rejects["blob"]] == [reason]
    (expected,) = pack(rows.REQUESTS, [found[0], found[2]])
    assert good == expected


def test_request_routed_by_key_has_exactly_one() -> None:
    found = [
        request("one", watch_keys=["x"]),
        request("two"),
        request("none", watch_keys=[]),
        request("null", watch_keys=None),
    ]
    rejects, good = pack(rows.REQUESTS, found, by_key=True)
    assert [row["request_id"] for row in good["blob"]] == ["one"]
    assert good["shard"] == LABELS[hashed("a", "x") % len(LABELS)]
    reason = "not exactly one watch key (route by key)"
    assert [row["reason"] for row in rejects["blob"]] == [reason, reason, "null watch_keys"]


def test_columns_that_are_passed_on_are_keywords_of_a_table() -> None:
    assert list(PassedFields.__annotations__) == [column.name for column in PASSED]
