"""DeleteRecords requests: they wait until every live replica has deleted the records."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from tests.broker.replication.cluster_harness import ClusterHarness, error, run_scenario


async def produce_four(harness: ClusterHarness) -> None:
    """Produce four records, and wait until all replicas know their high watermark."""
    for value in (b"a", b"b", b"c", b"d"):
        await harness.produce(0, value).get()
    await asyncio.sleep(1)


def test_request_waits_until_all_replicas_have_deleted() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await produce_four(harness)
        reply = harness.delete(0, 3)
        assert (reply.done, harness.log(0).log_start_offset) == (False, 3)
        deleted = (await reply.get())[0]
        assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 3)
        assert [harness.log(node).log_start_offset for node in range(3)] == [3, 3, 3]
        assert reply.waited_ms <= 1_001, "two fetches"
        again = harness.delete(0, 2)
        assert again.done
        assert (await again.get())[0].low_watermark == 3

    run_scenario(scenario)


def test_offset_minus_1_is_the_high_watermark() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await produce_four(harness)
        harness.cluster.pause_replication(1)
        harness.produce(0, b"e", acks=1)
        assert error(await harness.delete(0, 5).get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert error(await harness.delete(0, -2).get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        reply = harness.delete(0, -1)
        harness.cluster.resume_replication(1)
        assert (await reply.get())[0].low_watermark == 4
        await asyncio.sleep(1)
        assert [harness.values(node) for node in range(3)] == [[b"e"]] * 3

    run_scenario(scenario)


def test_request_times_out_while_a_follower_is_paused() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await produce_four(harness)
        harness.cluster.pause_replication(2)
        reply = harness.delete(0, 2, timeout_ms=4_000)
        assert harness.purgatory("DeleteRecords") == 1
        assert error(await reply.get()) is ErrorCode.REQUEST_TIMED_OUT
        assert 4_000 <= reply.waited_ms <= 4_001
        assert [harness.log(node).log_start_offset for node in range(3)] == [2, 2, 0]
        assert harness.cluster.metrics()[0]["DeleteRecords"]["Expires"] == 1
        harness.cluster.resume_replication(2)
        await asyncio.sleep(1)
        assert harness.log(2).log_start_offset == 2

    run_scenario(scenario)


def test_request_does_not_wait_for_a_dead_follower() -> None:
    """As in Kafka, the follower deletes the records after its restart."""

    async def scenario(harness: ClusterHarness) -> None:
        await produce_four(harness)
        harness.cluster.kill(2)
        await harness.settle()
        assert error(await harness.delete(0, 3).get()) is ErrorCode.NONE
        await harness.cluster.restart(2)
        await asyncio.sleep(2)
        assert harness.log(2).log_start_offset == 3

    run_scenario(scenario)


def test_death_of_a_follower_completes_the_request() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await produce_four(harness)
        harness.cluster.pause_replication(2)
        reply = harness.delete(0, 3)
        await asyncio.sleep(2)
        assert not reply.done
        harness.cluster.kill(2)
        await harness.settle()
        assert error(await reply.get()) is ErrorCode.NONE

    run_scenario(scenario)


@pytest.mark.parametrize("deleted", [False, True])
def test_new_leader_or_deleted_topic_ends_the_wait(deleted: bool) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await produce_four(harness)
        harness.cluster.pause_replication(2)
        reply = harness.delete(0, 2)
        if deleted:
            harness.cluster.controller.topic_changes.delete("orders")
            await harness.create_topic()
        else:
            harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        assert reply.done
        expected = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert error(await reply.get()) is expected

    run_scenario(scenario)


def test_only_the_leader_accepts_the_request() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        assert error(await harness.delete(1, 0).get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        other = TopicPartition("none", 0)
        assert (
            error(await harness.delete(0, 0, key=other).get())
            is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    run_scenario(scenario)


def test_retention_deletes_old_segments_on_every_replica() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        value = b"x" * 600_000
        for _ in range(6):
            await harness.produce(0, value).get()
        await asyncio.sleep(1)
        assert len(harness.values(0)) == 6
        await asyncio.sleep(60)
        starts = {harness.log(node).log_start_offset for node in range(3)}
        assert len(starts) == 1
        assert starts.pop() in (3, 4)
        reply = harness.fetch(0, 0)
        assert error(await reply.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        await harness.produce(0, b"more").get()
        assert harness.values(1)[-1] == b"more"

    configs = {"retention.bytes": "1500000", "segment.bytes": "1048576"}
    run_scenario(scenario, configs=configs, log_retention_check_interval_ms=20_000)
