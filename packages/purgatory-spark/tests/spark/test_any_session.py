"""The functions of the pipeline in sessions that the package did not make."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from purgatory_spark import TableMapping, Trace, map_tables
from purgatory_spark._analysis.analysis import analyze
from purgatory_spark._analysis.replay_folder import write_replays
from purgatory_spark._analysis.report import write_report
from purgatory_spark._importers.table_source import read_rows
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.replay import ReplaySettings, replay, replay_designs
from purgatory_spark._outcomes.results import RESULTS, outcomes_of, rejects_of
from purgatory_spark._rows.checks import parse_us
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark.session import (
    SETTINGS,
    SessionSettingError,
    apply_stream_settings,
    create_session,
    session_for,
)
from purgatory_spark._stream.endpoints.address import AddressOptions, parse_endpoints
from purgatory_spark._stream.endpoints.json_rows import read_json_rows
from purgatory_spark._stream.run import StreamPlan, run_stream
from purgatory_spark._traces.marks import Mark
from purgatory_spark._traces.trace_folder import import_trace, make_workload_trace
from purgatory_spark._traces.trace_reader import ImportSettings
from purgatory_spark._traces.workload import Workload
from purgatory_spark._traces.workload_blocks import workload_trace
from purgatory_spark.stream import StreamSettings, delayed_operations
from tests.spark.foreign_sessions import ZONES, foreign_session
from tests.spark.naive_trace import TraceEvent, TraceRequest, outcome
from tests.spark.stream_files import write_files
from tests.spark.trace_folders import imported_rows, rows_of
from tests.spark.trace_strategies import events_table, requests_table

#: In New York it is 01:45 for the first time, 15 minutes before the clock is turned back.
BEFORE_US = 1_730_612_700_000_001
#: In New York it is 02:30 on a day without that time.
GAP = "2024-03-10 02:30:00.000001"
GAP_US = 1_710_037_800_000_001

REQUEST_ROWS = [
    TraceRequest("answered", BEFORE_US, 3_600_000, ["k"], "count", 1.0, "all"),
    TraceRequest("late", BEFORE_US, 1, ["k"], "count", 1.0, "any"),
    TraceRequest("sum", BEFORE_US + 1, 3_600_000, ["k", "m"], "sum", 2.0, "any"),
    TraceRequest("two", BEFORE_US, 3_600_000, ["k", "m"], "count", 1.0, "2"),
    # The id is used again after the deadline.
    TraceRequest("late", BEFORE_US + 1_001, 3_600_000, ["m"], "count", 1.0, "any"),
]
BAD_ROWS = [
    TraceRequest("answered", BEFORE_US + 1_000_000, 1, ["k"], "count", 1.0, "all"),
    TraceRequest("negative", BEFORE_US, -1, ["k"], "count", 1.0, "all"),
]
REJECTS = [
    ("negative timeout", datetime(2024, 11, 3, 5, 45, tzinfo=UTC)),
    ("repeated request", datetime(2024, 11, 3, 5, 45, 1, tzinfo=UTC)),
]
EVENT_ROWS = [
    TraceEvent("k", BEFORE_US + 1_800_000_000, 1.0),
    TraceEvent("m", BEFORE_US + 1_900_000_000, 2.0),
]


@pytest.fixture(params=ZONES)
def foreign(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    """Return a session of each zone and ANSI mode; its settings must not change."""
    zone, ansi = request.param
    with foreign_session(spark, session__timeZone=zone, ansi__enabled=ansi) as session:
        yield session


def tables(spark: SparkSession) -> tuple[DataFrame, DataFrame]:
    """Return the small trace as tables of a session, with requests that are rejects."""
    requests = spark.createDataFrame(requests_table([*REQUEST_ROWS, *BAD_ROWS])).to(REQUESTS)
    return requests, spark.createDataFrame(events_table(EVENT_ROWS)).to(EVENTS)


def expected() -> list[tuple[str, int, str, int]]:
    """Return id, arrival, outcome and end of each request by the plain model."""
    return sorted(
        (each.request_id, each.arrived_us, *outcome(each, EVENT_ROWS)) for each in REQUEST_ROWS
    )


def found(outcomes: DataFrame) -> list[tuple[str, int, str, int]]:
    """Return the same of a table of outcomes."""
    columns = ("arrived_at", "ended_at")
    arrived, ended = (F.unix_micros(name).alias(name) for name in columns)
    rows = outcomes.select("request_id", arrived, "outcome", ended).collect()
    return sorted(tuple(row) for row in rows)


def rejected(rejects: DataFrame) -> list[tuple[str, datetime]]:
    """Return the reasons and arrivals, to the second, of a table of rejects."""
    rows = [(row["reason"], json.loads(row["row"])["arrived_at"]) for row in rejects.collect()]
    return sorted(
        (reason, datetime.fromisoformat(arrived).replace(microsecond=0)) for reason, arrived in rows
    )


def test_batch_and_replay_give_the_same_rows(foreign: SparkSession) -> None:
    requests, events = tables(foreign)
    batch = batch_outcomes(requests, events)
    assert batch.dtypes == [(field.name, field.dataType.simpleString()) for field in RESULTS]
    in_parts = batch_outcomes(requests, events, parts={"another host": 2})
    for results in (batch, in_parts, replay(requests, events)):
        assert found(outcomes_of(results)) == expected()
        assert rejected(rejects_of(results)) == REJECTS


def test_trace_gives_the_same_rows(foreign: SparkSession) -> None:
    trace = Trace(*tables(foreign))
    assert found(trace.outcomes()) == expected()
    assert [(row["timeout_ms"], row["expired"]) for row in trace.what_if([1]).rows] == [
        (1, len(REQUEST_ROWS))
    ]
    assert trace.replay().compare().collect() == [("wheel", len(REQUEST_ROWS), 0, None)]


def test_workload_has_the_same_rows(spark: SparkSession, foreign: SparkSession) -> None:
    workload = Workload(requests=50, rate=100.0)
    for ours, theirs in zip(
        workload_trace(spark, workload), workload_trace(foreign, workload), strict=True
    ):
        as_us = [
            F.unix_micros(name).alias(name) if kind == "timestamp" else F.col(name)
            for name, kind in ours.dtypes
        ]
        assert rows_of(theirs.select(*as_us)) == rows_of(ours.select(*as_us))


TEXTS = {
    GAP: GAP_US,
    "2024-11-03T01:45:00.000001": BEFORE_US - 4 * 3_600_000_000,
    "2024-11-03T01:45:00.000001-04:00": BEFORE_US,
    " 2024-11-03 ": 1_730_592_000_000_000,
    "2024-11-03 05:45:00.000001Z": BEFORE_US,
    "2024-1-3 1:2:3": 1_704_243_723_000_000,
    "2024-11-03 01:45:00 Europe/Paris": 1_730_594_700_000_000,
    "2024": None,
    "12:30": None,
}


def test_text_without_a_zone_is_in_utc(foreign: SparkSession) -> None:
    table = foreign.createDataFrame([(text,) for text in TEXTS], "text string")
    parsed = table.select("text", parse_us("text", "iso"))
    assert dict(parsed.collect()) == TEXTS


def test_typed_times_are_read_in_utc(foreign: SparkSession, tmp_path: Path) -> None:
    local = datetime(2024, 3, 10, 2, 30, 0, 1)
    ns = pa.array([GAP_US * 1000 + 999], pa.timestamp("ns"))
    table = pa.table(
        {
            "utc": pa.array([GAP_US], pa.timestamp("us", tz="UTC")),
            "local": pa.array([local], pa.timestamp("us")),
            "local_ns": ns,
            "utc_ns": ns.cast(pa.timestamp("ns", tz="UTC")),
            "day": pa.array([local.date()]),
            "other": pa.array([[7]], pa.list_(pa.uint32())),
            "kind": pa.array(["a"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "calls.parquet")
    pq.write_table(
        table.select(["utc"]), tmp_path / "old.parquet", use_deprecated_int96_timestamps=True
    )
    names = [name for name in table.column_names if name not in ("other", "kind")]
    rows = read_rows(foreign, [tmp_path / "calls.parquet"], names)
    read = rows.select(*[parse_us(name, "iso").alias(name) for name in names])
    day_us = GAP_US - 9_000_000_001
    assert read.first().asDict() == dict.fromkeys(names, GAP_US) | {"day": day_us}
    rows = read_rows(foreign, [tmp_path / "old.parquet"], ["utc"])
    assert rows.select(parse_us("utc", "iso")).collect() == [(GAP_US,)]


def test_times_as_names_are_in_the_zone_of_the_session(foreign: SparkSession) -> None:
    times = [GAP_US - 1, BEFORE_US, -1_500_000]
    rows = foreign.createDataFrame([(us, us + 1) for us in times], "us bigint, other bigint")
    rows = rows.select(*[F.timestamp_micros(name).alias(name) for name in rows.columns])
    columns = {"arrived_at": "us", "ended_at": "us", "request_id": "us"}
    trace = map_tables(rows, TableMapping(columns | {"watch_keys": ("us", "other")}))
    expected = rows.select(F.col("us").cast("string"), F.col("other").cast("string")).collect()
    names = [tuple(row["watch_keys"]) for row in trace.requests.collect()]
    assert sorted(names) == sorted(map(tuple, expected))
    assert {row["request_id"] for row in trace.requests.collect()} == {row[0] for row in expected}


@pytest.mark.slow
def test_import_gives_the_same_rows(
    spark: SparkSession, foreign: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "calls.csv").write_text(f"start,end\n{GAP},\n2024-11-03,2024-11-04\n{GAP}\nsoon,\n")
    times = pa.table(
        {
            "start": pa.array([GAP_US, BEFORE_US], pa.timestamp("us", tz="UTC")),
            "end": pa.array([GAP_US - 1, BEFORE_US], pa.timestamp("us")),
        }
    )
    pq.write_table(times, tmp_path / "calls.parquet")
    columns = {"arrived_at": "start", "ended_at": "end"}
    for name in ("calls.csv", "calls.parquet"):
        ours, theirs = (
            imported_rows(session, tmp_path / name, columns=columns) for session in (spark, foreign)
        )
        for kind in ("requests", "events"):
            assert _in_utc(getattr(theirs, kind)) == _in_utc(getattr(ours, kind))
        assert theirs.rejects == ours.rejects
        assert theirs.requests
        assert theirs.rejects


def _in_utc(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: value.astimezone(UTC) if isinstance(value, datetime) else value
            for name, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.slow
def test_folders_have_the_same_tables(foreign: SparkSession, tmp_path: Path) -> None:
    source, trace_folder, replay_folder, target = (
        tmp_path / name for name in ("recorded", "trace", "replay", "analysis")
    )
    for name, table in (
        ("requests", requests_table([*REQUEST_ROWS, *BAD_ROWS])),
        ("events", events_table(EVENT_ROWS)),
    ):
        write_files(source / name, [table])
    for folder in (trace_folder, replay_folder, target):
        folder.mkdir()
    mark = Mark(datetime.fromtimestamp(BEFORE_US // 10**6, UTC).replace(microsecond=2), "a fault")
    trace = import_trace(foreign, source, trace_folder, ImportSettings(marks=(mark,)))
    assert rejected(trace.rejects(foreign)) == REJECTS
    replayed = write_replays(
        replay_designs(trace.requests(foreign), trace.events(foreign), [ReplaySettings()]),
        {replay_folder: ReplaySettings().parameters()},
    )
    analysis = analyze(foreign, trace, replayed, target, timeouts=[1, 3_600_000])
    (agreement,) = analysis.rows("agreement")
    assert (agreement["rows"], agreement["differing"]) == (len(REQUEST_ROWS), 0)
    assert found(foreign.read.parquet(str(target / "outcomes"))) == expected()
    first = min(row["from_at"] for row in analysis.rows("timeline"))
    start = datetime.fromtimestamp(BEFORE_US / 1e6, UTC)
    assert start - timedelta(minutes=1) < first <= start
    for file in tmp_path.rglob("*.parquet"):
        schema = pq.read_metadata(file).schema
        types = {schema.column(number).physical_type for number in range(len(schema))}
        assert "INT96" not in types, file
    (before, after) = sorted(
        analysis.rows("marks", dimension="all"), key=lambda row: str(row["side"])
    )[::-1]
    assert (before["at"], before["requests"], after["requests"]) == (mark.at, 3, 2)
    assert mark.label in write_report([analysis], tmp_path / "report.html").read_text()


def test_workload_folder_and_marks(foreign: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "trace").mkdir()
    trace = make_workload_trace(foreign, Workload(requests=20, rate=100.0), tmp_path / "trace")
    assert trace.manifest["rows"]["requests out"] == 20


def test_json_rows_have_times_in_utc(foreign: SparkSession) -> None:
    lines = [
        json.dumps({"host": "h", "key": "k", "occurred_at": text, "amount": 1.0})
        for text in (GAP.replace(" ", "T"), "2024-03-10T02:30:00.000001Z")
    ]
    values = foreign.createDataFrame([(line,) for line in lines], "value string")
    rows = read_json_rows(values, EVENTS).select(F.unix_micros("occurred_at")).collect()
    assert rows == [(GAP_US,), (GAP_US,)]


def stream_plan(folder: Path, file_format: str = "parquet") -> StreamPlan:
    """Return the plan of a stream of the small trace, which is written to `folder`."""
    write_files(folder / "requests", [requests_table(REQUEST_ROWS)])
    bad = TraceEvent("k", BEFORE_US, -1.0)
    write_files(folder / "events", [events_table([*EVENT_ROWS, bad])])
    addresses = [str(folder / name) for name in ("requests", "events", "out")]
    return StreamPlan(
        parse_endpoints(*addresses, AddressOptions(format=file_format)),
        folder / "checkpoint",
        settings=StreamSettings(shards=2, watermark_delay_ms=0),
        drain=True,
    )


@pytest.mark.slow
def test_stream_runs_and_leaves_no_setting(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"session__timeZone": "America/New_York", "ansi__enabled": "false"}
    with foreign_session(spark, **settings) as session:
        run_stream(session, stream_plan(tmp_path), lambda batch: None)
    out = spark.read.parquet(str(tmp_path / "out" / "kind=outcomes"))
    assert found(out) == expected()
    late = spark.read.parquet(str(tmp_path / "out" / "kind=late")).collect()
    assert [json.loads(row["row"])["occurred_at"] for row in late] == [
        "2024-11-03T05:45:00.000001Z"
    ]


def test_stream_of_ones_own_needs_one_call(spark: SparkSession, tmp_path: Path) -> None:
    with foreign_session(spark, session__timeZone="America/New_York") as session:
        requests, events = stream_plan(tmp_path).endpoints.read(session)
        with pytest.raises(
            SessionSettingError,
            match=r"stateStore\.providerClass is '.*HDFSBackedStateStoreProvider' in this Spark "
            r"session, and delayed_operations needs '.*RocksDBStateStoreProvider': call "
            r"apply_stream_settings\(spark\) of purgatory_spark\.stream",
        ):
            delayed_operations(requests, events)
    own = spark.newSession()
    apply_stream_settings(own)
    delayed_operations(*stream_plan(tmp_path / "own").endpoints.read(own))
    own.conf.set("spark.sql.streaming.multipleWatermarkPolicy", "max")
    with pytest.raises(
        SessionSettingError, match=r"multipleWatermarkPolicy is 'max'.* needs 'min'"
    ):
        delayed_operations(*stream_plan(tmp_path / "max").endpoints.read(own))


def test_legacy_time_parser_is_refused_for_json(spark: SparkSession) -> None:
    with foreign_session(spark, legacy__timeParserPolicy="LEGACY") as session:
        values = session.createDataFrame([("{}",)], "value string")
        with pytest.raises(
            SessionSettingError,
            match=r"timeParserPolicy is 'LEGACY' .*, and reading JSON rows needs 'CORRECTED'",
        ):
            read_json_rows(values, EVENTS)


def test_session_beside_a_running_one(spark: SparkSession) -> None:
    active = "purgatory_spark._spark.session.SparkSession.getActiveSession"
    settings = {"session__timeZone": "Asia/Kolkata", "shuffle__partitions": "3"}
    with foreign_session(spark, **settings) as session, pytest.MonkeyPatch.context() as patch:
        patch.setattr(active, lambda: session)
        made = create_session()
        assert made is not session
        assert {name: made.conf.get(name) for name in SETTINGS} == dict(SETTINGS)
        assert made.conf.get("spark.sql.shuffle.partitions") == "3"
    assert made.sparkContext is spark.sparkContext


def test_few_rows_have_a_session_with_few_tasks(spark: SparkSession) -> None:
    names = ("spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions")
    given = {"adaptive__enabled": "true", "session__timeZone": "Asia/Kolkata"}
    with foreign_session(spark, **given, shuffle__partitions="64") as session:
        with session_for(session, 400_000) as own:
            assert own is not session
            assert own.conf.get(names[0]) == "false"
            assert int(own.conf.get(names[1]) or 0) <= 4
            assert own.conf.get("spark.sql.session.timeZone") == "Asia/Kolkata"
            with session_for(own, 1) as again:
                assert again is own
        with session_for(session, 400_001) as own:
            assert own is session
        assert [session.conf.get(name) for name in names] == ["true", "64"]
    with (
        foreign_session(spark, adaptive__enabled="true", shuffle__partitions="1") as session,
        session_for(session, 1) as own,
    ):
        assert own.conf.get(names[1]) == "1"
