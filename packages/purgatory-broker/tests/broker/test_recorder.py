"""Recorded traffic, replayed by the rules of traces."""

from __future__ import annotations

import builtins
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from purgatory_broker import (
    AsyncCluster,
    Cluster,
    ClusterProcess,
    ClusterSettings,
    Recorder,
    RecorderError,
)
from purgatory_broker.replication import recorder as recorder_module
from request_purgatory.errors import InvalidArgumentError, PurgatoryError
from tests.broker.conftest import Connect
from tests.broker.raw_requests import fetch, fetch_fields, produce
from tests.broker.replication.cluster_harness import ClusterHarness
from tests.support.naive_trace import TraceEvent, TraceRequest, outcome
from tests.unit.aio.virtual import run


def recorded(folder: Path, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table, with times in microseconds."""
    rows = pq.read_table(folder / table)
    moment = rows.schema.get_field_index("arrived_at" if table == "requests" else "occurred_at")
    return rows.set_column(moment, "at_us", rows.column(moment).cast("int64")).to_pylist()


def outcomes(folder: Path) -> Counter[tuple[str, str]]:
    """Return the number of requests by type and outcome, by the rules of traces."""
    events: dict[str, list[TraceEvent]] = {}
    for row in recorded(folder, "events"):
        events.setdefault(row["host"], []).append(
            TraceEvent(row["key"], row["at_us"], row["amount"])
        )
    counted: Counter[tuple[str, str]] = Counter()
    names = ("request_id", "timeout_ms", "watch_keys", "aggregate", "threshold", "quantifier")
    for row in recorded(folder, "requests"):
        request = TraceRequest(arrived_us=row["at_us"], **{name: row[name] for name in names})
        counted[row["request_type"], outcome(request, events.get(row["host"], []))[0]] += 1
    return counted


def test_trace_has_the_outcomes_of_the_broker(tmp_path: Path, connect: Connect) -> None:
    folder = tmp_path / "trace"
    with Cluster(nodes=2, record=folder) as cluster:
        cluster.create_topic("t")
        leader = cluster.describe_topic("t")[0]["leader"]
        writer, reader = (connect(cluster.bootstrap_servers.split(",")[leader]) for _ in range(2))
        assert produce(writer, "t", b"one").error_code == 0
        assert produce(writer, "t", b"two").error_code == 0
        assert produce(writer, "t", b"never waits", acks=1).error_code == 0
        reader.start("Fetch", 11, **fetch_fields("t", 3, max_wait_ms=20_000))
        # Answered by what follows it on another connection.
        while cluster.metrics()[leader]["Fetch"]["NumDelayedOperations"] < 2:
            pass
        assert produce(writer, "t", b"three").error_code == 0
        assert reader.read().responses[0].partitions[0].high_watermark == 4
        assert fetch(reader, "t", 4, max_wait_ms=50).high_watermark == 4
        cluster.pause_replication(1 - leader)
        assert produce(writer, "t", b"late", timeout_ms=50).error_code == 7
        metrics = cluster.metrics()[leader]
    counted = outcomes(folder)
    assert (counted["produce", "completed"], counted["produce", "expired"]) == (3, 1)
    assert (counted["fetch.consumer", "completed"], counted["fetch.consumer", "expired"]) == (1, 1)
    assert (metrics["Produce"]["Completions"], metrics["Produce"]["Expires"]) == (3, 1)
    assert metrics["Fetch"]["consumer.Expires"] == 1


def test_committed_fetch_waits_for_the_bytes_that_are_stable(tmp_path: Path) -> None:
    folder = tmp_path / "trace"

    async def main() -> None:
        with Recorder(folder) as recorder:
            await use(recorder)

    async def use(recorder: Recorder) -> None:
        async with AsyncCluster(ClusterSettings(nodes=1), recorder=recorder) as cluster:
            harness = ClusterHarness(cluster)
            await harness.create_topic()
            await harness.begin(0, b"one").get()
            committed = harness.fetch(0, 0, read_committed=True, max_wait_ms=20_000)
            await harness.produce(0, b"two").get()
            assert not committed.done
            await harness.end(0, commit=True).get()
            assert committed.done

    run(main)
    rows = recorded(folder, "requests")
    (fetch_row,) = [row for row in rows if row["request_type"] == "fetch.consumer"]
    assert fetch_row["watch_keys"] == ["orders-0 bytes to last stable offset"]
    amounts = [
        row["amount"]
        for row in recorded(folder, "events")
        if row["key"] == "orders-0 bytes to last stable offset"
    ]
    written = [
        row["amount"]
        for row in recorded(folder, "events")
        if row["key"] == "orders-0 bytes to high watermark"
    ]
    assert amounts == [sum(written)]
    assert len(written) == 3


def test_joins_wait_for_their_responses(tmp_path: Path, connect: Connect) -> None:
    folder = tmp_path / "trace"
    with Cluster(record=folder) as cluster:
        client = connect(cluster.bootstrap_servers)
        fields = {
            "session_timeout_ms": 6_000,
            "rebalance_timeout_ms": 9_000,
            "member_id": "",
            "protocol_type": "consumer",
        }
        found = client.call("FindCoordinator", 2, key="g", key_type=0)
        for _ in range(1_000):
            if found.error_code == 0:
                break
            found = client.call("FindCoordinator", 2, key="g", key_type=0)
        joined = client.call(
            "JoinGroup", 3, group_id="g", protocols=[{"name": "range", "metadata": b""}], **fields
        )
        for _ in range(1_000):
            if joined.error_code == 0:
                break
            joined = client.call(
                "JoinGroup",
                3,
                group_id="g",
                protocols=[{"name": "range", "metadata": b""}],
                **fields,
            )
        assert joined.error_code == 0
    counted = outcomes(folder)
    assert counted["JoinGroup", "expired"] == 0
    assert counted["JoinGroup", "completed"] >= 1
    assert {
        row["timeout_ms"]
        for row in recorded(folder, "requests")
        if row["request_type"] == "JoinGroup"
    } == {9_000}


def test_request_of_a_closed_connection_has_no_response(tmp_path: Path, connect: Connect) -> None:
    folder = tmp_path / "trace"
    with Cluster(nodes=2, record=folder) as cluster:
        cluster.create_topic("t")
        leader = cluster.describe_topic("t")[0]["leader"]
        address = cluster.bootstrap_servers.split(",")[leader]
        client = connect(address)
        assert produce(client, "t", b"one").error_code == 0
        cluster.pause_replication(1 - leader)
        partitions = [{"partition_index": 0, "offset": 1}]
        topics = [{"name": "t", "partitions": partitions}]
        client.start("DeleteRecords", 1, topics=topics, timeout_ms=200)
        while cluster.metrics()[leader]["DeleteRecords"]["NumDelayedOperations"] < 1:
            pass
        client.close()
        while cluster.metrics()[leader]["DeleteRecords"]["Expires"] < 1:
            pass
        others = [connect(address) for _ in range(50)]
        for other in others:
            other.start("Fetch", 11, **fetch_fields("t", 1, max_wait_ms=200))
        for other in others:
            other.read()
    kinds = [row["request_type"] for row in recorded(folder, "requests")]
    assert kinds.count("DeleteRecords") == 1
    keys = [row["key"] for row in recorded(folder, "events")]
    assert [key for key in keys if key.startswith("answer")] == []


def test_folder_with_content_is_refused(tmp_path: Path) -> None:
    (tmp_path / "requests").mkdir()
    with pytest.raises(InvalidArgumentError, match="record must be an empty or absent folder"):
        Recorder(tmp_path)


def test_missing_pyarrow_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = builtins.__import__

    def without(name: str, *arguments: Any, **options: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return usual(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(RecorderError, match=r"needs pyarrow: pip install pyarrow$"):
        Recorder(tmp_path / "trace")


def test_trace_without_rows_has_both_tables(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "trace")
    recorder.close()
    assert recorded(tmp_path / "trace", "requests") == recorded(tmp_path / "trace", "events") == []


@pytest.mark.parametrize("kind", [Cluster, ClusterProcess], ids=["thread", "process"])
def test_end_of_the_cluster_raises_that_the_trace_is_incomplete(
    tmp_path: Path, kind: type[Cluster] | type[ClusterProcess]
) -> None:
    cluster = kind(record=tmp_path / "trace").start()
    shutil.rmtree(tmp_path / "trace")
    with pytest.raises(PurgatoryError, match=r"trace is incomplete: .*requests"):
        cluster.close()
    cluster.close()


def test_trace_that_cannot_be_written_harms_no_request(
    tmp_path: Path,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(recorder_module, "ROWS_PER_FILE", 10)
    cluster = Cluster(nodes=3, record=tmp_path / "trace", min_insync_replicas=3).start()
    cluster.create_topic("t")
    leader = cluster.describe_topic("t")[0]["leader"]
    client = connect(cluster.bootstrap_servers.split(",")[leader])
    shutil.rmtree(tmp_path / "trace")
    for _ in range(30):
        assert produce(client, "t", b"x").error_code == 0
    with pytest.raises(RecorderError, match=r"trace in .* is incomplete"):
        cluster.close()
    logged = [each.message for each in caplog.records if each.levelname == "ERROR"]
    assert len(logged) == 1
    assert "can't be written, and ends here" in logged[0]


def test_error_of_a_block_has_a_note_on_the_incomplete_trace(tmp_path: Path) -> None:
    def run() -> None:
        with Recorder(tmp_path / "trace"):
            shutil.rmtree(tmp_path / "trace")
            raise LookupError("of the block")

    with pytest.raises(LookupError) as raised:
        run()
    (note,) = raised.value.__notes__
    assert "is incomplete" in note
