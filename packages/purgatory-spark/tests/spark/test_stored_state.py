"""What the checkpoint of a stream holds, read while the stream does not run."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from purgatory_command_line.exit_codes import ExitCode
from purgatory_spark._stream.checkpoint import CheckpointError
from purgatory_spark._stream.endpoints.address import AddressOptions, parse_endpoints
from purgatory_spark._stream.progress import BatchProgress
from purgatory_spark._stream.run import StreamPlan, run_stream
from purgatory_spark._stream.state.layout import STATE_VERSION
from purgatory_spark._stream.state.store import ShardStore
from purgatory_spark._stream.stored_state import SHARD_STATE, describe_state
from purgatory_spark.stream import StreamSettings, read_stream_state
from tests.spark.command import command_runner
from tests.spark.stream_files import StreamTrace, expected_outcomes, stream_trace, write_trace
from tests.spark.test_layouts import STORED, resumed

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "stream_state.md"


def pending_stream(spark: SparkSession, folder: Path) -> tuple[StreamTrace, BatchProgress]:
    """Run a stream until its input ends, with pending requests; return its last batch."""
    trace = stream_trace(hosts=3, requests=900, rate=3_000.0)
    write_trace(folder, trace, files=3)
    addresses = [str(folder / name) for name in ("requests", "events", "out")]
    plan = StreamPlan(
        parse_endpoints(*addresses, AddressOptions(files_per_batch=1)),
        folder / "checkpoint",
        settings=StreamSettings(shards=4, watermark_delay_ms=50),
        available_now=True,
    )
    batches: list[BatchProgress] = []
    run_stream(spark, plan, batches.append)
    return trace, batches[-1]


@pytest.mark.slow
def test_state_is_that_of_the_last_batch(
    streaming: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace, last = pending_stream(streaming, tmp_path)
    watermark = datetime.fromisoformat(last.watermark)
    ended = {(row["host"], row["request_id"]): row["ended_at"] for row in expected_outcomes(trace)}
    requests, events = trace.requests.to_pylist(), trace.events.to_pylist()
    pending = [
        row
        for row in requests
        if row["arrived_at"] <= watermark < ended[row["host"], row["request_id"]]
    ]
    deadlines = [row["arrived_at"] + timedelta(milliseconds=row["timeout_ms"]) for row in pending]
    occurred = [row for row in events if row["occurred_at"] <= watermark]
    expected = {
        "pending": len(pending),
        "requests_ahead": sum(row["arrived_at"] > watermark for row in requests),
        "events_ahead": len(events) - len(occurred),
        "remembered_keys": len({(row["host"], row["key"]) for row in occurred}),
    }
    assert min(expected.values()) > 0
    assert last.pending == len(pending)

    zone = streaming.conf.get("spark.sql.session.timeZone")
    streaming.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = read_stream_state(streaming, tmp_path / "checkpoint")
        shards = found.toArrow().to_pylist()
    finally:
        streaming.conf.set("spark.sql.session.timeZone", zone)
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in SHARD_STATE
    ]
    assert {name: sum(shard[name] for shard in shards) for name in expected} == expected
    assert min(shard["oldest_arrived_at"] for shard in shards) == min(
        row["arrived_at"] for row in pending
    )
    assert min(shard["first_deadline_at"] for shard in shards) == min(deadlines)
    assert max(shard["last_deadline_at"] for shard in shards) == max(deadlines)
    for shard in shards:
        assert (shard["batch"], shard["layout"]) == (last.batch, STATE_VERSION)
        assert 0 <= shard["shard"] < 4
        assert shard["due_at"] > watermark
        assert min(shard["bytes"].values()) > 0

    @contextmanager
    def session() -> Iterator[SparkSession]:
        yield streaming

    monkeypatch.setattr("purgatory_spark._cli.session.open_session", session)
    purgatory = command_runner(capsys)
    ran = purgatory("stream-state", tmp_path / "checkpoint", "--json")
    assert ran.code == ExitCode.OK
    printed = json.loads(ran.out)
    assert {name: printed["totals"][name] for name in expected} == expected
    assert printed["shards"][0]["oldest_arrived_at"] == (
        min(shards, key=lambda shard: shard["shard"])["oldest_arrived_at"]
        .astimezone(watermark.tzinfo)
        .strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    )
    assert f"State after batch {last.batch}" in ran.err
    (snippet,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert "/data/low.checkpoint" in snippet
    exec(
        snippet.replace("/data/low.checkpoint", str(tmp_path / "checkpoint")), {"spark": streaming}
    )
    assert f"|{len(pending):12}|" in capsys.readouterr().out
    spaced = shutil.copytree(tmp_path / "checkpoint", tmp_path / "a b")
    ran = purgatory("stream-state", spaced)
    assert (ran.code, "can't open a path with ' '" in ran.err) == (ExitCode.BAD_INPUT, True)


def test_state_of_an_earlier_layout_is_described() -> None:
    for stop in STORED:
        found = describe_state(ShardStore(resumed(stop).blobs))
        assert (found["layout"], found["pending"]) == (2, stop["pending"])
        assert found["due_at"] is None  # this shard was not stepped by Spark


def test_folder_without_the_state_of_a_stream_is_refused(
    streaming: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(CheckpointError, match="purgatory stream: it has no state, or no batch"):
        read_stream_state(streaming, tmp_path)
    (tmp_path / "in").mkdir()
    counts = streaming.readStream.schema("a INT").json(str(tmp_path / "in")).groupBy("a").count()
    (tmp_path / "in" / "one.json").write_text('{"a": 1}')
    query = (
        counts.writeStream.format("noop")
        .outputMode("complete")
        .option("checkpointLocation", str(tmp_path / "other"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)
    with pytest.raises(CheckpointError, match="its state is that of stateStoreSave"):
        read_stream_state(streaming, tmp_path / "other")
