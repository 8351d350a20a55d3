"""DeleteRecords: answered when every live replica has let go."""

from __future__ import annotations

import asyncio

import pytest

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.replication.scene import Scene, error, play


async def filled(scene: Scene) -> None:
    """Four records, which all know to be replicated."""
    for value in (b"a", b"b", b"c", b"d"):
        await scene.produce(0, value).get()
    await asyncio.sleep(1)


def test_all_replicas_let_go_before_it_is_answered() -> None:
    """The followers hear of it by their fetches; the answer is the low watermark."""

    async def scenario(scene: Scene) -> None:
        await filled(scene)
        answer = scene.delete(0, 3)
        assert (answer.done, scene.log(0).log_start_offset) == (False, 3)
        deleted = (await answer.get())[0]
        assert (deleted.error, deleted.low_watermark) == (ErrorCode.NONE, 3)
        assert [scene.log(node).log_start_offset for node in range(3)] == [3, 3, 3]
        assert answer.waited_ms <= 1_001, "two fetches"
        again = scene.delete(0, 2)
        assert again.done
        assert (await again.get())[0].low_watermark == 3

    play(scenario)


def test_high_watermark_may_be_named_by_minus_1() -> None:
    """What is beyond it can't be deleted."""

    async def scenario(scene: Scene) -> None:
        await filled(scene)
        scene.cluster.freeze(1)
        scene.produce(0, b"e", acks=1)
        assert error(await scene.delete(0, 5).get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert error(await scene.delete(0, -2).get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        answer = scene.delete(0, -1)
        scene.cluster.thaw(1)
        assert (await answer.get())[0].low_watermark == 4
        await asyncio.sleep(1)
        assert [scene.values(node) for node in range(3)] == [[b"e"]] * 3

    play(scenario)


def test_frozen_follower_lets_it_time_out() -> None:
    """REQUEST_TIMED_OUT when the time is up, and not before.

    The records are gone all the same, there too in the end.
    """

    async def scenario(scene: Scene) -> None:
        await filled(scene)
        scene.cluster.freeze(2)
        answer = scene.delete(0, 2, timeout_ms=4_000)
        assert scene.purgatory("DeleteRecords") == 1
        assert error(await answer.get()) is ErrorCode.REQUEST_TIMED_OUT
        assert 4_000 <= answer.waited_ms <= 4_001
        assert [scene.log(node).log_start_offset for node in range(3)] == [2, 2, 0]
        assert scene.cluster.metrics()[0]["DeleteRecords"]["Expires"] == 1
        scene.cluster.thaw(2)
        await asyncio.sleep(1)
        assert scene.log(2).log_start_offset == 2

    play(scenario)


def test_follower_that_is_dead_is_not_waited_for() -> None:
    """As in Kafka: it lets go when it is back."""

    async def scenario(scene: Scene) -> None:
        await filled(scene)
        scene.cluster.kill(2)
        await scene.settle()
        assert error(await scene.delete(0, 3).get()) is ErrorCode.NONE
        await scene.cluster.restart(2)
        await asyncio.sleep(2)
        assert scene.log(2).log_start_offset == 3

    play(scenario)


def test_follower_that_dies_is_waited_for_no_longer() -> None:
    """Its leaving the in-sync replicas is an event for who waits."""

    async def scenario(scene: Scene) -> None:
        await filled(scene)
        scene.cluster.freeze(2)
        answer = scene.delete(0, 3)
        await asyncio.sleep(2)
        assert not answer.done
        scene.cluster.kill(2)
        await scene.settle()
        assert error(await answer.get()) is ErrorCode.NONE

    play(scenario)


@pytest.mark.parametrize("deleted", [False, True])
def test_leader_or_topic_that_goes_ends_the_wait(deleted: bool) -> None:
    """NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION, at once."""

    async def scenario(scene: Scene) -> None:
        await filled(scene)
        scene.cluster.freeze(2)
        answer = scene.delete(0, 2)
        if deleted:
            scene.cluster.controller.delete_topic("orders")
            await scene.open()
        else:
            scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        assert answer.done
        expected = (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if deleted else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        assert error(await answer.get()) is expected

    play(scenario)


def test_only_a_leader_deletes() -> None:
    """NOT_LEADER_OR_FOLLOWER of a follower, UNKNOWN_TOPIC_OR_PARTITION of what there is not."""

    async def scenario(scene: Scene) -> None:
        assert error(await scene.delete(1, 0).get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        other = TopicPartition("none", 0)
        assert (
            error(await scene.delete(0, 0, key=other).get()) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    play(scenario)


def test_records_that_are_too_old_go_everywhere() -> None:
    """Each replica deletes them by itself, and none beyond the high watermark.

    Followers take the leader's start over.
    """

    async def scenario(scene: Scene) -> None:
        value = b"x" * 600_000
        for _ in range(6):
            await scene.produce(0, value).get()
        await asyncio.sleep(1)
        assert len(scene.values(0)) == 6
        await asyncio.sleep(60)
        starts = {scene.log(node).log_start_offset for node in range(3)}
        assert len(starts) == 1
        assert starts.pop() in (3, 4)
        answer = scene.fetch(0, 0)
        assert error(await answer.get()) is ErrorCode.OFFSET_OUT_OF_RANGE
        await scene.produce(0, b"more").get()
        assert scene.values(1)[-1] == b"more"

    configs = {"retention.bytes": "1500000", "segment.bytes": "1048576"}
    play(scenario, configs=configs, log_retention_check_interval_ms=20_000)
