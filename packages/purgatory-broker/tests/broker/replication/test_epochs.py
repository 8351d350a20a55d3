"""Leader epochs: truncation of diverging logs (KIP-101, KIP-279, KIP-595), and elections."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.replication.delayed_fetch import FetchedPartition
from purgatory_broker.replication.fetcher import Fetcher
from purgatory_broker.replication.follower_log import LogBounds, truncation_offset
from tests.broker.log.batches import NOW, batch
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    error,
    fetched_values,
    run_scenario,
)

SESSION_S = 3.0


async def depose(harness: ClusterHarness, *alone: bytes) -> None:
    """Partition the leader, node 0, with records that only it has, until node 1 leads."""
    harness.cluster.partition_node(0)
    for value in alone:
        harness.produce(0, value, acks=1)
    await asyncio.sleep(SESSION_S + 0.1)
    assert harness.leader == 1


def test_partitioned_leader_truncates_its_unreplicated_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.partition_node(0)
        stale = [
            harness.produce(0, b"lost", acks=1),
            harness.produce(0, b"lost too", timeout_ms=60_000),
        ]
        await asyncio.sleep(SESSION_S + 0.1)
        assert (harness.leader, harness.isr, harness.state()["leader_epoch"]) == (1, {1, 2}, 1)
        await harness.produce(1, b"b").get()
        await harness.produce(1, b"c").get()
        assert harness.replica(0).is_leader, "it has not been notified"
        assert (stale[0].done, stale[1].done) == (True, False)
        assert [
            harness.ends()[0],
            fetched_values((await harness.fetch(0, 0).get())[0].records),
        ] == [
            (1, 3),
            [b"a"],
        ]
        harness.cluster.heal_node(0)
        await harness.settle()
        assert error(await stale[1].get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [harness.values(node) for node in range(3)] == [[b"a", b"b", b"c"]] * 3
        assert harness.ends() == dict.fromkeys(range(3), (3, 3))
        assert harness.log(0).epoch_at(0) == 0
        assert harness.log(0).epoch_at(1) == 1

    run_scenario(scenario)


def test_leader_healed_within_its_session_keeps_its_epoch() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(0)
        reply = harness.produce(0, b"a")
        await asyncio.sleep(SESSION_S - 0.1)
        assert not reply.done
        harness.cluster.heal_node(0)
        await harness.settle()
        assert error(await reply.get()) is ErrorCode.NONE
        assert (harness.leader, harness.state()["leader_epoch"], harness.isr) == (0, 0, {0, 1, 2})
        await asyncio.sleep(SESSION_S)
        assert harness.leader == 0

    run_scenario(scenario)


def test_healed_follower_fetches_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(2)
        await asyncio.sleep(1)
        reply = harness.produce(0, b"a")
        await asyncio.sleep(1)
        assert not reply.done
        harness.cluster.heal_node(2)
        await harness.settle()
        assert reply.done

    run_scenario(scenario)


def test_restarted_follower_is_not_truncated_to_its_high_watermark() -> None:
    """KIP-101, scenario 1: that would lose an acknowledged record."""

    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.kill(2)
        await harness.settle()
        reply = harness.produce(0, b"a")
        await harness.settle()
        assert reply.done
        assert harness.ends()[1] == (0, 1), (
            "it has the record, and does not know the high watermark"
        )
        harness.cluster.kill(1)
        await harness.cluster.restart(1)
        await harness.settle()
        assert harness.log(1).end_offset == 1
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.kill(0)
        await harness.settle()
        assert (harness.leader, harness.values(1)) == (1, [b"a"])

    run_scenario(scenario)


def test_logs_that_diverged_twice_are_truncated_to_the_common_prefix() -> None:
    """KIP-279: each of the two logs has an epoch that the other does not have."""

    async def scenario(harness: ClusterHarness) -> None:
        for value in (b"a", b"b"):
            await harness.produce(0, value).get()
        await asyncio.sleep(1)
        # Only node 0 has 2 records of epoch 0, only node 1 has 3 of epoch 1; none is replicated.
        harness.cluster.partition_node(0)
        for value in (b"x0", b"x1"):
            harness.produce(0, value, acks=1)
        await asyncio.sleep(SESSION_S + 0.1)
        assert harness.leader == 1
        harness.cluster.partition_node(1)
        for value in (b"y0", b"y1", b"y2"):
            harness.produce(1, value, acks=1)
        await asyncio.sleep(SESSION_S + 0.1)
        assert (harness.leader, harness.values(2)) == (2, [b"a", b"b"])
        harness.produce(2, b"c", acks=1)
        harness.cluster.heal_node(0)
        harness.cluster.heal_node(1)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [harness.values(node) for node in range(3)] == [[b"a", b"b", b"c"]] * 3
        epochs = [
            [header.leader_epoch for header, _ in harness.log(node).batches()] for node in range(3)
        ]
        assert epochs == [[0, 0, 2]] * 3

    run_scenario(scenario)


def test_empty_epoch_is_truncated() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.move_leader("orders", 0, 1)
        await asyncio.sleep(1)
        harness.cluster.move_leader("orders", 0, 2)
        await asyncio.sleep(1)
        assert [harness.log(node).latest_epoch for node in range(3)] == [0, 0, 2]
        await harness.produce(2, b"b").get()
        assert [harness.log(node).latest_epoch for node in range(3)] == [2, 2, 2]

    run_scenario(scenario)


def test_truncation_inside_a_batch_removes_the_batch() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await depose(harness, b"x", b"y", b"z")
        harness.produce(1, b"b", b"c", b"d", b"e")
        await harness.settle()
        harness.cluster.heal_node(0)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert harness.values(0) == [b"a", b"b", b"c", b"d", b"e"]

    run_scenario(scenario)


def test_truncation_offset_is_the_end_of_the_common_epoch() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        replica, fetcher = harness.replica(1), harness.node(1).fetchers.by_leader[0]
        harness.cluster.pause_replication(1)
        log = replica.log
        for epoch, count in ((0, 3), (2, 3), (5, 2)):
            for _ in range(count):
                log.append_as_leader(batch(b"v"), epoch, NOW)
        assert (log.end_offset, replica.high_watermark) == (8, 0)
        leaders = {
            (5, 7): 7,
            (5, 9): 8,
            (2, 4): 4,
            (2, 6): 6,
            (2, 7): 6,
            (3, 5): 5,
            (4, 9): 6,
            (1, 3): 3,
            (1, 4): 3,
            (0, 2): 2,
        }
        assert {leader: truncation_offset(replica, *leader) for leader in leaders} == leaders
        with harness.node(1).actions:
            fetcher._process_partition(replica, FetchedPartition(KEY, diverging=(4, 9)))
        assert (log.end_offset, log.latest_epoch, replica.high_watermark) == (6, 2, 0)
        harness.cluster.resume_replication(1)
        await asyncio.sleep(1)
        assert log.end_offset == 0

    run_scenario(scenario)


@pytest.mark.parametrize("alone", [1, 2, 3])
def test_log_that_diverges_before_the_leaders_start_is_emptied(alone: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(1)
        await depose(harness, *[b"x"] * alone)
        await harness.produce(1, b"b", b"c", b"d", b"e").get()
        await asyncio.sleep(1)
        assert error(await harness.delete(1, 3).get()) is ErrorCode.NONE
        harness.cluster.heal_node(0)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await asyncio.sleep(1)
        assert [harness.values(node) for node in range(3)] == [[b"d", b"e"]] * 3
        assert harness.ends() == dict.fromkeys(range(3), (5, 5))

    run_scenario(scenario)


def test_fetch_response_of_an_earlier_epoch_is_ignored() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.set_latency(2, 200)
        await asyncio.sleep(1)
        harness.produce(0, b"a", acks=1)
        await asyncio.sleep(0.1)
        harness.cluster.set_latency(2, 0)
        fetcher = harness.node(2).fetchers.by_leader[0]
        target = fetcher._fetch_target(KEY)
        await depose(harness)
        harness.produce(1, b"b")
        await harness.settle()
        values = harness.values(2)
        await process_late(fetcher, target)
        assert harness.values(2) == values
        harness.cluster.heal_node(0)
        await asyncio.sleep(2)

    async def process_late(fetcher: Fetcher, target: object) -> None:
        late = FetchedPartition(KEY, high_watermark=1, log_start_offset=0, records=batch(b"late"))
        fetcher._process_fetch([target], [late])  # type: ignore[list-item]
        fetcher._partitions[KEY] = 0
        fetcher._process_fetch([target], [late])  # type: ignore[list-item]
        del fetcher._partitions[KEY]

    run_scenario(scenario)


def test_fetch_response_for_a_changed_log_is_ignored() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(1)
        fetcher = harness.node(1).fetchers.by_leader[0]
        target = fetcher._fetch_target(KEY)
        assert fetcher._unchanged_replica(target) is harness.replica(1)
        assert fetcher._unchanged_replica(target._replace(offset=0)) is None
        assert fetcher._unchanged_replica(target._replace(last_fetched_epoch=3)) is None
        assert fetcher._unchanged_replica(target._replace(current_leader_epoch=3)) is None
        assert fetcher._unchanged_replica(target._replace(topic_id=None)) is None

    run_scenario(scenario)


# -- offsets that the leader does not have


def test_follower_behind_the_leaders_start_restarts_its_log() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.kill(2)
        await harness.settle()
        for value in (b"b", b"c", b"d"):
            await harness.produce(0, value).get()
        await asyncio.sleep(0.6)
        assert error(await harness.delete(0, 3).get()) is ErrorCode.NONE
        await harness.cluster.restart(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})
        assert (harness.log(2).log_start_offset, harness.values(2)) == (3, [b"d"])
        await asyncio.sleep(1)
        assert harness.ends()[2] == (4, 4)

    run_scenario(scenario)


def test_follower_ahead_without_epochs_is_truncated_to_the_leaders_end() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        replica = harness.replica(1)
        fetcher = harness.node(1).fetchers.by_leader[0]
        replica.log.truncate_fully_and_start_at(7)
        replica.high_watermark = 7
        fetcher.restart()
        await asyncio.sleep(0.6)
        assert (replica.log.log_start_offset, replica.log.end_offset) == (0, 0)
        await harness.produce(0, b"a").get()
        assert harness.values(1) == [b"a"]

    run_scenario(scenario)


def test_log_bounds_are_requested_over_the_network() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        replica = harness.replica(1)
        harness.cluster.set_latency(1, 100)
        replica.log.truncate_fully_and_start_at(7)
        replica.high_watermark = 7
        harness.node(1).fetchers.by_leader[0].restart()
        await asyncio.sleep(0.35)
        assert replica.log.end_offset == 7
        harness.cluster.partition_node(1)
        await asyncio.sleep(1)
        assert replica.log.end_offset == 7
        harness.cluster.heal_node(1)
        await asyncio.sleep(0.45)
        assert replica.log.end_offset == 0

    run_scenario(scenario)


def test_offset_back_in_range_is_fetched_after_a_backoff() -> None:
    """The leader's log has grown since its reply; nothing is truncated."""

    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(1)
        fetcher, replica = harness.node(1).fetchers.by_leader[0], harness.replica(1)
        with harness.node(1).actions:
            fetcher._adjust_to_bounds(replica, LogBounds(ErrorCode.NONE, 0, 5))
        assert (replica.log.end_offset, fetcher._partitions[KEY]) == (
            1,
            harness.node(1).now_ms() + 1_000,
        )
        target = fetcher._fetch_target(KEY)
        assert harness.node(0).fetches.log_bounds(target) == LogBounds(ErrorCode.NONE, 0, 1)
        assert harness.node(2).fetches.log_bounds(target).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (
            harness.node(0).fetches.log_bounds(target._replace(current_leader_epoch=9)).error
            is ErrorCode.UNKNOWN_LEADER_EPOCH
        )

    run_scenario(scenario)


def test_failing_partition_does_not_delay_the_others() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=3, replication_factor=3)
        await harness.settle()
        key = next(
            KEY._replace(topic="other", partition=each["partition"])
            for each in harness.cluster.describe_topic("other")
            if each["leader"] == 0
        )
        harness.replica(0, key).leader_epoch += 5
        harness.node(1).fetchers.by_leader[0].restart()
        harness.node(2).fetchers.by_leader[0].restart()
        await harness.settle()
        reply = harness.produce(0, b"a")
        await harness.settle()
        assert reply.done
        harness.replica(0, key).leader_epoch -= 5

    run_scenario(scenario)
