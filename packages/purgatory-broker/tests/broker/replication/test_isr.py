"""In-sync replicas: followers that leave and join, and what the high watermark waits for."""

from __future__ import annotations

import asyncio

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.partition_leaders import AlterPartitionRequest
from purgatory_broker.replication.replica import FollowerState
from tests.broker.replication.cluster_harness import (
    KEY,
    LAG_MS,
    ClusterHarness,
    error,
    run_scenario,
)


def test_lagging_follower_is_removed_and_unblocks_producers() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a")
        await asyncio.sleep((LAG_MS - 600) / 1_000)
        assert (harness.isr, reply.done) == ({0, 1, 2}, False)
        await asyncio.sleep(LAG_MS * 0.6 / 1_000)
        assert harness.isr == {0, 1}
        assert error(await reply.get()) is ErrorCode.NONE

    run_scenario(scenario)


def test_caught_up_follower_stays_in_sync_without_fetching() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.pause_replication(2)
        await asyncio.sleep(LAG_MS * 3 / 1_000)
        assert harness.isr == {0, 1, 2}

    run_scenario(scenario)


def test_follower_of_a_steady_producer_stays_in_sync() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.set_latency(2, 200)
        for _ in range(LAG_MS * 3 // 50):
            harness.produce(0, b"a", acks=1)
            await asyncio.sleep(0.05)
        assert harness.isr == {0, 1, 2}
        assert harness.log(2).end_offset < harness.log(0).end_offset

    run_scenario(scenario)


def test_caught_up_time_is_that_of_the_previous_fetch() -> None:
    """As in Kafka's ReplicaState, the leader's log end at the previous fetch counts."""
    state = FollowerState(1_000)
    state.update(0, 0, 10, 2_000)
    assert state.caught_up_ms == 1_000
    state.update(9, 0, 20, 3_000)
    assert state.caught_up_ms == 1_000
    state.update(20, 0, 30, 4_000)
    assert state.caught_up_ms == 3_000
    state.update(30, 0, 30, 5_000)
    assert state.caught_up_ms == 5_000
    assert state.is_caught_up(31, 15_000, 10_000)
    assert not state.is_caught_up(31, 15_001, 10_000)
    assert not FollowerState().is_caught_up(0, 0, 10_000)


def test_follower_joins_once_it_has_caught_up() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        for _ in range(20):
            harness.produce(0, b"x" * 1_000)
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.set_latency(2, 50)
        harness.cluster.resume_replication(2)
        await asyncio.sleep(0.06)
        assert harness.isr == {0, 1}
        await harness.until(lambda: harness.isr == {0, 1, 2}, 1_000)
        assert harness.log(2).end_offset == 20

    run_scenario(scenario, replica_fetch_max_bytes=6_000)


def test_high_watermark_waits_for_a_follower_with_a_pending_request() -> None:
    """The controller has added the follower, and the leader does not know yet (KIP-497)."""

    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0, 1})
        # From here on messages to the leader are slow. The follower catches up, and pauses again.
        harness.cluster.set_latency(0, 300)
        harness.cluster.resume_replication(2)
        await harness.until(lambda: harness.isr == {0, 1, 2}, 2_000)
        assert harness.replica(0).isr == [0, 1]
        assert harness.replica(0).pending_isr == [0, 1, 2]
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"b")
        harness.fetch(0, 2, replica_id=1, epoch=0)
        assert not reply.done
        assert harness.ends()[0] == (1, 2)
        # The leader dies before it is notified. The next one has every acknowledged record.
        harness.cluster.kill(0)
        harness.cluster.set_latency(0, 0)
        harness.cluster.resume_replication(2)
        await asyncio.sleep(2)
        assert not reply.done
        assert harness.leader in (1, 2)

    run_scenario(scenario)


def test_alter_partition_of_an_earlier_state_is_refused() -> None:
    """A follower has left and returned since, and the leader may not have waited for it."""

    async def scenario(harness: ClusterHarness) -> None:
        controller = harness.cluster.controller
        partition = controller.partition(KEY)
        assert partition is not None
        topic_id = controller.topics["orders"].topic_id
        request = AlterPartitionRequest(
            KEY, topic_id, 0, partition.leader_epoch, partition.partition_epoch, [0, 1, 2]
        )
        controller.fence_broker(2)
        assert not controller.leaders.alter_partition(
            request._replace(partition_epoch=partition.partition_epoch)
        ), "node 2 is not alive"
        controller.register_broker(2)
        assert not controller.leaders.alter_partition(request), "the partition has changed"
        assert not controller.leaders.alter_partition(
            request._replace(partition_epoch=partition.partition_epoch, leader=1)
        )
        assert not controller.leaders.alter_partition(
            request._replace(partition_epoch=partition.partition_epoch, topic_id=partition.key)
        )
        assert harness.isr == {0, 1}
        assert controller.leaders.alter_partition(
            request._replace(partition_epoch=partition.partition_epoch)
        )
        assert harness.isr == {0, 1, 2}
        await harness.settle()

    run_scenario(scenario)


def test_refused_alter_partition_is_requested_again() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.set_latency(0, 300)
        harness.cluster.resume_replication(2)
        await harness.until(lambda: harness.replica(0).pending_isr == [0, 1, 2], 2_000)
        harness.cluster.kill(2)
        await asyncio.sleep(0.7)
        assert harness.replica(0).pending_isr is None
        assert (harness.isr, harness.replica(0).isr) == ({0, 1}, [0, 1])
        reply = harness.produce(0, b"b")
        await asyncio.sleep(1)
        assert error(await reply.get()) is ErrorCode.NONE
        await harness.cluster.restart(2)
        await harness.until(lambda: harness.isr == {0, 1, 2})

    run_scenario(scenario)


def test_refusal_of_an_earlier_request_keeps_the_pending_one() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        replica, node = harness.replica(0), harness.node(0)
        harness.cluster.kill(2)
        await harness.settle()
        harness.cluster.set_latency(0, 300)
        await harness.cluster.restart(2)
        harness.cluster.pause_replication(2)
        node.replicas.alter_partition(replica, [0, 1, 2])
        await asyncio.sleep(0.1)
        harness.cluster.kill(1)
        await asyncio.sleep(0.35)
        assert (replica.isr, replica.pending_isr) == ([0], None)
        node.replicas.alter_partition(replica, [0, 2])
        await asyncio.sleep(0.25)
        assert replica.pending_isr == [0, 2]
        await asyncio.sleep(0.5)
        assert (replica.isr, replica.pending_isr, harness.isr) == ([0, 2], None, {0, 2})

    run_scenario(scenario)


def test_lost_alter_partition_is_requested_again() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        harness.produce(0, b"a")
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.set_latency(0, 300)
        harness.cluster.resume_replication(2)
        await harness.until(lambda: harness.replica(0).pending_isr == [0, 1, 2], 2_000)
        harness.cluster.partition_node(0)
        await asyncio.sleep(0.1)
        harness.cluster.heal_node(0)
        assert (harness.replica(0).pending_isr, harness.isr) == (None, {0, 1})
        await harness.until(lambda: harness.isr == {0, 1, 2}, 3_000)
        await asyncio.sleep(1)
        assert harness.replica(0).isr == [0, 1, 2]

    run_scenario(scenario)


def test_changed_setting_keeps_the_pending_request() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        replica = harness.replica(0)
        replica.pending_isr = [0, 1, 2]
        harness.cluster.controller.topic_changes.alter_configs(
            "orders", {"min.insync.replicas": "2"}
        )
        await harness.settle()
        assert (replica.pending_isr, replica.min_insync_replicas) == ([0, 1, 2], 2)
        replica.pending_isr = None

    run_scenario(scenario)


def test_high_watermark_waits_for_a_live_caught_up_follower() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.kill(2)
        await harness.settle()
        reply = harness.produce(0, b"a")
        await asyncio.sleep(0.6)
        assert reply.done
        await harness.cluster.restart(2)
        harness.cluster.pause_replication(2)
        await harness.settle()
        harness.fetch(0, 1, replica_id=2, epoch=0)
        replica = harness.replica(0)
        replica.pending_isr, replica.isr = None, [0, 1]
        waiting = harness.produce(0, b"b")
        harness.fetch(0, 2, replica_id=1, epoch=0)
        assert not waiting.done
        harness.fetch(0, 2, replica_id=2, epoch=0)
        assert waiting.done
        harness.cluster.resume_replication(2)
        replica.pending_isr = None
        await harness.until(lambda: harness.isr == {0, 1, 2})
        await asyncio.sleep(1)

    run_scenario(scenario)


def test_follower_joins_only_with_the_start_of_the_leaders_epoch() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.pause_replication(2)
        harness.produce(0, b"b", acks=1)
        await harness.until(lambda: harness.isr == {0, 1})
        harness.cluster.pause_replication(1)
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        replica = harness.replica(1)
        replica.high_watermark = 1
        harness.cluster.pause_replication(0)
        harness.fetch(1, 1, replica_id=2, epoch=1, last_epoch=0)
        epoch_start = replica.log.epoch_start_offset(replica.leader_epoch)
        assert (epoch_start, replica.pending_isr) == (2, None)
        harness.fetch(1, 2, replica_id=2, epoch=1, last_epoch=0)
        assert replica.pending_isr == [0, 1, 2]
        for node in range(3):
            harness.cluster.resume_replication(node)
        await asyncio.sleep(3)
        assert harness.isr == {0, 1, 2}

    run_scenario(scenario)
