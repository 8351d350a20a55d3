"""Rows that break a rule are rejects in every function, with the same reasons, in one pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, Row, SparkSession

from purgatory_spark._analysis.aggregates import compare_replayed
from purgatory_spark._analysis.replay_folder import write_replays
from purgatory_spark._errors import TraceFormatError
from purgatory_spark._outcomes.batch import (
    batch_outcomes,
    satisfactions,
    trace_outcomes,
    trace_satisfactions,
)
from purgatory_spark._outcomes.replay import ReplaySettings, replay, replay_designs
from purgatory_spark._outcomes.results import outcomes_of, rejects_of
from purgatory_spark._rows.schema import EVENTS, OUTCOMES, QUANTIFIERS, REQUESTS
from purgatory_spark._spark.spark_tables import write_spark_table
from purgatory_spark._traces.trace_reader import read_trace
from purgatory_spark.stream import StreamSettings, delayed_operations
from tests.spark.naive_trace import TraceEvent, TraceRequest, not_repeated, outcome
from tests.spark.small_analyses import replay_and_analyze, write_trace
from tests.spark.stream_files import write_files
from tests.spark.trace_folders import write_recorded
from tests.spark.trace_strategies import EVENTS as ANY_EVENT
from tests.spark.trace_strategies import events_table, requests, requests_table, with_enough_keys
from tests.support.profiles import examples

NOON_US = 1_700_000_000_000_000
FAR_US = 10**17
GOOD = TraceRequest("good", NOON_US, 5, ["k"], "sum", 3.0, "all")
GOOD_EVENT = TraceEvent("k", NOON_US + 1000, 3.0)
BAD_REQUESTS = {
    "negative timeout": replace(GOOD, timeout_ms=-1),
    "unknown aggregate": replace(GOOD, aggregate="median"),
    "unknown quantifier": replace(GOOD, quantifier="ALL"),
    "quorum below 1": replace(GOOD, quantifier="0"),
    # A key that is listed twice counts once.
    "quorum of more keys than the request has": replace(
        GOOD, watch_keys=["k", "k"], quantifier="2"
    ),
    "threshold is not a number": replace(GOOD, threshold=float("nan")),
    "arrived_at not of the years 1900 to 2199": replace(GOOD, arrived_us=FAR_US),
    "null watch key": replace(GOOD, watch_keys=["k", None]),  # type: ignore[list-item]
    "repeated request": replace(GOOD, arrived_us=NOON_US + 5000),
}
NULLABLE = (
    "host",
    "request_id",
    "arrived_at",
    "timeout_ms",
    "watch_keys",
    "aggregate",
    "threshold",
    "quantifier",
)
BAD_EVENTS = {
    "amount is not a finite number": [
        replace(GOOD_EVENT, amount=float(name)) for name in ("nan", "inf", "-inf")
    ],
    "negative amount": [replace(GOOD_EVENT, amount=-1.0)],
    "occurred_at not of the years 1900 to 2199": [replace(GOOD_EVENT, occurred_us=-FAR_US)],
}


def with_null(table: pa.Table, column: str) -> pa.Table:
    """Return a table with only nulls in one column."""
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.nulls(len(table), table.column(column).type))


REQUESTS_TABLE = pa.concat_tables(
    [
        requests_table([GOOD, *BAD_REQUESTS.values()]),
        *[with_null(requests_table([GOOD]), name) for name in NULLABLE],
        # This one is good: it gets a default type.
        with_null(requests_table([replace(GOOD, request_id="untyped")]), "request_type"),
    ]
).combine_chunks()
EVENTS_TABLE = pa.concat_tables(
    [
        events_table([GOOD_EVENT, *[event for bad in BAD_EVENTS.values() for event in bad]]),
        *[with_null(events_table([GOOD_EVENT]), name) for name in ("host", "key", "occurred_at")],
        with_null(events_table([GOOD_EVENT]), "amount"),
    ]
).combine_chunks()
REASONS = sorted(
    [
        *BAD_REQUESTS,
        *[reason for reason, bad in BAD_EVENTS.items() for _ in bad],
        *[f"null {name}" for name in (*NULLABLE, "host", "key", "occurred_at", "amount")],
    ]
)
ENDED = [("good", "completed", 1.0), ("untyped", "completed", 1.0)]


@pytest.fixture
def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Return two good requests and every kind of bad row."""
    return (
        spark.createDataFrame(REQUESTS_TABLE, REQUESTS),
        spark.createDataFrame(EVENTS_TABLE, EVENTS),
    )


def ends(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Return the ids, outcomes and waits of rows that are outcomes."""
    names = ("request_id", "outcome", "waited_ms")
    return sorted(tuple(row[name] for name in names) for row in rows if row["kind"] == "outcomes")


def assert_rejects(rows: Sequence[Row], kind: str) -> None:
    """Check the reasons, and that rejects have nothing else than themselves."""
    rejects = [row for row in rows if row["kind"] == kind]
    assert sorted(row["reason"] for row in rejects) == REASONS
    for row in rejects:
        assert [row[name] for name in OUTCOMES.names] == [None] * len(OUTCOMES.names)
        assert isinstance(json.loads(row["row"]), dict)
    repeated = next(row for row in rejects if row["reason"] == "repeated request")
    assert json.loads(repeated["row"])["request_id"] == "good"


def test_bad_rows_are_rejects_of_the_batch(tables: tuple[DataFrame, DataFrame]) -> None:
    found = batch_outcomes(*tables)
    rows = found.collect()
    assert ends(rows) == ENDED
    assert_rejects(rows, "rejects")
    assert outcomes_of(found).columns == OUTCOMES.names
    assert rejects_of(found).count() == len(REASONS)
    assert {row["request_type"] for row in rows if row["kind"] == "outcomes"} == {"sum", "request"}


def test_bad_rows_are_rejects_of_files(
    spark: SparkSession, tables: tuple[DataFrame, DataFrame], tmp_path: Path
) -> None:
    found = trace_outcomes(spark, _written(tmp_path, *tables))
    rows = found.collect()
    assert ends(rows) == ENDED
    assert_rejects(rows, "rejects")
    assert sorted(rows, key=repr) == sorted(batch_outcomes(*tables).collect(), key=repr)


@examples(2, times=10, phases=[Phase.explicit, Phase.generate])
@given(
    st.lists(
        st.tuples(
            st.sampled_from([*QUANTIFIERS, "ALL", "", "-1", "-", "00", "02", "2\n", "9" * 5000]),
            st.sampled_from(["count", "max", "min"]),
            st.sampled_from([1.0, float("nan"), float("inf")]),
            st.sampled_from([0, -1, 5]),
            st.one_of(
                st.none(), st.lists(st.one_of(st.none(), st.sampled_from("abc")), max_size=4)
            ),
            st.sampled_from([0, 7_258_118_399_999_999, 7_258_118_400_000_000, -FAR_US]),
        ),
        min_size=40,
        max_size=80,
    )
)
def test_batch_and_replay_have_the_same_rejects(
    spark: SparkSession, rows: list[tuple[Any, ...]]
) -> None:
    frame = spark.createDataFrame(
        pa.table(
            {
                "host": pa.repeat("h", len(rows)),
                "request_id": [str(number) for number in range(len(rows))],
                "request_type": pa.repeat("t", len(rows)),
                "arrived_at": pa.array([row[5] for row in rows], pa.timestamp("us", tz="UTC")),
                "timeout_ms": pa.array([row[3] for row in rows], pa.int32()),
                "watch_keys": pa.array([row[4] for row in rows], pa.list_(pa.string())),
                "aggregate": [row[1] for row in rows],
                "threshold": [row[2] for row in rows],
                "quantifier": [row[0] for row in rows],
            }
        ),
        REQUESTS,
    )
    events = spark.createDataFrame([], EVENTS)
    found, expected = (
        sorted(
            (row["reason"], row["row"] and json.loads(row["row"])["request_id"], row["request_id"])
            for row in result.where("kind <> 'hosts'").na.fill("").collect()
        )
        for result in (batch_outcomes(frame, events), replay(frame, events))
    )
    assert found == expected


@pytest.mark.parametrize("design", ["wheel", "legacy"])
def test_bad_rows_are_rejects_of_the_replay(
    tables: tuple[DataFrame, DataFrame], design: str
) -> None:
    rows = replay(*tables, ReplaySettings(design=design)).collect()
    assert ends(rows) == ENDED
    assert_rejects(rows, "rejects")
    assert [row["host"] for row in rows if row["kind"] == "hosts"] == ["h"]


def test_bad_rows_are_rejects_of_an_import(spark: SparkSession, tmp_path: Path) -> None:
    folder = write_recorded(tmp_path / "in", REQUESTS_TABLE, EVENTS_TABLE)
    with read_trace(spark, folder) as trace:
        assert sorted(row["reason"] for row in trace.rejects.collect()) == REASONS
        assert ends(batch_outcomes(trace.requests, trace.events).collect()) == ENDED


@pytest.mark.slow
def test_bad_rows_are_rejects_of_the_stream(streaming: SparkSession, tmp_path: Path) -> None:
    # An event an hour later moves the watermark past all others.
    after = events_table([TraceEvent("other", NOON_US + 3_600_000_000, 1.0)])
    further = requests_table([replace(GOOD, request_id="far", arrived_us=NOON_US + 3_600_000_000)])
    inputs = []
    for name, table, schema, last in (
        ("requests", REQUESTS_TABLE, REQUESTS, further),
        ("events", EVENTS_TABLE, EVENTS, after),
    ):
        write_files(tmp_path / name, [pa.concat_tables([table, last])])
        inputs.append(streaming.readStream.schema(schema).parquet(str(tmp_path / name)))
    results = delayed_operations(*inputs, settings=StreamSettings(shards=2, watermark_delay_ms=0))
    query = (
        results.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    rows = streaming.read.schema(results.schema).parquet(str(tmp_path / "out")).collect()
    assert ends(rows) == ENDED
    assert_rejects(rows, "late")


def test_checked_trace_with_bad_rows_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    message = "1 rows break the rules of a trace .*unknown aggregate.*import it again"
    trace = write_trace(tmp_path / "trace", [GOOD, BAD_REQUESTS["unknown aggregate"]], [GOOD_EVENT])
    with pytest.raises(TraceFormatError, match=message):
        replay_and_analyze(spark, trace, tmp_path / "replayed", designs=["wheel"])
    with pytest.raises(TraceFormatError, match=message):
        replay_and_analyze(spark, trace, tmp_path / "analyzed", designs=[])


def test_long_timeout_reserves_an_id(spark: SparkSession) -> None:
    long = replace(GOOD, timeout_ms=2**31 - 1)
    deadline_us = NOON_US + long.timeout_ms * 1000
    given = (
        spark.createDataFrame(
            requests_table(
                [replace(long, arrived_us=us) for us in (NOON_US, deadline_us, deadline_us + 1)]
            ),
            REQUESTS,
        ),
        spark.createDataFrame(events_table([GOOD_EVENT]), EVENTS),
    )
    for results in (batch_outcomes(*given), satisfactions(*given, parts={"h": 2}), replay(*given)):
        reasons = [row["reason"] for row in rejects_of(results).collect()]
        assert reasons == ["repeated request"]


def test_comparison_does_not_multiply_rows_of_an_id(spark: SparkSession, tmp_path: Path) -> None:
    again = [replace(GOOD, arrived_us=NOON_US + number * 10_000) for number in range(3)]
    given = (
        spark.createDataFrame(requests_table(again), REQUESTS),
        spark.createDataFrame(events_table([GOOD_EVENT]), EVENTS),
    )
    folder = tmp_path / "replay"
    folder.mkdir()
    replayed = replay_designs(*given, [ReplaySettings()])
    (written,) = write_replays(replayed, {folder: ReplaySettings().parameters()})
    found = written.table(spark, "outcomes")
    row = compare_replayed(batch_outcomes(*given), found, "wheel").collect()[0]
    assert (row["rows"], row["differing"], row["example"]) == (3, 0, None)


# Without shrinking, which would run hundreds of Spark jobs.
@pytest.mark.slow
@examples(2, times=10, phases=[Phase.explicit, Phase.generate])
@given(
    data=st.lists(
        st.tuples(
            requests(),
            st.lists(st.sampled_from("abc"), min_size=12, max_size=12),
            st.lists(ANY_EVENT, max_size=30),
        ),
        min_size=4,
        max_size=5,
    )
)
def test_batch_replay_and_import_agree_on_reused_ids(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    data: list[tuple[list[TraceRequest], list[str], list[TraceEvent]]],
) -> None:
    expected, requests_all, events_all = [], [], []
    for number, (found, names, events) in enumerate(data):
        # Equal arrivals and timeouts with other keys could be taken in any order; so could splits.
        named = {
            (name, each.arrived_us, each.timeout_ms): with_enough_keys(
                replace(each, request_id=name, watch_keys=each.watch_keys[:1])
            )
            for each, name in zip(found, names, strict=False)
        }
        host = f"host-{number}"
        requests_all.append(requests_table(list(named.values()), host))
        events_all.append(events_table(events, host))
        for each in not_repeated(list(named.values())):
            how, ended_us = outcome(each, events)
            expected.append((host, each.request_id, each.arrived_us, how, ended_us))
    tables = pa.concat_tables(requests_all).combine_chunks(), pa.concat_tables(events_all)
    folder = write_recorded(tmp_path_factory.mktemp("reused") / "in", *tables)
    given_frames = (
        spark.createDataFrame(tables[0], REQUESTS),
        spark.createDataFrame(tables[1].combine_chunks(), EVENTS),
    )
    written = _written(tmp_path_factory.mktemp("written"), *given_frames)
    parts = {f"host-{number}": 3 for number in range(len(data))}
    with read_trace(spark, folder) as trace:
        results = [
            batch_outcomes(*given_frames),
            satisfactions(*given_frames, parts=parts),
            trace_satisfactions(spark, written, parts=parts),
            replay(*given_frames),
            batch_outcomes(trace.requests, trace.events),
        ]
        rejected = tables[0].num_rows - len(expected)
        for result in results:
            rows = result.collect()
            ended = [_plain(row) for row in rows if row["kind"] == "outcomes"]
            assert sorted(ended) == sorted(expected)
            rejects = [row["reason"] for row in rows if row["kind"] == "rejects"]
            assert rejects == ["repeated request"] * (0 if result is results[-1] else rejected)
        assert trace.rejects.count() == rejected


def _written(folder: Path, requests: DataFrame, events: DataFrame) -> Path:
    write_spark_table(requests, folder / "requests")
    write_spark_table(events, folder / "events")
    return folder


def _plain(row: Row) -> tuple[Any, ...]:
    names = ("host", "request_id", "arrived_at", "outcome", "ended_at")
    return tuple(
        int(np.datetime64(value.astimezone(UTC).replace(tzinfo=None), "us").astype(np.int64))
        if isinstance(value, datetime)
        else value
        for value in (row[name] for name in names)
    )
