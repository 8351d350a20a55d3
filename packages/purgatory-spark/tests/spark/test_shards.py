"""Tests of packed requests and events, and of the hashes of their keys, without Spark."""

from __future__ import annotations

import doctest
import json
import time
from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from purgatory_spark._outcomes.satisfied import satisfy_shard
from purgatory_spark._outcomes.shards import BLOB_SCHEMAS, Sharding, pack_batches, unpack
from purgatory_spark._rows.packing import PACKED_SCHEMA
from purgatory_spark._rows.schema import ARROW_SCHEMAS
from purgatory_spark._spark import hashes
from purgatory_spark._spark.hashes import hash_strings
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.trace_strategies import EVENTS, events_table, requests, requests_table
from tests.support.profiles import examples

HOSTS = ["a", "b", "", "hôte-10", "a much longer name of a host"]

HostTrace = tuple[list[TraceRequest], list[TraceEvent]]
TRACES = st.lists(st.tuples(requests(), st.lists(EVENTS, max_size=25)), min_size=1, max_size=5)


def input_table(tables: list[pa.Table], kind: str) -> pa.Table:
    """Return tables of a trace in the form that is packed, with integers for times."""
    return pa.concat_tables(tables).cast(ARROW_SCHEMAS[kind])


def cut(table: pa.Table, rows: int, *, encoded: bool) -> list[pa.RecordBatch]:
    """Return a table as batches of at most this many rows, with empty ones in between."""
    if encoded:
        host = table.schema.get_field_index("host")
        table = table.set_column(host, "host", table.column("host").dictionary_encode())
    batches = table.to_batches(max_chunksize=rows)
    empty = table.schema.empty_table().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=table.schema)
    ]
    return [each for batch in batches for each in (batch, *empty)]


def by_shard(
    tables: dict[str, pa.Table], sharding: Sharding, rows: int, *, encoded: bool
) -> dict[int, pa.Table]:
    """Pack tables, and return the packed rows of each shard."""
    found: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for kind, table in tables.items():
        for batch in cut(table, rows, encoded=encoded):
            # A batch for each call, as many small blobs are harder than a few large ones.
            for packed in pack_batches([batch], kind, sharding):
                for number, shard in enumerate(packed.column("shard").to_pylist()):
                    found[shard].append(packed.slice(number, 1))
    return {
        shard: pa.Table.from_batches(batches, PACKED_SCHEMA) for shard, batches in found.items()
    }


@examples(40)
@given(
    TRACES,
    st.integers(1, 4),
    st.integers(1, 20),
    st.booleans(),
)
def test_packed_rows_end_as_in_the_naive_model(
    trace: list[HostTrace], shards: int, rows: int, encoded: bool
) -> None:
    tables = {
        "requests": input_table(
            [requests_table(made, host) for host, (made, _) in zip(HOSTS, trace, strict=False)],
            "requests",
        ),
        "events": input_table(
            [events_table(made, host) for host, (_, made) in zip(HOSTS, trace, strict=False)],
            "events",
        ),
    }
    packed = by_shard(tables, Sharding(shards), rows, encoded=encoded)
    assert packed.keys() <= set(range(shards))
    ended = {
        (row["host"], row["request_id"]): row
        for table in packed.values()
        for row in satisfy_shard(table).to_pylist()
    }
    expected = {
        (host, request.request_id): (request, events)
        for host, (made, events) in zip(HOSTS, trace, strict=False)
        for request in made
    }
    assert ended.keys() == expected.keys()
    for key, (request, events) in expected.items():
        row = ended[key]
        is_completed = row["satisfied_us"] is not None and row["satisfied_us"] <= row["deadline_us"]
        found = (
            ("completed", row["satisfied_us"]) if is_completed else ("expired", row["deadline_us"])
        )
        assert found == outcome(request, events)
        assert row["arrived_us"] == request.arrived_us


def test_parts_of_a_host_have_shards_of_their_own() -> None:
    keys = [f"key-{number}" for number in range(40)]
    made = [TraceRequest(key, 1, 10, [key], "count", 1.0, "all") for key in keys]
    events = [TraceEvent(key, 5, 1.0) for key in keys]
    hosts = ["hot", "cold"]
    tables = {
        "requests": input_table([requests_table(made, host) for host in hosts], "requests"),
        "events": input_table([events_table(events, host) for host in hosts], "events"),
    }
    packed = by_shard(tables, Sharding(3, {"hot": 4, "absent": 2}), 100, encoded=False)
    found = {
        shard: {(row["host"], row["satisfied_us"]) for row in satisfy_shard(table).to_pylist()}
        for shard, table in packed.items()
    }
    (cold,) = [shard for shard in found if shard < 3]
    assert found == {cold: {("cold", 5)}} | {shard: {("hot", 5)} for shard in range(3, 7)}


def test_batch_takes_no_time_for_each_divided_host_of_the_trace() -> None:
    sharding = Sharding(256, {f"host-{number}": 1 for number in range(20_000)})
    hosts = pa.array(["host-19999", None, "other", "host-0"])
    hashes = np.arange(len(hosts), dtype=np.uint64)
    started = time.process_time()
    for _ in range(20):
        first, parts = sharding.host_shards(hosts, hashes)
    # A loop over the hosts took 7 s, and a look-up 0.04 s.
    assert time.process_time() - started < 1
    assert first.tolist() == [20_255, 1, 2, 256]
    assert parts.tolist() == [1, 1, 1, 1]


def test_many_names_survive() -> None:
    names = [None, "", *[f"type-{number}" for number in range(300)]]
    for chosen in (names[:3], names):
        made = [TraceRequest(str(number), 1, 10, ["k"], "sum", 1.0, "any") for number in chosen]
        table = requests_table(made)
        at = table.schema.get_field_index("request_type")
        types = pa.array(chosen, pa.string())
        table = table.set_column(at, "request_type", types)
        (batch,) = pack_batches(
            input_table([table], "requests").to_batches(), "requests", Sharding(1)
        )
        rows = unpack(pa.Table.from_batches([batch]), "requests")
        assert rows.schema == BLOB_SCHEMAS["requests"]
        assert rows.column("request_type").to_pylist() == pc.fill_null(types, "request").to_pylist()
        assert set(rows.column("quantifier").to_pylist()) == {"any"}


@pytest.mark.parametrize("encoded", [False, True])
def test_rejects_are_packed_beside_good_rows(encoded: bool) -> None:
    good = TraceRequest("r", 1, 10, ["k"], "count", 1.0, "all")
    made = requests_table([good, replace(good, request_id="'é", threshold=float("-inf"))])
    made = pa.concat_tables(
        [
            made,
            requests_table([replace(good, request_id=str(n), timeout_ms=-1) for n in range(20)]),
        ]
    )
    without_host = made.set_column(0, "host", pa.nulls(len(made), pa.string()))
    events_in = pa.concat_tables(
        [
            events_table([TraceEvent("k", 5, 1.0)]),
            events_table([TraceEvent("k", 5, float("inf"))]),
        ]
    )
    tables = {
        "requests": input_table([made, without_host], "requests"),
        "events": input_table([events_in], "events"),
    }
    packed = by_shard(tables, Sharding(8), 2, encoded=encoded)
    assert len(packed) > 2
    rows = [row for table in packed.values() for row in satisfy_shard(table).to_pylist()]
    ended = sorted((row["request_id"], row["satisfied_us"]) for row in rows if not row["reason"])
    assert ended == [("'é", 1), ("r", 5)]
    rejects = [(row["reason"], json.loads(row["row"])) for row in rows if row["reason"]]
    assert Counter(reason for reason, _ in rejects) == {
        "negative timeout": 20,
        "null host": 22,
        "amount is not a finite number": 1,
    }
    whole = {
        "request_id": "'é",
        "request_type": "count",
        "arrived_at": "1970-01-01T00:00:00.000001Z",
        "timeout_ms": 10,
        "watch_keys": ["k"],
        "aggregate": "count",
        "threshold": "-Infinity",
        "quantifier": "all",
    }
    assert ("null host", whole) in rejects


def test_repeated_requests_are_found_among_many_hosts() -> None:
    made = [TraceRequest("r", us, 10, ["k"], "count", 1.0, "all") for us in (0, 10_000, 10_001)]
    tables = {
        "requests": input_table([requests_table(made, host) for host in HOSTS], "requests"),
        "events": input_table([events_table([])], "events"),
    }
    (packed,) = by_shard(tables, Sharding(1), 100, encoded=True).values()
    rows = satisfy_shard(packed).to_pylist()
    assert sorted((row["host"], row["arrived_us"]) for row in rows if not row["reason"]) == sorted(
        (host, us) for host in HOSTS for us in (0, 10_001)
    )
    rejects = [json.loads(row["row"]) for row in rows if row["reason"] == "repeated request"]
    assert sorted(row["host"] for row in rejects) == sorted(HOSTS)
    assert {row["arrived_at"] for row in rejects} == {"1970-01-01T00:00:00.010000Z"}


def test_large_host_has_several_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("purgatory_spark._outcomes.shards.MOST_BLOB_ROWS", 10)
    made = [TraceEvent("k", number, 1.0) for number in range(25)]
    (batch,) = pack_batches(
        input_table([events_table(made)], "events").to_batches(), "events", Sharding(1)
    )
    assert batch.num_rows == 3
    assert unpack(pa.Table.from_batches([batch]), "events").column("occurred_at").to_pylist() == [
        *range(25)
    ]


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=40)), st.integers(0, 2**64 - 1))),
    st.integers(0, 3),
)
def test_only_equal_strings_have_equal_hashes(
    values: list[tuple[str | None, int]], skipped: int
) -> None:
    texts = pa.array([text for text, _ in values], pa.string())[skipped:]
    seeds = np.array([seed for _, seed in values], dtype=np.uint64)[skipped:]
    hashes = hash_strings(texts, seeds).tolist()
    alone = [
        int(hash_strings(pa.array([text], pa.string()), np.array([seed], dtype=np.uint64))[0])
        for text, seed in values[skipped:]
    ]
    assert hashes == alone
    assert len(set(hashes)) == len(set(values[skipped:]))


def test_hashes_of_similar_strings_are_spread() -> None:
    texts = pa.array(np.arange(1_000_000)).cast(pa.string())
    hashes = hash_strings(texts, np.zeros(len(texts), dtype=np.uint64))
    assert len(np.unique(hashes)) == len(texts)
    for shift in range(0, 64, 8):
        counts = np.bincount(((hashes >> np.uint64(shift)) & np.uint64(255)).astype(np.int64))
        # Six standard deviations of 1,000,000 / 256 random numbers.
        assert np.abs(counts - 3906).max() < 375


def test_examples_in_docstrings() -> None:
    result = doctest.testmod(hashes)
    assert result.attempted > 1
    assert result.failed == 0
