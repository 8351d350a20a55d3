"""Produce requests: when each is answered, and with what."""

from __future__ import annotations

import asyncio

import pytest

from request_purgatory.broker.metadata.topics import TopicPartition
from request_purgatory.broker.replication.delayed_produce import (
    DelayedProduce,
    ProducedPartition,
)
from request_purgatory.broker.wire.error_code import ErrorCode
from tests.broker.log.batches import batch
from tests.broker.replication.scene import ALL, KEY, LAG_MS, Scene, error, play

OTHER = TopicPartition("orders", 1)


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_of_0_and_1_are_answered_by_the_leaders_append(acks: int) -> None:
    """Even with followers that fetch nothing."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a", b"b", acks=acks)
        assert answer.done
        produced = (await answer.get())[0]
        assert (produced.error, produced.base_offset, produced.log_start_offset) == (
            ErrorCode.NONE,
            0,
            0,
        )
        assert scene.ends() == {0: (0, 2), 1: (0, 0), 2: (0, 0)}

    play(scenario)


def test_acks_all_is_answered_once_every_in_sync_replica_has_it() -> None:
    """Not by the append, and without waiting for the high watermark to reach the followers."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a")
        await asyncio.sleep(5)
        assert not answer.done
        assert scene.ends() == {0: (0, 1), 1: (0, 1), 2: (0, 0)}
        assert scene.purgatory("Produce") == 1
        scene.cluster.thaw(2)
        await scene.settle()
        assert error(await answer.get()) is ErrorCode.NONE
        assert scene.ends() == {0: (1, 1), 1: (0, 1), 2: (0, 1)}
        await asyncio.sleep(0.6)
        assert scene.ends() == {0: (1, 1), 1: (1, 1), 2: (1, 1)}

    play(scenario)


def test_acks_all_takes_no_longer_than_the_links() -> None:
    """A follower's fetch is parked at the leader.

    The records go there, and the next fetch comes back.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.lag(2, 40)
        await asyncio.sleep(1)
        answer = scene.produce(0, b"a")
        await answer.get()
        assert answer.waited_ms == 80

    play(scenario)


def test_order_of_answers_is_the_order_of_offsets() -> None:
    """Many that wait for one partition are answered by one fetch, the first first."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        offsets: list[int] = []
        for number in range(2_500):
            with scene.node(0).actions:
                scene.node(0).replicas.append(
                    ALL,
                    30_000,
                    [(KEY, batch(b"%d" % number))],
                    lambda produced: offsets.append(produced[0].base_offset),
                )
        await asyncio.sleep(2)
        assert offsets == []
        scene.cluster.thaw(1)
        await asyncio.sleep(1)
        assert offsets == list(range(2_500))

    play(scenario)


def test_request_of_several_partitions_waits_for_all_of_them() -> None:
    """What is refused does not wait; what is there at once does not answer for the rest."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.create_topic("other", partitions=1, replication_factor=1)
        await scene.settle()
        other = TopicPartition("other", 0)
        leader = scene.cluster.describe("other")[0]["leader"]
        scene.cluster.move_leader("orders", 0, leader)
        await asyncio.sleep(2)
        scene.cluster.freeze((leader + 1) % 3)
        records = [
            (KEY, batch(b"a")),
            (other, batch(b"b")),
            (OTHER, batch(b"c")),
            (KEY._replace(topic="none"), batch(b"d")),
        ]
        answer = scene.produce_to(leader, records)  # type: ignore[arg-type]
        await asyncio.sleep(2)
        assert not answer.done
        scene.cluster.thaw((leader + 1) % 3)
        errors = [each.error for each in await answer.get()]
        assert errors == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
        ]

    play(scenario)


def test_time_runs_out() -> None:
    """REQUEST_TIMED_OUT, never early; the record stays, and is replicated later."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        answer = scene.produce(0, b"a", timeout_ms=1_500)
        assert error(await answer.get()) is ErrorCode.REQUEST_TIMED_OUT
        assert 1_500 <= answer.waited_ms <= 1_501
        scene.cluster.thaw(1)
        await asyncio.sleep(3)
        assert scene.ends() == dict.fromkeys(range(3), (1, 1))
        assert answer.count == 1

    play(scenario)


def test_too_few_in_sync_replicas_refuse_acks_all() -> None:
    """NOT_ENOUGH_REPLICAS before anything is appended.

    Acks=1 is taken, and the high watermark stands (KIP-966).
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.kill(1)
        scene.cluster.kill(2)
        await scene.settle()
        refused = (await scene.produce(0, b"a").get())[0]
        assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS
        assert refused.message is not None
        assert "insufficient to satisfy the min.isr requirement of 2" in refused.message
        assert scene.log(0).end_offset == 0
        assert error(await scene.produce(0, b"b", acks=1).get()) is ErrorCode.NONE
        await asyncio.sleep(5)
        assert scene.ends()[0] == (0, 1)
        await scene.cluster.restart(1)
        await scene.until(lambda: scene.isr == {0, 1})
        await asyncio.sleep(1)
        assert scene.ends() == {0: (1, 1), 1: (1, 1)}
        assert error(await scene.produce(0, b"c").get()) is ErrorCode.NONE

    play(scenario, min_insync_replicas=2)


def test_too_few_replicas_after_the_append_time_out() -> None:
    """The in-sync replicas fall below the minimum while it waits.

    The high watermark stands still, as in Kafka since KIP-966.
    """

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a", timeout_ms=40_000)
        await asyncio.sleep(LAG_MS * 1.6 / 1_000)
        assert scene.isr == {0}
        assert error(await answer.get()) is ErrorCode.REQUEST_TIMED_OUT
        assert scene.ends()[0] == (0, 1)

    play(scenario, min_insync_replicas=2)


def test_not_enough_replicas_after_append() -> None:
    """The high watermark has been reached, and before that was looked at the in-sync replicas became too few."""

    async def scenario(scene: Scene) -> None:
        answers: list[list[ProducedPartition]] = []
        scene.cluster.freeze(1)
        scene.produce(0, b"a", acks=1)
        replica = scene.replica(0)
        produced = ProducedPartition(KEY, required_offset=1, pending=True, replica=replica)
        operation = DelayedProduce(5_000, [produced], scene.node(0).replicas.find, answers.append)
        replica.isr = [0]
        replica.high_watermark = 1
        scene.node(0).purgatories["Produce"].try_complete_else_watch(operation, [KEY])
        assert [each[0].error for each in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
        replica.isr = [0, 1, 2]
        replica.high_watermark = 0

    play(scenario, min_insync_replicas=2)


def test_a_follower_that_was_asked_for_counts_towards_the_minimum() -> None:
    """As in Kafka, where a request that waits goes by the maximal in-sync replicas, and one that comes by those granted."""

    async def scenario(scene: Scene) -> None:
        replica = scene.replica(0)
        replica.isr = [0]
        assert (replica.has_enough_replicas, replica.may_have_enough_replicas) == (False, False)
        replica.wished_isr = [0, 1]
        assert (replica.has_enough_replicas, replica.may_have_enough_replicas) == (False, True)
        replica.isr, replica.wished_isr = [0, 1, 2], None

    play(scenario, min_insync_replicas=2)


def test_leader_that_is_moved_answers_what_waits() -> None:
    """NOT_LEADER_OR_FOLLOWER at once, not after the timeout."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a")
        await scene.settle()
        scene.cluster.move_leader("orders", 0, 1)
        await scene.settle()
        assert answer.done
        assert error(await answer.get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert error(await scene.produce(0, b"b", acks=1).get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(scenario)


def test_topic_that_is_deleted_answers_what_waits() -> None:
    """UNKNOWN_TOPIC_OR_PARTITION, even where a topic of the same name is made at once."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        answers = [scene.produce(0, b"a") for _ in range(3)]
        scene.cluster.controller.delete_topic("orders")
        await scene.open()
        assert [error(await answer.get()) for answer in answers] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ] * 3
        assert scene.ends() == dict.fromkeys(range(3), (0, 0))

    play(scenario)


def test_killed_node_answers_nobody() -> None:
    """Its clients see their connections end; nothing is left of the requests."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(2)
        answer = scene.produce(0, b"a")
        scene.cluster.kill(0)
        await asyncio.sleep(60)
        assert answer.count == 0

    play(scenario)


def test_duplicate_waits_for_the_batch_that_it_repeats() -> None:
    """An idempotent producer's batch that is sent again is answered with the first one's offset, once that is replicated."""

    async def scenario(scene: Scene) -> None:
        scene.cluster.freeze(1)
        first = scene.produce(0, b"a", producer=(7, 0, 0), timeout_ms=100)
        await asyncio.sleep(1)
        again = scene.produce(0, b"a", producer=(7, 0, 0))
        assert error(await first.get()) is ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(1)
        assert not again.done
        scene.cluster.thaw(1)
        produced = (await again.get())[0]
        assert (produced.error, produced.base_offset, scene.log(0).end_offset) == (
            ErrorCode.NONE,
            0,
            1,
        )

    play(scenario)


def test_single_replica_is_enough_for_itself() -> None:
    """The high watermark moves with the append."""

    async def scenario(scene: Scene) -> None:
        answer = scene.produce(0, b"a")
        assert answer.done
        assert scene.ends() == {0: (1, 1)}

    play(scenario, nodes=1)
