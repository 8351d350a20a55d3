"""Which replica becomes the leader of a partition, in sync or not."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import NO_LEADER, ControllerError
from tests.broker.replication.cluster_harness import (
    LAG_MS,
    ClusterHarness,
    error,
    run_scenario,
)


def test_partition_waits_for_its_last_in_sync_replica() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0})
        assert reply.done
        harness.cluster.kill(0)
        harness.cluster.resume_replication(1)
        harness.cluster.resume_replication(2)
        await asyncio.sleep(5)
        assert (harness.leader, harness.isr) == (NO_LEADER, {0})
        assert error(await harness.produce(1, b"b").get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await harness.cluster.restart(0)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert [harness.values(node) for node in range(3)] == [[b"a"]] * 3

    run_scenario(scenario)


def test_unclean_election_loses_unreplicated_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        harness.produce(0, b"lost")
        await harness.until(lambda: harness.isr == {0})
        assert harness.ends()[0] == (2, 2)
        harness.cluster.kill(0)
        await harness.settle()
        assert (harness.leader, harness.isr) == (1, {1})
        harness.cluster.resume_replication(2)
        await harness.until(lambda: harness.isr == {1, 2})
        await harness.produce(1, b"b").get()
        await harness.cluster.restart(0)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [harness.values(node) for node in range(3)] == [[b"a", b"b"]] * 3
        assert harness.ends() == dict.fromkeys(range(3), (2, 2))

    run_scenario(scenario, unclean_leader_election_enable=True)


def test_enabling_unclean_elections_elects_a_leader_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0})
        harness.cluster.kill(0)
        await harness.settle()
        assert harness.leader == NO_LEADER
        harness.cluster.controller.topic_changes.alter_configs(
            "orders", {"unclean.leader.election.enable": "true"}
        )
        await harness.settle()
        assert harness.leader == 1
        assert error(await harness.produce(1, b"b").get()) is ErrorCode.NONE

    run_scenario(scenario)


def test_leader_moves_to_in_sync_replicas_only() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        harness.cluster.pause_replication(1)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0})
        with pytest.raises(
            ControllerError,
            match=r"node 1 can.t lead orders-0: the live in-sync replicas are \[0\]",
        ):
            harness.cluster.move_leader("orders", 0, 1)
        harness.cluster.resume_replication(1)
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.pause_replication(1)
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        reply = harness.produce(1, b"b")
        await harness.settle()
        assert reply.done
        assert harness.values(0) == [b"a", b"b"]
        harness.cluster.move_leader("orders", 0, 0)
        await harness.settle()
        waits = harness.produce(0, b"c", timeout_ms=LAG_MS // 2)
        assert error(await waits.get()) is ErrorCode.REQUEST_TIMED_OUT

    run_scenario(scenario)
