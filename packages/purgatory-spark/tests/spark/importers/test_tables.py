"""Tests of users' own tables: any columns, keys, events and types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark._errors import TraceFormatError
from purgatory_spark._importers.columns import map_tables
from purgatory_spark._importers.imported_trace import ImportedTrace
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.chains import mark_chains
from purgatory_spark._rows.mapped_rows import request_rows, with_row_columns
from purgatory_spark._rows.mapping import TableMapping
from purgatory_spark._rows.schema import EVENTS, REJECTS, REQUESTS
from purgatory_spark._spark.files import RAW
from request_purgatory.errors import InvalidArgumentError
from tests.spark.foreign_sessions import ZONES, foreign_session
from tests.spark.trace_folders import cached_tables, collect_tables

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MS = timedelta(milliseconds=1)

#: A mapping with all fields that a request may have beside events of their own.
ALL_FIELDS = {
    "host": "node",
    "request_id": "id",
    "request_type": "kind",
    "arrived_at": "start",
    "timeout_ms": "limit",
    "watch_keys": "replicas",
    "aggregate": "what",
    "threshold": "needed",
    "quantifier": "acks",
}
EVENT_FIELDS = {"host": "node", "key": "replica", "occurred_at": "acked", "amount": "bytes"}


def collected(trace: ImportedTrace) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of all tables."""
    return collect_tables(
        {
            "requests": trace.requests,
            "events": trace.events,
            "rejects": trace.rejects,
        }
    )


def table(spark: SparkSession, **columns: Any) -> DataFrame:
    """Make a table of one chunk."""
    return spark.createDataFrame(pa.table(columns))


def outcomes(trace: ImportedTrace) -> dict[str, str]:
    """Return the outcomes by request."""
    rows = outcomes_of(batch_outcomes(trace.requests, trace.events)).collect()
    return {row["request_id"]: row["outcome"] for row in rows}


@pytest.mark.parametrize("zone", ZONES)
def test_all_fields_of_two_tables_are_mapped(spark: SparkSession, zone: tuple[str, str]) -> None:
    with foreign_session(spark, session__timeZone=zone[0], ansi__enabled=zone[1]) as session:
        requests = table(
            session,
            node=["a", "a", "b"],
            id=pa.array([1.0, 2.0, 3.0]),
            kind=["put", None, "put"],
            start=pa.array([0, 1, 2], pa.int64()),
            limit=pa.array([100, 50, 2**31 - 1], pa.int64()),
            replicas=pa.array([[7, 8, 9], [7], [7]], pa.list_(pa.int64())),
            what=["count", "sum", "max"],
            needed=pa.array([1, 300, 200], pa.int64()),
            acks=["2", "all", "any"],
        )
        events = table(
            session,
            node=["a", "a", "a", "b"],
            replica=pa.array([7.0, 9.0, None, 7.0]),
            acked=pa.array([10, 20, 30, 1], pa.int64()),
            bytes=pa.array([200, 1, 1, 200], pa.int32()),
        )
        mapping = TableMapping(ALL_FIELDS, EVENT_FIELDS, time_unit="ms")
        trace = map_tables(requests, mapping, events=events)
        for made, schema in (
            (trace.requests, REQUESTS),
            (trace.events, EVENTS),
            (trace.rejects, REJECTS),
        ):
            assert made.dtypes == [(each.name, each.dataType.simpleString()) for each in schema]
        found = collected(trace)
        ended = outcomes(trace)
    assert [
        (row["host"], row["request_id"], row["request_type"], row["arrived_at"] - EPOCH)
        for row in found["requests"]
    ] == [("a", "1", "put", 0 * MS), ("a", "2", "request", 1 * MS), ("b", "3", "put", 2 * MS)]
    assert [
        (row["timeout_ms"], row["watch_keys"], row["aggregate"], row["threshold"])
        for row in found["requests"]
    ] == [
        (100, ["7", "8", "9"], "count", 1.0),
        (50, ["7"], "sum", 300.0),
        (2**31 - 1, ["7"], "max", 200.0),
    ]
    assert [row["quantifier"] for row in found["requests"]] == ["2", "all", "any"]
    assert [
        (row["host"], row["key"], row["occurred_at"] - EPOCH, row["amount"])
        for row in found["events"]
    ] == [("a", "7", 10 * MS, 200.0), ("a", "9", 20 * MS, 1.0), ("b", "7", 1 * MS, 200.0)]
    assert [(row["reason"], row["source"]) for row in found["rejects"]] == [
        ("null replica", "events")
    ]
    assert ended == {"1": "completed", "2": "expired", "3": "completed"}


def test_keys_of_several_columns(spark: SparkSession) -> None:
    requests = table(
        spark,
        start=[1, 2, 3],
        took=pa.array([5.0, float("nan"), 5.0]),
        first=pa.array([1.0, float("nan"), float("nan")]),
        second=["x", "x", " "],
    )
    columns: dict[str, str | tuple[str, ...]]
    columns = {"arrived_at": "start", "service_ms": "took", "watch_keys": ("first", "second")}
    found = collected(map_tables(requests, TableMapping(columns, time_unit="ms", quantifier="2")))
    assert [row["watch_keys"] for row in found["requests"]] == [["1", "x"]]
    assert [(row["key"], row["occurred_at"] - EPOCH) for row in found["events"]] == [
        ("1", 6 * MS),
        ("x", 6 * MS),
    ]
    assert [row["reason"] for row in found["rejects"]] == [
        "null first, second",
        "quorum of more keys than the request has",
    ]


def test_values_that_would_change_are_rejects(spark: SparkSession) -> None:
    rows: dict[str, dict[str, Any]] = {
        "n is a float beyond 2^53": {"n": 2.0**53},
        "unparsable limit": {"limit": "soon"},
        "limit is not a whole number": {"limit": "1.5"},
        "limit is more than 2147483647": {"limit": "2147483648"},
        "negative timeout": {"limit": "-1"},
        "null needed": {"needed": None},
        "needed has more digits than a double": {"needed": 2**53 + 1},
        "k is a float beyond 2^53": {"k": [1.0, 2.0**60]},
        "null watch key": {"k": [float("nan")]},
        "null k": {"k": None},
        "unknown aggregate": {"what": "COUNT"},
        "unknown quantifier": {"acks": "most"},
    }
    good: dict[str, Any] = {
        "n": 1.0,
        "limit": "5.0",
        "needed": 2**53,
        "k": [1.0],
        "what": "sum",
        "acks": "1",
    }
    schema = pa.schema(
        [
            ("n", pa.float64()),
            ("limit", pa.string()),
            ("needed", pa.int64()),
            ("k", pa.list_(pa.float64())),
            ("what", pa.string()),
            ("acks", pa.string()),
            ("at", pa.int64()),
        ]
    )
    given = [{**good, **row, "at": n} for n, row in enumerate([{}, *rows.values()])]
    columns: dict[str, str | tuple[str, ...]] = {
        "arrived_at": "at",
        "host": "n",
        "timeout_ms": "limit",
        "watch_keys": "k",
        "threshold": "needed",
        "aggregate": "what",
        "quantifier": "acks",
    }
    mapping = TableMapping(
        columns, {"host": "h", "key": "k", "occurred_at": "at", "amount": "b"}, time_unit="s"
    )
    amounts = [("1", 0.5), ("1", float("inf")), ("1", -1.0), ("1", None)]
    events = spark.createDataFrame(
        [(1, k, 1, b) for k, b in amounts], "h int, k string, at int, b float"
    )
    trace = map_tables(
        spark.createDataFrame(pa.Table.from_pylist(given, schema)), mapping, events=events
    )
    found = collected(trace)
    assert [(row["threshold"], row["timeout_ms"]) for row in found["requests"]] == [(2.0**53, 5)]
    assert [row["amount"] for row in found["events"]] == [0.5]
    assert sorted(row["reason"] for row in found["rejects"]) == sorted(
        [
            *rows,
            "amount is not a finite number",
            "negative amount",
            "null b",
        ]
    )
    whole = {row["reason"]: row["row"] for row in found["rejects"]}
    assert '"needed":9007199254740993' in whole["needed has more digits than a double"]
    assert '"limit":"1.5"' in whole["limit is not a whole number"]


@pytest.mark.parametrize("zone", ZONES)
def test_times_without_a_zone_are_of_the_mapping_s(
    spark: SparkSession, zone: tuple[str, str]
) -> None:
    times = {
        "2024-03-31 01:59:59.999999": "2024-03-31 00:59:59.999999",
        "2024-03-31 02:30:00": None,
        "2024-10-27 02:30:00": "2024-10-27 00:30:00",
        "2024-01-01": "2023-12-31 23:00:00",
        "2024-01-01T00:00:00Z": "2024-01-01 00:00:00",
    }
    with foreign_session(spark, session__timeZone=zone[0], ansi__enabled=zone[1]) as session:
        texts = table(session, at=list(times))
        mapping = TableMapping({"arrived_at": "at", "ended_at": "at"}, time_zone="Europe/Berlin")
        found = collected(map_tables(texts, mapping))
        typed = texts.limit(4).select(F.col("at").cast("timestamp_ntz").alias("at"))
        assert len(collected(map_tables(typed, mapping))["requests"]) == 3
    utc = sorted(text for text in times.values() if text)
    assert [str(row["arrived_at"].replace(tzinfo=None)) for row in found["requests"]] == utc
    assert [row["reason"] for row in found["rejects"]] == ["unparsable at"]


def test_single_precision_times_keep_their_value(spark: SparkSession) -> None:
    seconds = pa.array([1661169600.0, None], pa.float32())
    mapping = TableMapping({"arrived_at": "at", "ended_at": "at"}, time_unit="s")
    found = collected(map_tables(table(spark, at=seconds), mapping))
    assert [row["arrived_at"].timestamp() for row in found["requests"]] == [1661169664.0]
    assert [row["reason"] for row in found["rejects"]] == ["null at"]


def test_rows_are_exchanged_once_to_find_repeated_ids(spark: SparkSession) -> None:
    # A row in full has types of which Spark can make neither an order nor a hash.
    rows = [(1, 1000, 10), (2, 1001, 5), (2, 1002, 5), (3, 1003, -1)]
    calls = spark.createDataFrame(rows, "id bigint, at bigint, took bigint")
    calls = calls.withColumn("labels", F.create_map(F.lit("of"), "id"))
    columns = {"request_id": "id", "arrived_at": "at", "service_ms": "took"}
    flagged = request_rows(
        with_row_columns(calls, "calls"), TableMapping(columns, time_unit="ms", timeout_ms=100)
    )
    chains = mark_chains(flagged, F.col("arrived_us"), F.col("arrived_us") + 100_000)
    plan = chains._jdf.queryExecution().executedPlan().toString()
    assert (plan.count("Exchange "), plan.count("Sort ")) == (1, 1)
    texts = {(row["request_id"], row[RAW]) for row in chains.collect()}
    assert texts == {
        ("1", None),
        *[("2", f'{{"id":2,"at":{at},"took":5,"labels":{{"of":2}}}}') for at in (1001, 1002)],
        ("3", '{"id":3,"at":1003,"took":-1,"labels":{"of":3}}'),
    }


def test_events_of_ids(spark: SparkSession) -> None:
    requests = table(spark, id=["a", "b", "a"], at=[1, 2, 3])
    events = table(spark, id=["a"], at=[900])
    mapping = TableMapping(
        {"request_id": "id", "arrived_at": "at"}, {"key": "id", "occurred_at": "at"}, time_unit="ms"
    )
    cached = cached_tables(spark)
    trace = map_tables(requests, mapping, events=events)
    assert outcomes(trace) == {"a": "completed", "b": "expired"}
    assert [row["reason"] for row in collected(trace)["rejects"]] == ["repeated request"]
    assert cached_tables(spark) == cached
    assert trace.cached == []


@pytest.mark.parametrize(
    ("columns", "events", "message"),
    [
        ({"arrived_at": "a", "ended_at": "b"}, {"key": "k", "occurred_at": "t"}, "ended_at, but"),
        ({"arrived_at": "a"}, {"key": "k", "occurred_at": "t"}, "lacks watch_keys=COLUMN, or"),
        ({"arrived_at": "a", "request_id": "i"}, {"key": "k"}, "lacks occurred_at=COLUMN"),
        ({"arrived_at": "a", "request_id": "i"}, {"keys": "k"}, "unknown field 'keys' in"),
        (
            {"arrived_at": "a", "request_id": "i", "host": "h"},
            {"key": "k", "occurred_at": "t"},
            "mapping of events lacks host=COLUMN",
        ),
        ({"arrived_at": ("a", "b"), "ended_at": "b"}, {}, "only watch_keys may have several"),
        ({"arrived_at": "a", "watch_keys": "k"}, {}, "there is no table of events"),
    ],
)
def test_invalid_mappings_are_errors(
    columns: dict[str, Any], events: dict[str, str], message: str
) -> None:
    with pytest.raises(TraceFormatError, match=message):
        TableMapping(columns, events)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("time_unit", "h"),
        ("time_zone", "Berlin"),
        ("time_zone", "../etc"),
        ("timeout_ms", -1),
        ("aggregate", "min"),
        ("threshold", float("nan")),
        ("quantifier", "0"),
    ],
)
def test_invalid_constants_are_errors(name: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=name):
        TableMapping({"arrived_at": "a", "ended_at": "b"}, **{name: value})


def test_tables_that_do_not_fit_the_mapping_are_errors(spark: SparkSession) -> None:
    requests = table(spark, at=[1], nested=[[[1]]], pair=[{"x": 1}])
    own = {"arrived_at": "at", "ended_at": "at"}
    for columns, message in [
        ({**own, "host": "pod"}, "requests: missing columns: pod; the table has at, nested"),
        ({**own, "watch_keys": "nested"}, "expected an array of text or numbers"),
        ({**own, "host": "pair"}, "column pair is struct<x: int64>; expected text"),
    ]:
        with pytest.raises(TraceFormatError, match=message):
            map_tables(requests, TableMapping(columns))
    with pytest.raises(TraceFormatError, match="no mapping of it"):
        map_tables(requests, TableMapping(own), events=requests)
    mapping = TableMapping(
        {"arrived_at": "at", "request_id": "at"}, {"key": "at", "occurred_at": "at"}
    )
    with pytest.raises(TraceFormatError, match="but no table of events"):
        map_tables(requests, mapping)
