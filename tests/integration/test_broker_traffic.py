"""Test that traffic recorded by the broker can be imported and replayed."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from purgatory_broker import Cluster
from purgatory_spark._outcomes.batch import batch_outcomes
from purgatory_spark._outcomes.replay import replay
from purgatory_spark._traces.trace_reader import read_trace
from tests.broker.parity.raw import RawClient
from tests.broker.raw_requests import fetch, produce
from tests.spark.trace_folders import rows_of


def test_replay_of_recorded_traffic_has_the_outcomes_of_the_broker(
    spark: SparkSession, tmp_path: Path
) -> None:
    with Cluster(nodes=2, record=tmp_path / "traffic") as cluster:
        cluster.create_topic("t")
        leader = cluster.describe_topic("t")[0]["leader"]
        client = RawClient(cluster.bootstrap_servers.split(",")[leader])
        for _ in range(20):
            assert produce(client, "t", b"x").error_code == 0
        assert fetch(client, "t", 20, max_wait_ms=30).high_watermark == 20
        cluster.pause_replication(1 - leader)
        assert produce(client, "t", b"late", timeout_ms=30).error_code == 7
        client.close()
        metrics = cluster.metrics()[leader]
    with read_trace(spark, tmp_path / "traffic") as trace:
        assert rows_of(trace.rejects) == []
        columns = ["host", "request_id", "request_type", "outcome"]
        # Rows without a request id are statistics of hosts.
        replayed = rows_of(
            replay(trace.requests, trace.events).where("request_id is not null").select(*columns)
        )
        batch = rows_of(batch_outcomes(trace.requests, trace.events).select(*columns))
    assert sorted(map(str, replayed)) == sorted(map(str, batch))
    counted = Counter((row["request_type"], row["outcome"]) for row in replayed)
    assert (counted["produce", "completed"], counted["produce", "expired"]) == (20, 1)
    assert (metrics["Produce"]["Completions"], metrics["Produce"]["Expires"]) == (20, 1)
    assert counted["fetch.consumer", "expired"] == metrics["Fetch"]["consumer.Expires"] == 1
