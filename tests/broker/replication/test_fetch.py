"""Fetches: what is read, by whom, and what ends the wait."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_delete_records import (
    DelayedDeleteRecords,
    DeletedPartition,
)
from request_purgatory.broker.replication.delayed_fetch import (
    DelayedFetch,
    FetchParams,
    FetchTarget,
)
from request_purgatory.broker.replication.delayed_produce import (
    DelayedProduce,
    ProducedPartition,
)
from request_purgatory.broker.replication.replica import Replica
from request_purgatory.broker.replication.replica_metrics import FetchExpirations
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.replication.scene import KEY, Scene, error, fetched_values, play


def test_followers_read_to_the_logs_end_and_consumers_to_the_high_watermark() -> None:
    """A record that not all in-sync replicas have is for followers only."""

    async def scenario(scene: Scene) -> None:
        scene.produce(0, b"a")
        await asyncio.sleep(1)
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        scene.produce(0, b"b")
        consumed = (await scene.fetch(0, 0).get())[0]
        assert (fetched_values(consumed.records), consumed.high_watermark) == ([b"a"], 1)
        followed = (await scene.fetch(0, 1, replica_id=1, epoch=0).get())[0]
        assert (fetched_values(followed.records), followed.high_watermark) == ([b"b"], 1)

    play(scenario)


def test_append_wakes_followers_and_the_high_watermark_wakes_consumers() -> None:
    """Each at its own moment, and without a look in between."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        consumer = scene.fetch(0, 0, max_wait_ms=60_000)
        follower = scene.fetch(0, 0, max_wait_ms=60_000, replica_id=2, epoch=0)
        assert (consumer.done, follower.done, scene.purgatory("Fetch")) == (False, False, 2)
        scene.produce(0, b"a")
        assert (consumer.done, follower.done) == (False, True)
        scene.fetch(0, 1, replica_id=2, epoch=0)
        assert not consumer.done
        scene.fetch(0, 1, replica_id=1, epoch=0)
        assert consumer.done
        assert fetched_values((await consumer.get())[0].records) == [b"a"]

    play(scenario)


def test_fetch_waits_for_min_bytes_over_all_its_partitions() -> None:
    """And for no more."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.create_topic("other", partitions=1, replication_factor=1)
        await scene.settle()
        other = TopicPartition("other", 0)
        leader = scene.cluster.describe("other")[0]["leader"]
        scene.cluster.move_leader("orders", 0, leader)
        await asyncio.sleep(2)
        await scene.produce(leader, b"a").get()
        size = scene.log(leader).size_bytes
        answer = scene.fetch(leader, 0, keys=(KEY, other), min_bytes=3 * size, max_wait_ms=60_000)
        await scene.produce(leader, b"b", key=other).get()
        assert not answer.done
        await scene.produce(leader, b"c").get()
        assert answer.done
        assert [fetched_values(each.records) for each in await answer.get()] == [
            [b"a", b"c"],
            [b"b"],
        ]

    play(scenario)


@pytest.mark.parametrize("max_wait_ms", [0, 1, 750, 3_000])
def test_fetch_is_answered_when_its_time_is_up(max_wait_ms: int) -> None:
    """With what there is, though it is too little; never early."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        answer = scene.fetch(0, 0, min_bytes=10_000, max_wait_ms=max_wait_ms)
        assert fetched_values((await answer.get())[0].records) == [b"a"]
        assert max_wait_ms <= answer.waited_ms <= max_wait_ms + 1

    play(scenario)


def test_fetch_of_min_bytes_0_does_not_wait() -> None:
    """There are 0 bytes already."""

    async def scenario(scene: Scene) -> None:
        assert scene.fetch(0, 0, min_bytes=0, max_wait_ms=5_000).done

    play(scenario)


def test_max_bytes_are_of_all_partitions_but_the_first_batch_is_always_read() -> None:
    """A batch larger than the limit would else never be read."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a" * 1_000).get()
        await scene.produce(0, b"b" * 1_000).get()
        assert fetched_values((await scene.fetch(0, 0, max_bytes=1).get())[0].records) == [
            b"a" * 1_000
        ]
        two = await scene.fetch(0, 0, max_bytes=2_500).get()
        assert len(fetched_values(two[0].records)) == 2

    play(scenario)


@pytest.mark.parametrize("offset", [-1, 3, 100])
def test_offset_outside_of_the_log_is_told_at_once(offset: int) -> None:
    """OFFSET_OUT_OF_RANGE; one between the high watermark and the end is empty, not wrong."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.produce(0, b"a", b"b", acks=1)
        answer = scene.fetch(0, offset, max_wait_ms=5_000)
        assert answer.done
        assert error(await answer.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        within = scene.fetch(0, 2, max_wait_ms=100)
        assert (error(await within.get()), within.waited_ms >= 100) == (ErrorCode.NONE, True)

    play(scenario)


def test_leader_change_ends_the_wait() -> None:
    """NOT_LEADER_OR_FOLLOWER for who goes by the old leader, FENCED_LEADER_EPOCH for who names its epoch."""

    async def scenario(scene: Scene) -> None:
        old = scene.fetch(0, 0, max_wait_ms=60_000)
        fenced = scene.fetch(0, 0, max_wait_ms=60_000, epoch=0)
        scene.cluster.move_leader("orders", 0, 2)
        await scene.settle()
        assert (old.done, fenced.done) == (True, True)
        assert error(await old.get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error(await fenced.get()) is ErrorCode.FENCED_LEADER_EPOCH
        assert error(await scene.fetch(2, 0, epoch=7).get()) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert error(await scene.fetch(2, 0, epoch=1, max_wait_ms=1).get()) is ErrorCode.NONE

    play(scenario)


def test_deleted_topic_ends_the_wait() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION, also where another of that name is made."""

    async def scenario(scene: Scene) -> None:
        answer = scene.fetch(0, 0, max_wait_ms=60_000)
        scene.cluster.controller.delete_topic("orders")
        await scene.settle()
        assert error(await answer.get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.waited_ms <= 1
        await scene.open()

    play(scenario)


def test_deleted_records_end_the_wait_of_who_reads_them() -> None:
    """A fetch whose offset falls before the log's start is told so at once."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a", b"b").get()
        answer = scene.fetch(0, 0, min_bytes=10_000, max_wait_ms=60_000)
        scene.delete(0, 2)
        assert answer.done
        assert error(await answer.get()) is ErrorCode.OFFSET_OUT_OF_RANGE

    play(scenario)


def test_consumers_may_read_from_followers() -> None:
    """Up to what the follower knows to be replicated.

    Its wait ends when that grows (KIP-392), or the records are cut.
    """

    async def scenario(scene: Scene) -> None:
        assert error(await scene.fetch(1, 0).get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer = scene.fetch(1, 0, leader_only=False, max_wait_ms=60_000)
        await scene.produce(0, b"a").get()
        assert not answer.done
        assert fetched_values((await answer.get())[0].records) == [b"a"]
        assert answer.waited_ms <= 501

    play(scenario)


def test_diverging_epoch_is_told_at_once() -> None:
    """The largest epoch that both may have, and where it ends.

    The follower's offset does not count as fetched.
    """

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(1)
        scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        scene.cluster.freeze(2)
        await scene.settle()
        known = scene.replica(1).followers[2].end_offset
        answer = scene.fetch(1, 5, replica_id=2, epoch=1, last_epoch=0, max_wait_ms=60_000)
        assert answer.done
        assert (await answer.get())[0].diverging == (0, 1)
        assert scene.replica(1).followers[2].end_offset == known

    play(scenario)


def test_stranger_is_no_follower() -> None:
    """A node that is no replica of the partition."""

    async def scenario(scene: Scene) -> None:
        answer = scene.fetch(0, 0, replica_id=9, max_wait_ms=60_000)
        assert error(await answer.get()) is ErrorCode.UNKNOWN_LEADER_EPOCH

    play(scenario)


def test_metrics_tell_who_waits_and_who_ran_out_of_time() -> None:
    """By purgatory, followers and consumers apart; rates are of the time between two readings."""

    async def scenario(scene: Scene) -> None:
        await asyncio.sleep(0.2)
        before = scene.cluster.metrics()[0]
        assert before["Fetch"]["NumDelayedOperations"] == 2
        assert before["Fetch"]["follower.ExpiresPerSec"] == 0
        scene.cluster.freeze(2)
        waiting = [
            scene.produce(0, b"a", timeout_ms=3_000),
            scene.produce(0, b"b", timeout_ms=20_000),
        ]
        consumers = [scene.fetch(0, 0, max_wait_ms=900) for _ in range(4)]
        during = scene.cluster.metrics()[0]
        assert (during["Produce"]["PurgatorySize"], during["Produce"]["NumDelayedOperations"]) == (
            2,
            2,
        )
        assert during["Fetch"]["NumDelayedOperations"] == 4
        await asyncio.sleep(10)
        after = scene.cluster.metrics()[0]
        assert (waiting[0].done, waiting[1].done, all(each.done for each in consumers)) == (
            True,
            False,
            True,
        )
        assert (after["Produce"]["Expires"], after["Produce"]["ExpiresPerSec"]) == (
            1,
            pytest.approx(0.1),
        )
        assert (after["Fetch"]["consumer.Expires"], after["Fetch"]["consumer.ExpiresPerSec"]) == (
            4,
            pytest.approx(0.4),
        )
        # Node 1's fetches, each half a second.
        assert 18 <= after["Fetch"]["follower.Expires"] - before["Fetch"]["follower.Expires"] <= 21
        assert (
            after["Fetch"]["Expires"]
            == after["Fetch"]["follower.Expires"] + after["Fetch"]["consumer.Expires"]
        )
        assert after["DeleteRecords"]["PurgatorySize"] == after["Throttle"]["PurgatorySize"] == 0
        scene.cluster.thaw(2)
        await scene.settle()
        assert waiting[1].done
        assert scene.cluster.metrics()[0]["Produce"]["NumDelayedOperations"] == 0

    play(scenario)


def test_offset_before_the_logs_start_is_no_progress_of_a_follower() -> None:
    """It is told so, and has nothing of what it asked for."""

    async def scenario(scene: Scene) -> None:
        await scene.produce(0, b"a").get()
        await asyncio.sleep(1)
        await scene.delete(0, 1).get()
        scene.cluster.freeze(2)
        known = scene.replica(0).followers[2].end_offset
        answer = scene.fetch(0, 0, replica_id=2, epoch=0)
        assert error(await answer.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert scene.replica(0).followers[2].end_offset == known == 1

    play(scenario)


def test_what_waits_for_a_partition_does_not_wait_for_another_of_its_name() -> None:
    """Fetch, Produce and DeleteRecords each know which replica, or which topic, they are about."""

    async def scenario(scene: Scene) -> None:
        here = scene.replica(0)
        old = Replica(0, KEY, uuid.uuid4(), here.log, 0)
        node = scene.node(0)
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
            node.replicas.find,
            lambda: fetched.append("read"),
            FetchExpirations(),
            lambda: 0,
        )
        for operation in (produce, delete, fetch):
            assert operation.try_complete()
        assert (produced[0].error, deleted[0].error) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,) * 2
        assert fetched == ["read"]

    play(scenario)
