"""Shards of a stream against the plain model, for any division of the rows into batches."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_spark._rows.schema import AGGREGATES
from purgatory_spark._stream.state.compaction import segments_to_merge
from purgatory_spark._stream.state.keys import KeyAggregates, KeyedEvents
from purgatory_spark._stream.state.pairs import Pairs
from purgatory_spark._stream.state.rows import (
    EVENT_INPUT_SCHEMA,
    EVENTS,
    REJECTS,
    REQUEST_SCHEMA,
    REQUESTS,
)
from purgatory_spark._stream.state.shard import Shard, ShardTooLargeError
from purgatory_spark._stream.state.store import ShardStore
from tests.spark.naive_trace import TraceEvent, TraceRequest, not_repeated, outcome
from tests.spark.trace_strategies import EVENTS as ANY_EVENT
from tests.spark.trace_strategies import requests
from tests.support.profiles import examples

END_US = 10**12
LONG_US = 10**15


def hashed(*names: str) -> int:
    """Return a number for a key, the same in every test."""
    return int.from_bytes("/".join(names).encode().ljust(6)[:6], "big")


def watch_keys(request: TraceRequest) -> list[str]:
    """Return the keys as the job passes them: each once, if their number counts."""
    is_quorum = request.quantifier not in ("all", "any")
    return list(dict.fromkeys(request.watch_keys)) if is_quorum else request.watch_keys


def needed(request: TraceRequest) -> int:
    """Return the number of keys that must be satisfied."""
    words = {"all": len(request.watch_keys), "any": 1}
    return words[request.quantifier] if request.quantifier in words else int(request.quantifier)


def request_rows(found: list[TraceRequest]) -> pa.Table:
    """Return requests as a shard's input."""
    rows = [
        {
            "id": hashed(request.request_id),
            "host": "h",
            "request_id": request.request_id,
            "request_type": request.aggregate,
            "arrived_us": request.arrived_us,
            "deadline_us": request.arrived_us + request.timeout_ms * 1000,
            "keys": [hashed("k", key) for key in watch_keys(request)],
            "aggregate": AGGREGATES.index(request.aggregate),
            "threshold": request.threshold,
            "needed": needed(request),
            "watch_keys": request.watch_keys,
            "quantifier": request.quantifier,
        }
        for request in found
    ]
    return pa.Table.from_pylist(rows, REQUEST_SCHEMA)


def event_rows(found: list[TraceEvent]) -> pa.Table:
    """Return events as a shard's input."""
    rows = [
        {
            "key": hashed("k", event.key),
            "us": event.occurred_us,
            "amount": event.amount,
            "host": "h",
            "event_key": event.key,
        }
        for event in found
    ]
    return pa.Table.from_pylist(rows, EVENT_INPUT_SCHEMA)


class ShardHarness:
    """Steps a shard like Spark: loaded from its state each time, for rows or for its timer."""

    def __init__(self, key_retention_us: int = LONG_US, max_bytes: int = 2**30) -> None:
        self.blobs: dict[str, bytes] = {}
        self.rows: list[dict[str, Any]] = []
        self.next_due_us: int | None = None
        self.pending = 0
        self._options = {"key_retention_us": key_retention_us, "max_bytes": max_bytes}

    def step(
        self,
        watermark_us: int,
        found: list[TraceRequest] | None = None,
        events: list[TraceEvent] | None = None,
    ) -> None:
        """Step the shard with a batch's rows and watermark, if Spark would."""
        inputs = {
            REQUESTS: [request_rows(found)] if found else [],
            EVENTS: [event_rows(events)] if events else [],
        }
        if (
            not found
            and not events
            and (self.next_due_us is None or self.next_due_us > watermark_us)
        ):
            return
        store = ShardStore(self.blobs)
        result = Shard(store, **self._options).step(inputs, watermark_us)
        store.save()
        self.next_due_us, self.pending = result.next_due_us, result.pending
        for table in result.tables:
            self.rows += table.to_pylist()

    def arrivals(self) -> dict[tuple[str, int], str]:
        """Return how the requests ended, by id and arrival."""
        return {
            (row["request_id"], _us(row["arrived_at"])): row["outcome"]
            for row in self.rows
            if row["kind"] == "outcomes"
        }

    def ended(self) -> dict[str, tuple[str, int]]:
        """Return how and when the requests ended, by id."""
        rows = [row for row in self.rows if row["kind"] == "outcomes"]
        ended = {row["request_id"]: (row["outcome"], _us(row["ended_at"])) for row in rows}
        assert len(ended) == len(rows), "a request ended twice"
        return ended

    def late(self) -> list[tuple[str, dict[str, Any]]]:
        """Return late rows, each with its reason."""
        return [
            (row["reason"], json.loads(row["row"])) for row in self.rows if row["kind"] == "late"
        ]


def _us(moment: Any) -> int:
    return int(np.datetime64(moment.replace(tzinfo=None), "us").astype(np.int64))


@examples(75)
@given(
    found=requests(),
    events=st.lists(ANY_EVENT, max_size=25),
    cuts=st.lists(
        st.sampled_from([-1, 0, 1, 999, 1000, 2000, 3500, 5000, 39_999, 40_000, 41_000, 600_000]),
        max_size=6,
    ),
    order=st.randoms(use_true_random=False),
)
def test_outcomes_equal_the_model_for_any_batches(
    found: list[TraceRequest], events: list[TraceEvent], cuts: list[int], order: Any
) -> None:
    watermarks = [-2, *sorted(set(cuts))]
    batches: list[tuple[list[TraceRequest], list[TraceEvent]]] = [([], []) for _ in watermarks]
    for request in found:
        possible = [
            number for number, watermark in enumerate(watermarks) if watermark < request.arrived_us
        ]
        batches[order.choice(possible)][0].append(request)
    for event in events:
        possible = [
            number for number, watermark in enumerate(watermarks) if watermark < event.occurred_us
        ]
        batches[order.choice(possible)][1].append(event)
    stream = ShardHarness()
    for watermark, (some_requests, some_events) in zip(watermarks, batches, strict=True):
        order.shuffle(some_requests)
        order.shuffle(some_events)
        stream.step(watermark, some_requests, some_events)
    stream.step(END_US)
    assert stream.late() == []
    assert stream.ended() == {request.request_id: outcome(request, events) for request in found}
    assert stream.pending == 0
    assert stream.next_due_us is None
    # Key aggregates and request ids are removed in a later step.
    assert {name.partition("-")[0] for name in stream.blobs} <= {"head", "keys", "ids"}


def waits(
    name: str,
    arrived_us: int,
    *keys: str,
    aggregate: str = "count",
    threshold: float = 1,
    timeout_ms: int = 10,
) -> TraceRequest:
    return TraceRequest(name, arrived_us, timeout_ms, list(keys), aggregate, threshold, "all")


def test_nothing_ends_before_the_watermark_has_passed_it() -> None:
    stream = ShardHarness()
    stream.step(0, [waits("a", 1000, "k"), waits("b", 2000, "j")], [TraceEvent("k", 5000, 1)])
    assert stream.next_due_us == 1000
    stream.step(4999)
    assert (stream.ended(), stream.pending) == ({}, 2)
    stream.step(5000)
    assert stream.ended() == {"a": ("completed", 5000)}
    assert stream.next_due_us == 12_000
    stream.step(11_999)
    stream.step(12_000)
    assert stream.ended() == {"a": ("completed", 5000), "b": ("expired", 12_000)}


def test_rows_at_or_behind_the_watermark_are_reported_as_late() -> None:
    stream = ShardHarness()
    stream.step(0, [waits("a", 1000, "k")], [])
    stream.step(
        2000,
        [waits("b", 2000, "k"), waits("c", 2001, "k")],
        [TraceEvent("k", 1500, 7), TraceEvent("k", 2001, 1)],
    )
    assert [(reason, row.get("request_id"), row.get("key")) for reason, row in stream.late()] == [
        ("late request", "b", None),
        ("late event", None, "k"),
    ]
    stream.step(END_US)
    assert stream.ended() == {"a": ("completed", 2001), "c": ("completed", 2001)}


def test_request_id_is_reserved_until_its_deadline() -> None:
    stream = ShardHarness()
    stream.step(
        0, [waits("a", 1500, "k"), waits("a", 1000, "k", timeout_ms=20)], [TraceEvent("k", 4000, 1)]
    )
    stream.step(1200, [waits("a", 1000, "k", timeout_ms=20)])
    stream.step(3000, [waits("a", 3500, "k")])
    stream.step(5000)
    assert stream.arrivals() == {("a", 1000): "completed"}
    stream.step(6000, [waits("a", 21_000, "k"), waits("a", 21_001, "k")])
    stream.step(END_US)
    assert stream.arrivals() == {("a", 1000): "completed", ("a", 21_001): "expired"}
    assert sorted(reason for reason, _ in stream.late()) == [
        "late request",
        *["repeated request"] * 3,
    ]
    assert not ShardStore(stream.blobs).segments("ids")


@examples(60)
@given(
    found=requests(),
    names=st.lists(st.sampled_from("abc"), min_size=12, max_size=12),
    events=st.lists(ANY_EVENT, max_size=15),
    cuts=st.lists(
        st.sampled_from([0, 999, 1000, 2000, 3500, 5000, 40_000, 41_000, 600_000]), max_size=20
    ),
)
def test_which_requests_are_repeated_does_not_depend_on_batches(
    found: list[TraceRequest], names: list[str], events: list[TraceEvent], cuts: list[int]
) -> None:
    renamed = {
        (name, request.arrived_us): replace(request, request_id=name)
        for request, name in zip(found, names, strict=False)
    }
    stream = ShardHarness()
    stream.step(-2, list(renamed.values()), events)
    for watermark in sorted(cuts):
        stream.step(watermark)
    stream.step(END_US)
    expected = {
        (request.request_id, request.arrived_us): outcome(request, events)[0]
        for request in not_repeated(list(renamed.values()))
    }
    assert stream.arrivals() == expected
    assert len(stream.late()) == len(renamed) - len(expected)


def test_maximum_of_an_unwatched_key_is_retained() -> None:
    events = [TraceEvent("k", 1000, 5)]
    stream = ShardHarness(key_retention_us=1_000_000)
    stream.step(0, [], events)
    stream.step(2000, [waits("count", 3000, "k", threshold=9, timeout_ms=100)], [])
    stream.step(4000, [waits("max", 5000, "k", aggregate="max", threshold=5)], [])
    stream.step(6000)
    assert stream.ended() == {"max": ("completed", 5000)}
    stream.step(2_000_000, [waits("again", 2_000_001, "k", aggregate="max", threshold=5)], [])
    stream.step(END_US)
    assert stream.ended()["again"] == ("expired", 2_010_001)


def stored_keys(stream: ShardHarness) -> pa.Table:
    """Return the key aggregates that the shard stores."""
    store = ShardStore(stream.blobs)
    tables = [store.read_segment("keys", segment) for segment in store.segments("keys")]
    return pa.concat_tables(tables) if tables else KeyAggregates.SCHEMA.empty_table()


def test_key_with_events_in_every_step_is_stored_once_for_each_level() -> None:
    stream = ShardHarness()
    for number in range(50):
        at = 1000 * (number + 1)
        stream.step(
            at - 1,
            [waits(f"r{number}", at, "k", aggregate="sum", threshold=2, timeout_ms=0)],
            [TraceEvent("k", at, 1)],
        )
        assert len(ShardStore(stream.blobs).segments("keys")) < 4
    stream.step(END_US, [], [])
    assert {state for state, _ in stream.ended().values()} == {"expired"}
    assert max(stored_keys(stream).column("total").to_pylist()) == 50


def test_unwatched_key_is_forgotten_after_its_retention() -> None:
    for retention_us in (0, 500_000):
        stream = ShardHarness(key_retention_us=retention_us)
        stream.step(
            0,
            [waits("w", 1, "watched", threshold=2, timeout_ms=100_000)],
            [TraceEvent("watched", 2, 1), TraceEvent("k", 3, 1)],
        )
        for number in range(20):
            at = 1000 * (number + 1)
            stream.step(at, [], [TraceEvent("other", at + 1, 1)])
        names = {hashed("k", name): name for name in ("watched", "k", "other")}
        known = {names[key] for key in stored_keys(stream).column("key").to_pylist()}
        assert known == ({"watched", "k", "other"} if retention_us else {"watched"})
        for number in range(20):
            at = 10_000_000 + 1000 * number
            stream.step(at, [], [TraceEvent("other", at + 1, 1)])
        known = {names[key] for key in stored_keys(stream).column("key").to_pylist()}
        assert known == ({"watched", "other"} if retention_us else {"watched"})
        stream.step(11_000_000, [], [TraceEvent("watched", 11_000_001, 1)])
        stream.step(12_000_000)
        assert stream.ended() == {"w": ("completed", 11_000_001)}


@pytest.mark.parametrize(
    "seed", [0, *[pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2)]]
)
def test_many_steps_with_many_pending_requests_equal_the_model(seed: int) -> None:
    draw = random.Random(seed)
    keys = [f"k{number}" for number in range(120)]
    found = []
    for number in range(300):
        aggregate = draw.choice(["count", "sum", "max"])
        watched = [draw.choice(keys) for _ in range(draw.choice([0, 1, 1, 2, 3]))]
        found.append(
            TraceRequest(
                f"r{number}",
                draw.randrange(1, 1_000_000),
                draw.choice([0, 50, 400, 900, 2000]),
                watched,
                aggregate,
                draw.choice([0.5, 1, 2, 3.25, 7]),
                draw.choice(["all", "any"]),
            )
        )
    events = [
        TraceEvent(
            draw.choice(keys), draw.randrange(1, 1_000_000), draw.choice([0.25, 0.5, 1, 2, 5])
        )
        for _ in range(500)
    ]
    stream = ShardHarness()
    rows: list[tuple[int, Any]] = [(request.arrived_us, request) for request in found]
    rows += [(event.occurred_us, event) for event in events]
    rows.sort(key=lambda row: row[0])
    most = 0
    for start in range(0, len(rows), 20):
        batch = [row for _, row in rows[start : start + 20]]
        stream.step(
            rows[start][0] - 1 if not start else rows[start - 1][0] - 5_000,
            [row for row in batch if isinstance(row, TraceRequest)],
            [row for row in batch if isinstance(row, TraceEvent)],
        )
        most = max(most, stream.pending)
    stream.step(END_US)
    assert most > 60
    assert stream.ended() == {request.request_id: outcome(request, events) for request in found}
    assert stream.pending == 0
    assert stream.late() == []


def test_rows_that_do_not_fit_the_memory_are_refused() -> None:
    found = [waits(f"{number:06d}", 1000 + number, "k") for number in range(200)]
    stream = ShardHarness(max_bytes=160_000)
    with pytest.raises(
        ShardTooLargeError,
        match=r"has 200 rows to process at once, .* about 2..,... bytes of memory, more than the "
        r"160,000 bytes of max_shard_mb",
    ):
        stream.step(0, found)
    stream.step(0, found[:100])
    stream.step(1, found[100:])
    head = stream.blobs["head"]
    with pytest.raises(
        ShardTooLargeError, match=r"has 200 rows to process at once, .*: use more shards"
    ):
        stream.step(5000)
    assert stream.blobs["head"] == head


def test_rejected_rows_are_reported_unchanged() -> None:
    store = ShardStore({})
    rejected = pa.table({"reason": ["null host"], "row": ['{"host":null}']})
    result = Shard(store, key_retention_us=0, max_bytes=2**20).step({REJECTS: [rejected]}, 0)
    assert [(row["kind"], row["reason"], row["row"]) for row in result.tables[0].to_pylist()] == [
        ("late", "null host", '{"host":null}')
    ]


def test_stored_bytes_follow_what_is_remembered() -> None:
    store = ShardStore({})
    shard = Shard(store, key_retention_us=0, max_bytes=2**30)
    assert store.stored_bytes() == 0
    found: list[int] = []
    for start_us in range(1000, 9000, 1000):
        rows = [
            TraceRequest(
                f"{start_us}-{number}", start_us, 60_000, [f"k{number}"], "count", 1, "all"
            )
            for number in range(50)
        ]
        shard.step({REQUESTS: [request_rows(rows)]}, start_us - 1)
        found.append(store.stored_bytes())
    assert found[0] > 0
    assert 2 * found[0] < found[-1] < 20 * found[0]
    for segments in store.head["segments"].values():
        for segment in segments:
            del segment["bytes"]  # as an earlier version wrote it
    assert store.stored_bytes() == found[-1]
    shard.step({}, END_US)
    assert store.stored_bytes() == 0


def test_satisfied_pairs_are_found_by_key_and_need() -> None:
    pairs = Pairs(
        request=np.arange(5, dtype=np.int32),
        key=np.array([7, 7, 7, 7, 9]),
        aggregate=np.array([0, 0, 0, 1, 0]),
        before=np.array([2.0, 2.0, 2.0, 10.0, 0.0]),
        need=np.array([1.0, 2.0, 4.0, 5.0, 1.0]),
    )
    initial = KeyAggregates(
        key=np.array([7]),
        count=np.array([2]),
        total=np.array([10.0]),
        high=np.array([5.0]),
        last_us=np.array([0]),
    )
    events = KeyedEvents(np.array([7, 7]), np.array([2000, 1000]), np.array([1.0, 1.0]), initial)
    found, times = pairs.find_satisfied(events)
    assert dict(zip(found.tolist(), times.tolist(), strict=True)) == {0: 1000, 1: 2000}


def test_compaction_keeps_segments_few_and_rewrites_rows_seldom() -> None:
    sizes: list[int] = []
    rewritten = 0
    for number in range(1, 2001):
        merged = segments_to_merge([{"rows": rows} for rows in sizes], 1000)
        assert [segment["rows"] for segment in merged] == sizes[len(sizes) - len(merged) :]
        old = sum(segment["rows"] for segment in merged)
        sizes[len(sizes) - len(merged) :] = [old + 1000]
        rewritten += old
        assert sum(sizes) == 1000 * number
        assert len(sizes) <= 3 * (1 + math.log(number, 4))
    assert rewritten / 2_000_000 <= 1 + math.log(2000, 4)


def test_local_cache_is_read_instead_of_the_state_and_never_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},elsewhere")
    blobs: dict[str, bytes] = {}
    store = ShardStore(blobs, use_local_cache=True)
    first, second = pa.table({"a": [1, 2]}), pa.table({"a": [3]})
    store.add_segment("kind", rows=first, more=second)
    store.save()
    (folder,) = (tmp_path / "request-purgatory").iterdir()
    assert len(list(folder.iterdir())) == 2

    store = ShardStore(blobs, use_local_cache=True)
    (segment,) = store.segments("kind")
    (name,) = [name for name in blobs if name.endswith("rows")]
    blob = blobs.pop(name)
    assert store.read_segment("kind", segment).equals(first)
    for file in folder.iterdir():
        file.write_bytes(b"damaged")
    with pytest.raises(RuntimeError, match="lost part 'rows' of segment 0 of 'kind'"):
        store.read_segment("kind", segment)
    blobs[name] = blob
    assert store.read_segment("kind", segment).equals(first)
    assert store.read_segment("kind", segment, "more").equals(second)
    blobs.pop(name)
    assert store.read_segment("kind", segment).equals(first)

    # A step fails and is repeated with other rows: the same segment number, another file.
    ShardStore(blobs, use_local_cache=True).add_segment("kind", rows=second)
    assert len(list(folder.iterdir())) == 3
    store = ShardStore(blobs, use_local_cache=True)
    store.add_segment("kind", rows=first)
    assert store.read_segment("kind", store.segments("kind")[1]).equals(first)
    blobs[name] = blob
    store.drop_segment("kind", store.segments("kind")[0])
    store.save()
    assert len(list(folder.iterdir())) == 1
