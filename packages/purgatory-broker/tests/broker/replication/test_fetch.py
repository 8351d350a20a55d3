"""Fetch requests: the records that they return, and the events that end their wait."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.log.log import PartitionLog
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication.appends import (
    DelayedProduce,
    ProducedPartition,
)
from purgatory_broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchParams,
    FetchTarget,
)
from purgatory_broker.replication.fetches import Fetches
from purgatory_broker.replication.record_deletions import (
    DelayedDeleteRecords,
    DeletedPartition,
)
from purgatory_broker.replication.replica import Replica
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    error,
    fetched_values,
    run_scenario,
)


def test_followers_read_to_the_logs_end_and_consumers_to_the_high_watermark() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.produce(0, b"a")
        await asyncio.sleep(1)
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        harness.produce(0, b"b")
        consumed = (await harness.fetch(0, 0).get())[0]
        assert (fetched_values(consumed.records), consumed.high_watermark) == ([b"a"], 1)
        followed = (await harness.fetch(0, 1, replica_id=1, epoch=0).get())[0]
        assert (fetched_values(followed.records), followed.high_watermark) == ([b"b"], 1)

    run_scenario(scenario)


def test_append_completes_followers_and_high_watermark_completes_consumers() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        consumer = harness.fetch(0, 0, max_wait_ms=60_000)
        follower = harness.fetch(0, 0, max_wait_ms=60_000, replica_id=2, epoch=0)
        assert (consumer.done, follower.done, harness.purgatory("Fetch")) == (False, False, 2)
        harness.produce(0, b"a")
        assert (consumer.done, follower.done) == (False, True)
        harness.fetch(0, 1, replica_id=2, epoch=0)
        assert not consumer.done
        harness.fetch(0, 1, replica_id=1, epoch=0)
        assert consumer.done
        assert fetched_values((await consumer.get())[0].records) == [b"a"]

    run_scenario(scenario)


def test_fetch_waits_for_min_bytes_over_all_its_partitions() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=1, replication_factor=1)
        await harness.settle()
        other = TopicPartition("other", 0)
        leader = harness.cluster.describe_topic("other")[0]["leader"]
        harness.cluster.move_leader("orders", 0, leader)
        await asyncio.sleep(2)
        await harness.produce(leader, b"a").get()
        size = harness.log(leader).size_bytes
        reply = harness.fetch(leader, 0, keys=(KEY, other), min_bytes=3 * size, max_wait_ms=60_000)
        await harness.produce(leader, b"b", key=other).get()
        assert not reply.done
        await harness.produce(leader, b"c").get()
        assert reply.done
        assert [fetched_values(each.records) for each in await reply.get()] == [
            [b"a", b"c"],
            [b"b"],
        ]

    run_scenario(scenario)


@pytest.mark.parametrize("max_wait_ms", [0, 1, 750, 3_000])
def test_fetch_times_out_with_the_available_records(max_wait_ms: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        reply = harness.fetch(0, 0, min_bytes=10_000, max_wait_ms=max_wait_ms)
        assert fetched_values((await reply.get())[0].records) == [b"a"]
        assert max_wait_ms <= reply.waited_ms <= max_wait_ms + 1

    run_scenario(scenario)


def test_fetch_with_min_bytes_0_does_not_wait() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        assert harness.fetch(0, 0, min_bytes=0, max_wait_ms=5_000).done

    run_scenario(scenario)


def test_max_bytes_limits_all_but_the_first_batch() -> None:
    """A batch larger than the limit could otherwise never be read."""

    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a" * 1_000).get()
        await harness.produce(0, b"b" * 1_000).get()
        assert fetched_values((await harness.fetch(0, 0, max_bytes=1).get())[0].records) == [
            b"a" * 1_000
        ]
        two = await harness.fetch(0, 0, max_bytes=2_500).get()
        assert len(fetched_values(two[0].records)) == 2

    run_scenario(scenario)


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_offset_out_of_range_is_answered_at_once(offset: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.produce(0, b"a", b"b", acks=1)
        reply = harness.fetch(0, offset, max_wait_ms=5_000)
        assert reply.done
        assert error(await reply.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        within = harness.fetch(0, 2, max_wait_ms=100)
        assert (error(await within.get()), within.waited_ms >= 100) == (ErrorCode.NONE, True)

    run_scenario(scenario)


def test_leader_change_ends_the_wait() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        old = harness.fetch(0, 0, max_wait_ms=60_000)
        fenced = harness.fetch(0, 0, max_wait_ms=60_000, epoch=0)
        harness.cluster.move_leader("orders", 0, 2)
        await harness.settle()
        assert (old.done, fenced.done) == (True, True)
        assert error(await old.get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error(await fenced.get()) is ErrorCode.FENCED_LEADER_EPOCH
        assert error(await harness.fetch(2, 0, epoch=7).get()) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert error(await harness.fetch(2, 0, epoch=1, max_wait_ms=1).get()) is ErrorCode.NONE

    run_scenario(scenario)


def test_deleted_topic_ends_the_wait() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        reply = harness.fetch(0, 0, max_wait_ms=60_000)
        harness.cluster.controller.topic_changes.delete("orders")
        await harness.settle()
        assert error(await reply.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert reply.waited_ms <= 1
        await harness.create_topic()

    run_scenario(scenario)


def test_deletion_of_the_awaited_records_ends_the_wait() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a", b"b").get()
        reply = harness.fetch(0, 0, min_bytes=10_000, max_wait_ms=60_000)
        harness.delete(0, 2)
        assert reply.done
        assert error(await reply.get()) is ErrorCode.OFFSET_OUT_OF_RANGE

    run_scenario(scenario)


def test_consumers_may_read_from_followers() -> None:
    """A follower serves records below its high watermark, whose advance notifies (KIP-392)."""

    async def scenario(harness: ClusterHarness) -> None:
        assert error(await harness.fetch(1, 0).get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        reply = harness.fetch(1, 0, leader_only=False, max_wait_ms=60_000)
        await harness.produce(0, b"a").get()
        assert not reply.done
        assert fetched_values((await reply.get())[0].records) == [b"a"]
        assert reply.waited_ms <= 501

    run_scenario(scenario)


def test_diverging_epoch_is_answered_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(1)
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        harness.cluster.pause_replication(2)
        await harness.settle()
        known = harness.replica(1).followers[2].end_offset
        reply = harness.fetch(1, 5, replica_id=2, epoch=1, last_epoch=0, max_wait_ms=60_000)
        assert reply.done
        assert (await reply.get())[0].diverging == (0, 1)
        assert harness.replica(1).followers[2].end_offset == known

    run_scenario(scenario)


def test_fetch_of_a_node_without_a_replica_is_refused() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        reply = harness.fetch(0, 0, replica_id=9, max_wait_ms=60_000)
        assert error(await reply.get()) is ErrorCode.UNKNOWN_LEADER_EPOCH

    run_scenario(scenario)


def test_metrics_count_waiting_and_expired_requests() -> None:
    """Fetches are counted by follower and consumer; rates are means since the start."""

    async def scenario(harness: ClusterHarness) -> None:
        await asyncio.sleep(0.2)
        before = harness.cluster.metrics()[0]
        assert before["Fetch"]["NumDelayedOperations"] == 2
        assert before["Fetch"]["follower.ExpiresPerSec"] == 0
        harness.cluster.pause_replication(2)
        waiting = [
            harness.produce(0, b"a", timeout_ms=3_000),
            harness.produce(0, b"b", timeout_ms=20_000),
        ]
        consumers = [harness.fetch(0, 0, max_wait_ms=900) for _ in range(4)]
        during = harness.cluster.metrics()[0]
        assert (during["Produce"]["PurgatorySize"], during["Produce"]["NumDelayedOperations"]) == (
            2,
            2,
        )
        assert during["Fetch"]["NumDelayedOperations"] == 4
        await asyncio.sleep(10)
        after = harness.cluster.metrics()[0]
        assert (waiting[0].done, waiting[1].done, all(each.done for each in consumers)) == (
            True,
            False,
            True,
        )
        assert (after["Produce"]["Expires"], after["Produce"]["ExpiresPerSec"]) == (
            1,
            pytest.approx(1 / 10.2, rel=0.001),
        )
        assert (after["Fetch"]["consumer.Expires"], after["Fetch"]["consumer.ExpiresPerSec"]) == (
            4,
            pytest.approx(4 / 10.2, rel=0.001),
        )
        assert harness.cluster.metrics()[0] == after, "a reading changes the next one"
        # Node 1 fetches every half second.
        assert 18 <= after["Fetch"]["follower.Expires"] - before["Fetch"]["follower.Expires"] <= 21
        assert (
            after["Fetch"]["Expires"]
            == after["Fetch"]["follower.Expires"] + after["Fetch"]["consumer.Expires"]
        )
        assert after["DeleteRecords"]["PurgatorySize"] == after["Throttle"]["PurgatorySize"] == 0
        harness.cluster.resume_replication(2)
        await harness.settle()
        assert waiting[1].done
        assert harness.cluster.metrics()[0]["Produce"]["NumDelayedOperations"] == 0

    run_scenario(scenario)


def test_offset_before_the_logs_start_does_not_update_the_follower() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        await asyncio.sleep(1)
        await harness.delete(0, 1).get()
        harness.cluster.pause_replication(2)
        known = harness.replica(0).followers[2].end_offset
        reply = harness.fetch(0, 0, replica_id=2, epoch=0)
        assert error(await reply.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert harness.replica(0).followers[2].end_offset == known == 1

    run_scenario(scenario)


def test_operations_end_if_their_replica_is_replaced() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        here = harness.replica(0)
        old = Replica(0, KEY, uuid.uuid4(), here.log, 0)
        node = harness.node(0)
        produced: list[ProducedPartition] = []
        deleted: list[DeletedPartition] = []
        fetched: list[str] = []
        produce = DelayedProduce(
            9,
            [ProducedPartition(KEY, required_offset=0, pending=True, replica=old)],
            node.replicas.find,
            produced.extend,
        )
        delete = DelayedDeleteRecords(
            9,
            [DeletedPartition(KEY, required_offset=0, pending=True, replica=old)],
            node.replicas.find,
            lambda _replica: 0,
            deleted.extend,
        )
        target = FetchTarget(KEY, 0, 100, 0, -1, 0, old.topic_id)
        fetch = DelayedFetch(
            FetchParams(1, 60_000, 1, 100),
            [target],
            node.fetches,
            lambda _fetched: fetched.append("read"),
        )
        for operation in (produce, delete, fetch):
            assert operation.try_complete()
        assert (produced[0].error, deleted[0].error) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) * 2
        assert fetched == ["read"]

    run_scenario(scenario)


def test_equal_fetches_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    read = PartitionLog.read

    def count(log: PartitionLog, offset: int, *arguments: int, **options: bool) -> bytes:
        reads.append(offset)
        return read(log, offset, *arguments, **options)

    async def scenario(harness: ClusterHarness) -> None:
        waiting = [harness.fetch(0, 0, max_wait_ms=60_000) for _ in range(20)]
        other = harness.fetch(0, 0, max_wait_ms=60_000, max_bytes=2**19)
        monkeypatch.setattr(PartitionLog, "read", count)
        harness.produce(0, b"a")
        assert [fetched_values((await each.get())[0].records) for each in waiting] == [[b"a"]] * 20
        assert fetched_values((await other.get())[0].records) == [b"a"]
        assert reads == [0, 0]
        harness.produce(0, b"b")
        assert fetched_values((await harness.fetch(0, 0).get())[0].records) == [b"a", b"b"]

    run_scenario(scenario, nodes=1)


@pytest.mark.parametrize("changed", ["records", "start", "topic"])
def test_fetch_after_a_change_is_read_again(changed: str) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.produce(0, b"a")
        before = (await harness.fetch(0, 0).get())[0]
        assert (fetched_values(before.records), before.log_start_offset) == ([b"a"], 0)
        if changed == "records":
            harness.produce(0, b"b")
        elif changed == "start":
            harness.delete(0, 1)
        else:
            harness.cluster.controller.topic_changes.delete(KEY.topic)
            await harness.create_topic()
        after = (await harness.fetch(0, 0).get())[0]
        expected = {
            "records": (ErrorCode.NONE, [b"a", b"b"]),
            "start": (ErrorCode.OFFSET_OUT_OF_RANGE, []),
            "topic": (ErrorCode.NONE, []),
        }
        assert (after.error, fetched_values(after.records)) == expected[changed]

    run_scenario(scenario, nodes=1)


def test_deletion_of_awaited_records_ends_the_wait_on_followers() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.produce(0, b"a", b"b")
        await asyncio.sleep(1)
        waiting = harness.fetch(1, 1, max_wait_ms=60_000, min_bytes=10_000, leader_only=False)
        assert not waiting.done
        harness.delete(0, 2)
        assert error(await waiting.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert waiting.waited_ms <= 500

    run_scenario(scenario)


def test_idle_followers_stay_in_sync_without_work(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[FetchTarget] = []
    check = Fetches._check_target

    def count(fetches: Fetches, params: FetchParams, target: FetchTarget) -> Any:
        checks.append(target)
        return check(fetches, params, target)

    async def scenario(harness: ClusterHarness) -> None:
        harness.produce(0, b"a")
        await asyncio.sleep(10)
        followers = harness.replica(0).followers.values()
        monkeypatch.setattr(Fetches, "_check_target", count)
        expired = harness.node(0).fetches.expirations.follower
        await asyncio.sleep(60)
        now_ms = harness.node(0).now_ms()
        assert checks == []
        assert harness.node(0).fetches.expirations.follower >= expired + 2 * 110
        assert all(now_ms - each.caught_up_ms <= 600 for each in followers)
        assert harness.isr == {0, 1, 2}
        # What is appended then is replicated as before.
        assert (await harness.produce(0, b"b").get())[0].error is ErrorCode.NONE
        assert checks != []
        await asyncio.sleep(1)
        assert [harness.values(node) for node in range(3)] == [[b"a", b"b"]] * 3

    run_scenario(scenario)
