"""The streaming job on Spark, against the batch job: with any files, killed and restarted."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, assume, given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark._errors import SchemaError
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.results import outcomes_of
from purgatory_spark._rows.schema import EVENTS, OUTCOMES, REQUESTS
from purgatory_spark._stream import run
from purgatory_spark._stream.checkpoint import FOLDER_TICKS, require_compatible_checkpoint
from purgatory_spark._stream.endpoints.address import AddressOptions, parse_endpoints
from purgatory_spark._stream.endpoints.ticks import clock_ticks
from purgatory_spark._stream.processor import STATE_NAME
from purgatory_spark._stream.progress import BatchProgress
from purgatory_spark._stream.run import DrainError, StreamPlan, run_stream
from purgatory_spark.stream import StreamSettings, delayed_operations
from request_purgatory.errors import InvalidArgumentError
from tests.spark.job import job, quick_spark
from tests.spark.naive_trace import TraceEvent, TraceRequest
from tests.spark.stream_files import (
    expected_outcomes,
    microseconds,
    stream_command,
    stream_trace,
    write_files,
    write_trace,
    written_outcomes,
)
from tests.spark.trace_strategies import EVENTS as ANY_EVENT
from tests.spark.trace_strategies import events_table, requests, requests_table
from tests.support.live_page import LivePage, port_of
from tests.support.profiles import IRRELEVANT, examples

TIME_LIMIT = 120.0
HOUR = timedelta(hours=1)


def plan(folder: Path, **options: Any) -> StreamPlan:
    """Return the plan of a stream of the files in a folder, one of each kind per batch."""
    addresses = [str(folder / name) for name in ("requests", "events", "out")]
    found = parse_endpoints(*addresses, AddressOptions(files_per_batch=1))
    return StreamPlan(found, folder / "checkpoint", **options)


def hold_back(folder: Path, file: str) -> dict[str, Path]:
    """Move a file of requests and one of events aside, and return where they are."""
    return {
        name: (folder / name / file).rename(folder / f"{name}.parquet")
        for name in ("requests", "events")
    }


def outcomes(spark: SparkSession, folder: Path) -> list[Any]:
    """Return the outcomes that the stream wrote, in order."""
    found = spark.read.parquet(str(folder / "out" / "kind=outcomes")).select(*OUTCOMES.names)
    return sorted(found.collect())


def expected(spark: SparkSession, folder: Path) -> list[Any]:
    """Return the outcomes of the batch job on the same files, in order."""
    inputs = (
        spark.read.schema(REQUESTS).parquet(str(folder / "requests")),
        spark.read.schema(EVENTS).parquet(str(folder / "events")),
    )
    return sorted(outcomes_of(batch_outcomes(*inputs)).collect())


# A stream takes many seconds, so there are few examples and no shrinking; `test_shard` tries
# thousands of histories without Spark. All examples may share the session that the fixture gives.
@examples(
    1,
    times=3,
    phases=[Phase.generate],
    suppress_health_check=[*IRRELEVANT, HealthCheck.function_scoped_fixture],
)
@given(
    data=st.lists(
        st.tuples(requests(), st.lists(ANY_EVENT, max_size=30)), min_size=12, max_size=12
    ),
    order=st.randoms(),
)
def test_stream_and_batch_agree_row_for_row(
    streaming: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    data: list[tuple[list[TraceRequest], list[TraceEvent]]],
    order: Any,
) -> None:
    folder = tmp_path_factory.mktemp("agree")
    requests_all = pa.concat_tables(
        [requests_table(found, f"host-{number}") for number, (found, _) in enumerate(data)]
    )
    events_all = pa.concat_tables(
        [events_table(events, f"host-{number}") for number, (_, events) in enumerate(data)]
    )
    # Hypothesis starts with almost empty examples, which are not worth a stream.
    assume(events_all.num_rows > 50)
    for name, table in (("requests", requests_all), ("events", events_all)):
        rows = list(range(table.num_rows))
        order.shuffle(rows)
        cuts = [0, *sorted(order.choices(range(len(rows) + 1), k=2)), len(rows)]
        write_files(
            folder / name,
            [table.take(pa.array(rows[start:end], pa.int64())) for start, end in pairwise(cuts)],
        )
    batches: list[BatchProgress] = []
    # The times of these traces span 524 ms.
    run_stream(
        streaming,
        plan(folder, settings=StreamSettings(shards=3, watermark_delay_ms=1000), drain=True),
        batches.append,
    )
    assert not (folder / "out" / "kind=late").exists()
    assert outcomes(streaming, folder) == expected(streaming, folder)
    assert sum(batch.completed + batch.expired for batch in batches) == requests_all.num_rows
    assert sum(batch.late for batch in batches) == 0
    assert batches[-1].pending == 0
    starts = [datetime.fromisoformat(batch.started_at) for batch in batches]
    assert starts == sorted(starts)


@pytest.mark.jvm
def test_killed_stream_resumes_at_its_checkpoint(tmp_path: Path) -> None:
    """The driver is killed after the first batch, and the second start runs to the end.

    A live page shows the batch.
    """
    trace = stream_trace(hosts=2, requests=1_000)
    write_trace(tmp_path, trace, files=3)
    environment = quick_spark(tmp_path)
    command = stream_command(tmp_path, tmp_path, "--dashboard", "0")
    with job(command, tmp_path / "first.log", **environment) as first:
        url = first.wait_for_line("dashboard: ").split()[1]
        first.wait_for_line("batch 0:")
        port = port_of(url)
        with LivePage(port) as page:
            shown = page.hello["now"]
            while not shown["panels"]["stream"]["batches"]:
                shown = page.next()["now"]
            assert shown["panels"]["stream"]["batches"][0]["batch"] == 0
    assert len(written_outcomes(tmp_path)) < 1_000
    with job(
        stream_command(tmp_path, tmp_path, "--drain"), tmp_path / "second.log", **environment
    ) as second:
        code, output = second.wait()
    assert code == 0, second.describe()
    assert "batch 0:" not in output
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


@pytest.mark.jvm
def test_killed_stream_loses_and_repeats_no_rows(tmp_path: Path) -> None:
    trace = stream_trace(hosts=4, requests=20_000)
    write_trace(tmp_path, trace, files=6)
    # Two partitions, as by default on a machine with two cores, so that there are two workers.
    environment = quick_spark(tmp_path, {"spark.sql.shuffle.partitions": "2"})
    with job(
        stream_command(tmp_path, tmp_path, "--available-now"), tmp_path / "first.log", **environment
    ) as first:
        first.wait_for_line("batch 1:")
    with job(
        stream_command(tmp_path, tmp_path, "--available-now"),
        tmp_path / "second.log",
        **environment,
    ) as second:
        second.wait_for_line("batch 3:")
        workers = second.python_workers()
        assert workers
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
        second.wait()
    with job(
        stream_command(tmp_path, tmp_path, "--drain"), tmp_path / "third.log", **environment
    ) as third:
        assert third.wait()[0] == 0, third.describe()
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


@pytest.mark.slow
def test_restarted_stream_keeps_its_partitions_and_reports_what_is_pending(
    streaming: SparkSession, tmp_path: Path
) -> None:
    trace = stream_trace(hosts=4, requests=4_000)
    write_trace(tmp_path, trace, files=4)
    later = hold_back(tmp_path, "003.parquet")
    chosen = StreamSettings(shards=4, watermark_delay_ms=20)
    batches: list[BatchProgress] = []
    streaming.conf.set("spark.sql.shuffle.partitions", "2")
    run_stream(streaming, plan(tmp_path, settings=chosen, available_now=True), batches.append)
    assert streaming.conf.get("spark.sql.shuffle.partitions") == "2"
    assert 0 < sum(batch.completed + batch.expired for batch in batches) < 3_000
    pending = batches[-1].pending
    assert pending > 0
    streaming.conf.set("spark.sql.shuffle.partitions", "1")
    for name, file in later.items():
        file.rename(tmp_path / name / "003.parquet")
    batches.clear()
    run_stream(streaming, plan(tmp_path, settings=chosen, drain=True), batches.append)
    assert batches[0].pending > pending // 2
    assert batches[-1].pending == 0
    assert written_outcomes(tmp_path) == expected_outcomes(trace)


@pytest.mark.slow
def test_checkpoint_of_version_0_1_0_keeps_its_shards(
    streaming: SparkSession, tmp_path: Path
) -> None:
    trace = stream_trace(hosts=4, requests=2_000)
    write_trace(tmp_path, trace, files=2)
    later = hold_back(tmp_path, "001.parquet")
    chosen = plan(
        tmp_path, settings=StreamSettings(shards=4, watermark_delay_ms=20), available_now=True
    )
    identities = chosen.endpoints.identities(streaming) | {"ticks": FOLDER_TICKS}
    assert require_compatible_checkpoint(chosen.checkpoint, chosen.settings, identities)
    file = chosen.checkpoint / "purgatory-stream.json"
    record = json.loads(file.read_text())
    del record["even_shards"]
    file.write_text(json.dumps(record | {"state_version": 3}))
    run_stream(streaming, chosen, lambda batch: None)
    stored = (
        streaming.read.format("statestore")
        .option("stateVarName", STATE_NAME)
        .load(str(chosen.checkpoint))
    )
    numbers = {row["shard"] for row in stored.select("key.shard").distinct().collect()}
    assert numbers
    assert numbers <= {0, 1, 2, 3}
    for name, moved in later.items():
        moved.rename(tmp_path / name / "001.parquet")
    run_stream(streaming, replace(chosen, available_now=False, drain=True), lambda batch: None)
    assert written_outcomes(tmp_path) == expected_outcomes(trace)
    assert json.loads(file.read_text())["even_shards"] is False


@pytest.mark.slow
def test_drain_after_a_kill_ends_all_requests(streaming: SparkSession, tmp_path: Path) -> None:
    write_trace(tmp_path, stream_trace(hosts=1, requests=1_000), files=1)
    chosen = StreamSettings(shards=1, watermark_delay_ms=20)
    ticks = tmp_path / "checkpoint" / "ticks"
    batches: list[BatchProgress] = []
    run_stream(streaming, plan(tmp_path, settings=chosen, available_now=True), batches.append)
    assert batches[-1].pending > 0
    (ticks / "end.json").touch()
    run_stream(streaming, plan(tmp_path, settings=chosen, available_now=True), batches.append)
    run_stream(streaming, plan(tmp_path, settings=chosen, drain=True), batches.append)
    assert batches[-1].pending == 0
    assert len(written_outcomes(tmp_path)) == 1_000


@pytest.mark.slow
def test_drain_that_ends_too_little_is_an_error(
    streaming: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_trace(tmp_path, stream_trace(hosts=1, requests=100), files=1)
    chosen = plan(tmp_path, settings=StreamSettings(shards=1, watermark_delay_ms=20), drain=True)
    with monkeypatch.context() as patch:
        # As if the file system had lost the tick.
        patch.setattr(run, "write_text_durably", lambda path, text: None)
        with pytest.raises(
            DrainError,
            match=r"checkpoint: the stream was not drained: \d+ requests are known to be",
        ):
            run_stream(streaming, chosen, lambda batch: None)
    run_stream(streaming, chosen, lambda batch: None)
    assert len(written_outcomes(tmp_path)) == 100


@pytest.mark.slow
def test_late_and_unusable_rows_are_written_with_their_reasons(
    streaming: SparkSession, tmp_path: Path
) -> None:
    base = datetime(2024, 1, 1, tzinfo=UTC)
    schema = requests_table([]).schema

    def row(
        name: str | None, at: datetime, keys: list[str] | None, timeout_ms: int = 1000
    ) -> dict[str, Any]:
        return {
            "host": "h",
            "request_id": name,
            "request_type": "t",
            "arrived_at": at,
            "timeout_ms": timeout_ms,
            "watch_keys": keys,
            "aggregate": "count",
            "threshold": 1.0,
            "quantifier": "all",
        }

    given_requests = [
        [
            row("in time", base, ["k"]),
            row(None, base, ["k"]),
            row("no keys", base, None),
            row("later", base + HOUR, ["k"]),
        ],
        [row("late", base + HOUR / 2, ["k"]), row("last", base + HOUR, ["k"], timeout_ms=0)],
        [row("last", base + HOUR, ["other"])],
    ]
    given_events = [
        [
            TraceEvent("other", microseconds(base + HOUR), 1.0),
            TraceEvent("k", microseconds(base) + 1, 1.0),
            TraceEvent("k", microseconds(base + HOUR), -1.0),
        ],
        [TraceEvent("k", microseconds(base), 1.0)],
        [TraceEvent("k", microseconds(base + HOUR), 1.0)],
    ]
    write_files(
        tmp_path / "requests", [pa.Table.from_pylist(rows, schema) for rows in given_requests]
    )
    write_files(tmp_path / "events", [events_table(rows) for rows in given_events])
    run_stream(
        streaming,
        plan(tmp_path, settings=StreamSettings(shards=2, watermark_delay_ms=1), drain=True),
        lambda batch: None,
    )
    ended = {row["request_id"]: row["outcome"] for row in outcomes(streaming, tmp_path)}
    late = streaming.read.parquet(str(tmp_path / "out" / "kind=late")).collect()
    reasons = sorted((row["reason"], json.loads(row["row"]).get("request_id")) for row in late)
    assert ended == {"in time": "completed", "later": "completed", "last": "completed"}
    assert reasons == [
        ("late event", None),
        ("late request", "late"),
        ("negative amount", None),
        ("null request_id", None),
        ("null watch_keys", "no keys"),
        ("repeated request", "last"),
    ]


@pytest.mark.slow
def test_route_by_key_agrees_and_rejects_requests_with_several_keys(
    streaming: SparkSession, tmp_path: Path
) -> None:
    found = [
        TraceRequest(f"r{number}", 10**15 + number, 5, [f"k{number % 7}"], "max", 3.0, "all")
        for number in range(200)
    ]
    several = [TraceRequest("several", 10**15, 5, ["a", "b"], "count", 1.0, "any")]
    events = [
        TraceEvent(f"k{number % 7}", 10**15 + number * 50, number % 5) for number in range(200)
    ]
    write_files(tmp_path / "requests", [requests_table(found + several)])
    write_files(tmp_path / "events", [events_table(events)])
    chosen = StreamSettings(shards=5, route="key", watermark_delay_ms=1000)
    run_stream(streaming, plan(tmp_path, settings=chosen, drain=True), lambda batch: None)
    assert outcomes(streaming, tmp_path) == [
        row for row in expected(streaming, tmp_path) if row["request_id"] != "several"
    ]
    late = streaming.read.parquet(str(tmp_path / "out" / "kind=late")).collect()
    assert [row["reason"] for row in late] == ["not exactly one watch key (route by key)"]


@pytest.mark.slow
def test_request_of_a_quiet_stream_expires(streaming: SparkSession, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    request = TraceRequest("alone", microseconds(now), 500, ["never"], "count", 1.0, "all")
    write_files(tmp_path / "requests", [requests_table([request])])
    write_files(tmp_path / "events", [events_table([TraceEvent("other", microseconds(now), 1.0)])])
    inputs = plan(tmp_path).endpoints.read(streaming)
    results = delayed_operations(
        *inputs,
        settings=StreamSettings(shards=2, watermark_delay_ms=0),
        ticks=clock_ticks(streaming, 0.0),
    )
    writer = (
        results.writeStream.format("memory")
        .queryName("quiet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = writer.start()
    try:
        found: list[Any] = []
        deadline = time.monotonic() + TIME_LIMIT
        while not found and time.monotonic() < deadline:
            assert query.isActive, query.exception()
            query.awaitTermination(1)
            found = _table(streaming, "quiet").collect()
    finally:
        query.stop()
    assert [(row["request_id"], row["outcome"], row["waited_ms"]) for row in found] == [
        ("alone", "expired", 500.0)
    ]


def _table(spark: SparkSession, name: str) -> DataFrame:
    return spark.table(name)


def test_input_with_wrong_columns_is_refused_before_the_checkpoint_is_made(
    streaming: SparkSession, tmp_path: Path
) -> None:
    write_files(tmp_path / "requests", [requests_table([]).drop(["threshold"])])
    write_files(tmp_path / "events", [events_table([])])
    with pytest.raises(SchemaError, match=r"requests: threshold \(double\) is missing"):
        run_stream(streaming, plan(tmp_path), lambda batch: None)
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 0}, "shards must be at least 1"),
        ({"route": "topic"}, "route must be one of host, key"),
        ({"watermark_delay_ms": -1}, "watermark_delay_ms must be at least 0, got -1"),
    ],
    ids=str,
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        StreamSettings(**options)


@pytest.mark.jvm
def test_jvm_that_is_killed_is_named(tmp_path: Path) -> None:
    trace = stream_trace(hosts=1, requests=100)
    write_trace(tmp_path, trace, files=1)
    environment = quick_spark(tmp_path)
    command = stream_command(tmp_path, tmp_path)
    with job(command, tmp_path / "log", **environment) as running:
        running.wait_for_line("batch 0:")
        (jvm,) = running.find_pids(b"org.apache.spark.deploy.SparkSubmit")
        os.kill(jvm, signal.SIGKILL)
        code, _ = running.wait()
    errors = running.log.read_text()
    assert code == 1, errors
    assert errors.splitlines()[-1].startswith("purgatory: Spark's JVM has ended"), errors
    assert "Traceback" not in errors
