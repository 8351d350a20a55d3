"""Shards of a stream against the plain model, whatever the batches that their rows come in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from request_purgatory.pipeline.schema import AGGREGATES
from request_purgatory.pipeline.stream.rows import EVENT_INPUT, EVENTS, REJECTS, REQUEST_INPUT, REQUESTS
from request_purgatory.pipeline.stream.shard import Shard, ShardTooLargeError
from request_purgatory.pipeline.stream.store import MemoryBlobs, ShardStore
from tests.model.naive_trace import TraceEvent, TraceRequest, outcome
from tests.pipeline.trace_strategies import EVENTS as ANY_EVENT
from tests.pipeline.trace_strategies import requests

END_US = 10**12
LONG_US = 10**15


def hashed(*names: str) -> int:
    """A key's number, the same in every test."""
    return int.from_bytes("/".join(names).encode().ljust(6)[:6], "big")


def request_rows(found: list[TraceRequest]) -> pa.Table:
    """Requests as they come to a shard."""
    rows = [
        {
            "id": hashed(request.request_id),
            "host": "h",
            "request_id": request.request_id,
            "request_type": request.aggregate,
            "arrived_us": request.arrived_us,
            "deadline_us": request.arrived_us + request.timeout_ms * 1000,
            "keys": [hashed("k", key) for key in request.watch_keys],
            "aggregate": AGGREGATES.index(request.aggregate),
            "threshold": request.threshold,
            "every": request.quantifier == "all",
            "watch_keys": request.watch_keys,
        }
        for request in found
    ]
    return pa.Table.from_pylist(rows, REQUEST_INPUT)


def event_rows(found: list[TraceEvent]) -> pa.Table:
    """Events as they come to a shard."""
    rows = [
        {"key": hashed("k", event.key), "us": event.occurred_us, "amount": event.amount, "host": "h", "event_key": event.key}
        for event in found
    ]
    return pa.Table.from_pylist(rows, EVENT_INPUT)


class Stream:
    """A shard that is stepped as Spark steps it: made anew from its state each time, by rows or by its timer."""

    def __init__(self, remember_us: int = LONG_US, max_bytes: int = 2**30) -> None:
        self.blobs = MemoryBlobs()
        self.rows: list[dict[str, Any]] = []
        self.next_us: int | None = None
        self.pending = 0
        self._options = {"remember_us": remember_us, "max_bytes": max_bytes}

    def step(self, watermark_us: int, found: list[TraceRequest] | None = None, events: list[TraceEvent] | None = None) -> None:
        """Rows, and the watermark of their batch."""
        inputs = {REQUESTS: [request_rows(found)] if found else [], EVENTS: [event_rows(events)] if events else []}
        if not found and not events and (self.next_us is None or self.next_us > watermark_us):
            return
        store = ShardStore(self.blobs)
        step = Shard(store, **self._options).step(inputs, watermark_us)
        store.save()
        self.next_us, self.pending = step.next_us, step.pending
        for table in step.results:
            self.rows += table.to_pylist()

    def arrivals(self) -> dict[tuple[str, int], str]:
        """How the requests ended, by id and arrival."""
        return {(row["request_id"], _us(row["arrived_at"])): row["outcome"] for row in self.rows if row["kind"] == "outcomes"}

    def ended(self) -> dict[str, tuple[str, int]]:
        """How the requests ended, by id."""
        rows = [row for row in self.rows if row["kind"] == "outcomes"]
        ended = {row["request_id"]: (row["outcome"], _us(row["ended_at"])) for row in rows}
        assert len(ended) == len(rows), "a request ended twice"
        return ended

    def late(self) -> list[tuple[str, dict[str, Any]]]:
        """What was not taken in, and why."""
        return [(row["reason"], json.loads(row["row"])) for row in self.rows if row["kind"] == "late"]


def _us(moment: Any) -> int:
    return int(np.datetime64(moment.replace(tzinfo=None), "us").astype(np.int64))


@settings(max_examples=500)
@given(
    found=requests(),
    events=st.lists(ANY_EVENT, max_size=25),
    cuts=st.lists(st.sampled_from([-1, 0, 1, 999, 1000, 2000, 3500, 5000, 39_999, 40_000, 41_000, 600_000]), max_size=6),
    order=st.randoms(use_true_random=False),
)
def test_outcomes_are_the_models_whatever_the_batches(
    found: list[TraceRequest], events: list[TraceEvent], cuts: list[int], order: Any
) -> None:
    """Every row comes in some batch whose watermark it is ahead of, in any order within it and among the batches."""
    watermarks = [-2, *sorted(set(cuts))]
    batches: list[tuple[list[TraceRequest], list[TraceEvent]]] = [([], []) for _ in watermarks]
    for request in found:
        possible = [number for number, watermark in enumerate(watermarks) if watermark < request.arrived_us]
        batches[order.choice(possible)][0].append(request)
    for event in events:
        possible = [number for number, watermark in enumerate(watermarks) if watermark < event.occurred_us]
        batches[order.choice(possible)][1].append(event)
    stream = Stream()
    for watermark, (some_requests, some_events) in zip(watermarks, batches, strict=True):
        order.shuffle(some_requests)
        order.shuffle(some_events)
        stream.step(watermark, some_requests, some_events)
    stream.step(END_US)
    assert stream.late() == []
    assert stream.ended() == {request.request_id: outcome(request, events) for request in found}
    assert stream.pending == 0
    assert stream.next_us is None
    # What is remembered goes with a later step.
    assert {name.partition("-")[0] for name in stream.blobs.kept} <= {"head", "idle", "ended"}


def waits(
    name: str, arrived_us: int, *keys: str, aggregate: str = "count", threshold: float = 1, timeout_ms: int = 10
) -> TraceRequest:
    return TraceRequest(name, arrived_us, timeout_ms, list(keys), aggregate, threshold, "all")


def test_nothing_is_told_before_the_watermark_has_passed_it() -> None:
    """Neither a completion nor an expiry; the shard says when it has to be looked at again."""
    stream = Stream()
    stream.step(0, [waits("a", 1000, "k"), waits("b", 2000, "j")], [TraceEvent("k", 5000, 1)])
    assert stream.next_us == 1000
    stream.step(4999)
    assert (stream.ended(), stream.pending) == ({}, 2)
    stream.step(5000)
    assert stream.ended() == {"a": ("completed", 5000)}
    assert stream.next_us == 12_000
    stream.step(11_999)
    stream.step(12_000)
    assert stream.ended() == {"a": ("completed", 5000), "b": ("expired", 12_000)}


def test_rows_at_or_behind_the_watermark_are_late_and_told() -> None:
    """With all that is known of them; what is in time is not touched by them."""
    stream = Stream()
    stream.step(0, [waits("a", 1000, "k")], [])
    stream.step(2000, [waits("b", 2000, "k"), waits("c", 2001, "k")], [TraceEvent("k", 1500, 7), TraceEvent("k", 2001, 1)])
    assert [(reason, row.get("request_id"), row.get("event_key")) for reason, row in stream.late()] == [
        ("late request", "b", None),
        ("late event", None, "k"),
    ]
    stream.step(END_US)
    assert stream.ended() == {"a": ("completed", 2001), "c": ("completed", 2001)}


def test_request_id_is_not_used_again_before_its_deadline() -> None:
    """In the same batch or another one, while the first one waits or has ended; the earliest arrival is the request."""
    stream = Stream()
    stream.step(0, [waits("a", 1500, "k"), waits("a", 1000, "k", timeout_ms=20)], [TraceEvent("k", 4000, 1)])
    stream.step(1200, [waits("a", 1000, "k", timeout_ms=20)])
    stream.step(3000, [waits("a", 3500, "k")])
    stream.step(5000)
    assert stream.arrivals() == {("a", 1000): "completed"}
    stream.step(6000, [waits("a", 21_000, "k"), waits("a", 21_001, "k")])
    stream.step(END_US)
    assert stream.arrivals() == {("a", 1000): "completed", ("a", 21_001): "expired"}
    assert sorted(reason for reason, _ in stream.late()) == ["late request", *["repeated request"] * 3]
    assert not ShardStore(stream.blobs).segments("ended")


@settings(max_examples=200)
@given(
    found=requests(),
    names=st.lists(st.sampled_from("abc"), min_size=12, max_size=12),
    events=st.lists(ANY_EVENT, max_size=15),
    cuts=st.lists(st.sampled_from([0, 999, 1000, 2000, 3500, 5000, 40_000, 41_000, 600_000]), max_size=20),
)
def test_which_requests_are_repetitions_does_not_depend_on_batches(
    found: list[TraceRequest], names: list[str], events: list[TraceEvent], cuts: list[int]
) -> None:
    """Nor on how the first ones ended."""
    renamed = {(name, request.arrived_us): replace(request, request_id=name) for request, name in zip(found, names, strict=False)}
    stream = Stream()
    stream.step(-2, list(renamed.values()), events)
    for watermark in sorted(cuts):
        stream.step(watermark)
    stream.step(END_US)
    accepted: dict[str, TraceRequest] = {}
    expected = {}
    for (name, arrived_us), request in sorted(renamed.items(), key=lambda item: item[0][1]):
        first = accepted.get(name)
        if first is None or first.arrived_us + first.timeout_ms * 1000 < arrived_us:
            accepted[name] = request
            expected[name, arrived_us] = outcome(request, events)[0]
    assert stream.arrivals() == expected
    assert len(stream.late()) == len(renamed) - len(expected)


def test_high_watermark_is_remembered_while_nobody_watches() -> None:
    """As long as was asked for; also where the key was watched for its count in between."""
    events = [TraceEvent("k", 1000, 5)]
    stream = Stream(remember_us=1_000_000)
    stream.step(0, [], events)
    stream.step(2000, [waits("count", 3000, "k", threshold=9, timeout_ms=100)], [])
    stream.step(4000, [waits("max", 5000, "k", aggregate="max", threshold=5)], [])
    stream.step(6000)
    assert stream.ended() == {"max": ("completed", 5000)}
    stream.step(2_000_000, [waits("again", 2_000_001, "k", aggregate="max", threshold=5)], [])
    stream.step(END_US)
    assert stream.ended()["again"] == ("expired", 2_010_001)


def test_totals_of_keys_that_are_put_away_again_and_again_are_added_up_once() -> None:
    """The segments of idle keys are merged on the way."""
    stream = Stream()
    for number in range(50):
        at = 1000 * (number + 1)
        stream.step(at - 1, [waits(f"r{number}", at, "k", aggregate="sum", threshold=2, timeout_ms=0)], [TraceEvent("k", at, 1)])
    stream.step(END_US, [], [])
    assert {state for state, _ in stream.ended().values()} == {"expired"}
    idle = list(ShardStore(stream.blobs).segments("idle"))
    assert len(idle) < 16
    store = ShardStore(stream.blobs)
    tables = pa.concat_tables([store.read_segment("idle", segment) for segment in idle])
    assert pa.compute.sum(tables.column("total")).as_py() == 50


def test_rows_that_do_not_fit_are_refused_with_what_to_do() -> None:
    """Before anything is written."""
    stream = Stream(max_bytes=1000)
    stream.step(0, [waits(f"{number:06d}", 1000 + number, "k") for number in range(200)])
    kept = dict(stream.blobs.kept)
    with pytest.raises(
        ShardTooLargeError, match=r"200 rows of .* bytes to look at together, and may have 1,000 bytes: use more shards"
    ):
        stream.step(10_000)
    assert stream.blobs.kept.keys() <= kept.keys()


def test_rejected_rows_are_told_as_they_came() -> None:
    """With the reason that they were given."""
    store = ShardStore(MemoryBlobs())
    rejected = pa.table({"reason": ["null host"], "row": ['{"host":null}']})
    step = Shard(store, remember_us=0, max_bytes=2**20).step({REJECTS: [rejected]}, 0)
    assert [(row["kind"], row["reason"], row["row"]) for row in step.results[0].to_pylist()] == [
        ("late", "null host", '{"host":null}')
    ]
