"""State in an earlier layout is read, and rewritten in the present one."""

from __future__ import annotations

import base64
import json
from typing import Any

import pyarrow as pa
import pytest

from purgatory_spark._rows.schema import PASSED
from purgatory_spark._stream.state.layout import STATE_VERSION, StateLayoutError, upgrade
from purgatory_spark._stream.state.rows import REQUESTS
from purgatory_spark._stream.state.shard import Shard
from purgatory_spark._stream.state.store import ShardStore
from tests.spark.layout_fixtures import FOLDER, STOPS, history
from tests.spark.naive_trace import TraceRequest, outcome
from tests.spark.test_shard import END_US, ShardHarness, request_rows

STORED = json.loads((FOLDER / "layout_2.json").read_text(encoding="utf-8"))


def resumed(stop: dict[str, Any]) -> ShardHarness:
    """Return a shard that goes on with the blobs of another one."""
    stream = ShardHarness()
    stream.blobs = {name: base64.b64decode(blob) for name, blob in stop["blobs"].items()}
    stream.next_due_us, stream.pending = stop["next_due_us"], stop["pending"]
    return stream


def layouts(blobs: dict[str, bytes]) -> set[int | None]:
    """Return the layouts of a shard's segments; None is that of code that did not store it."""
    segments = ShardStore(blobs).head["segments"].values()
    return {segment.get("layout") for some in segments for segment in some}


@pytest.mark.parametrize("stop", STORED, ids=lambda stop: f"after batch {stop['batch']}")
def test_stream_of_layout_2_goes_on_with_the_same_outcomes(stop: dict[str, Any]) -> None:
    stream = resumed(stop)
    assert layouts(stream.blobs) == {None}
    mixed = []
    for watermark_us, found, events in history()[stop["batch"] + 1 :]:
        stream.step(watermark_us, found, events)
        mixed.append(layouts(stream.blobs))
    stream.step(END_US)
    before = {name: tuple(end) for name, end in stop["ended"].items()}
    after = stream.ended()
    assert not before.keys() & after.keys()
    all_events = [event for _, _, events in history() for event in events]
    assert before | after == {
        request.request_id: outcome(request, all_events)
        for _, found, _ in history()
        for request in found
    }
    assert stream.late() == []
    assert stream.pending == 0
    assert ShardStore(stream.blobs).head["layout"] == STATE_VERSION
    # Segments stay as they are until they are merged, so both layouts are stored at times.
    assert {None, STATE_VERSION} in mixed


def test_stored_shards_have_pending_requests_and_rows_ahead_of_the_watermark() -> None:
    assert [stop["batch"] for stop in STORED] == list(STOPS)
    for stop in STORED:
        kinds = {name.partition("-")[0] for name in stop["blobs"]}
        assert kinds == {"head", "requests", "events", "pending", "keys", "ids"}
        assert stop["pending"] > 5
    assert len(STORED[-1]["ended"]) > 100


def test_rows_that_spark_had_described_are_read_like_others() -> None:
    rows = request_rows(
        [
            TraceRequest("r", 5_000_000, 100, ["k1", "k2"], "count", 1.0, "all"),
        ]
    ).drop_columns(["watch_keys", "quantifier", "row"])
    hashes = pa.list_(pa.field("element", pa.int64(), nullable=False))
    described = [
        field.with_type(hashes)
        if field.name == "keys"
        else field.with_nullable(rows.column(field.name).null_count > 0)
        for field in rows.schema
    ]
    stream = ShardHarness()
    store = ShardStore(stream.blobs)
    span = {"first_us": 5_000_000, "last_us": 5_000_000}
    store.add_segment(REQUESTS, metadata=span, rows=rows.cast(pa.schema(described)))
    store.segments(REQUESTS)[0]["layout"] = 3
    store.save()
    stream.step(1_000_000, [TraceRequest("s", 6_000_000, 100, ["k3"], "count", 1.0, "all")], [])
    again = TraceRequest("r", 5_000_001, 100, ["k1"], "sum", 2.0, "any")
    stream.step(1_000_001, [again], [])
    (old, new, _) = ShardStore(stream.blobs).segments(REQUESTS)
    assert (old["layout"], new["layout"]) == (3, STATE_VERSION)
    stream.step(END_US)
    assert set(stream.ended()) == {"r", "s"}
    ((reason, row),) = stream.late()
    assert (reason, row["request_id"], row["watch_keys"]) == ("repeated request", "r", ["k1"])


def test_state_of_a_newer_layout_is_refused() -> None:
    blobs: dict[str, bytes] = {}
    ShardStore(blobs).save()
    head = json.loads(blobs["head"])
    assert head["layout"] == STATE_VERSION
    blobs["head"] = json.dumps(head | {"layout": STATE_VERSION + 1}).encode()
    before = dict(blobs)
    with pytest.raises(
        StateLayoutError,
        match=f"^the stored state has layout {STATE_VERSION + 1}, and this version reads 2 to "
        f"{STATE_VERSION}: use the version",
    ):
        Shard(ShardStore(blobs), key_retention_us=0, max_bytes=2**20).step({}, END_US)
    assert blobs == before


def test_stored_requests_get_the_columns_that_are_passed_on_today() -> None:
    stored = {"id": [7], "host": ["a"], "request_id": ["b"], "former": ["c"], "arrived_us": [5]}
    found = upgrade(pa.table(stored), STATE_VERSION)
    expected = {"id": 7, "host": "a", "request_id": "b"}
    expected |= {column.name: column.default for column in PASSED} | {"arrived_us": 5}
    assert expected["request_type"] == "request"
    assert [list(row.items()) for row in found.to_pylist()] == [list(expected.items())]
    assert upgrade(found, STATE_VERSION).equals(found)
