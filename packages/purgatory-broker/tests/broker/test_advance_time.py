"""The brokers' time of day, which a test advances."""

from __future__ import annotations

import asyncio
import time

import pytest

from purgatory_broker import Cluster
from request_purgatory.errors import InvalidArgumentError
from tests.broker.conftest import Connect
from tests.broker.raw_requests import fetch, produce
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario

HOUR_MS = 3_600_000


def test_retention_deletes_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"old").get()
        await asyncio.sleep(1)
        retention_ms = 7 * 24 * HOUR_MS
        harness.cluster.advance_time(retention_ms - HOUR_MS)
        assert [harness.log(node).log_start_offset for node in range(3)] == [0, 0, 0]
        harness.cluster.advance_time(2 * HOUR_MS)
        assert [harness.log(node).log_start_offset for node in range(3)] == [1, 1, 1]

    run_scenario(scenario)


def test_timestamps_of_the_broker_are_later(cluster: Cluster, connect: Connect) -> None:
    def append_time_ms() -> int:
        cluster.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
        leader = cluster.describe_topic("t")[0]["leader"]
        client = connect(cluster.bootstrap_servers.split(",")[leader])
        found = produce(client, "t", b"x")
        assert fetch(client, "t", 0).high_watermark == 1
        return int(found.log_append_time_ms)

    began_ms = time.time() * 1_000
    cluster.advance_time(24 * HOUR_MS)
    assert append_time_ms() >= began_ms + 24 * HOUR_MS - 1
    cluster.reset()
    assert append_time_ms() < began_ms + HOUR_MS


@pytest.mark.parametrize("by_ms", [-1, 10**13])
def test_time_goes_neither_back_nor_too_far(cluster: Cluster, by_ms: int) -> None:
    cluster.advance_time(1)
    with pytest.raises(InvalidArgumentError, match="by_ms must be at least 0, and in sum at most"):
        cluster.advance_time(by_ms)
    cluster.advance_time(10**13 - 1)
