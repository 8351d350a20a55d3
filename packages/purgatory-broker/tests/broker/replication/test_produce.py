"""Produce requests: when they are answered, and how."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import TopicPartition
from purgatory_broker.replication import appends
from purgatory_broker.replication.appends import (
    DelayedProduce,
    ProducedPartition,
)
from tests.broker.log.batches import NOW, batch
from tests.broker.replication.cluster_harness import (
    ALL,
    KEY,
    LAG_MS,
    ClusterHarness,
    error,
    run_scenario,
)

OTHER = TopicPartition("orders", 1)


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_0_and_1_are_answered_after_the_leaders_append(acks: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a", b"b", acks=acks)
        assert reply.done
        produced = (await reply.get())[0]
        assert (produced.error, produced.base_offset, produced.log_start_offset) == (
            ErrorCode.NONE,
            0,
            0,
        )
        assert harness.ends() == {0: (0, 2), 1: (0, 0), 2: (0, 0)}

    run_scenario(scenario)


def test_acks_all_is_answered_once_every_in_sync_replica_has_the_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a")
        await asyncio.sleep(5)
        assert not reply.done
        assert harness.ends() == {0: (0, 1), 1: (0, 1), 2: (0, 0)}
        assert harness.purgatory("Produce") == 1
        harness.cluster.resume_replication(2)
        await harness.settle()
        assert error(await reply.get()) is ErrorCode.NONE
        assert harness.ends() == {0: (1, 1), 1: (0, 1), 2: (0, 1)}
        await asyncio.sleep(0.6)
        assert harness.ends() == {0: (1, 1), 1: (1, 1), 2: (1, 1)}

    run_scenario(scenario)


def test_acks_all_takes_one_round_trip() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.set_latency(2, 40)
        await asyncio.sleep(1)
        reply = harness.produce(0, b"a")
        await reply.get()
        assert reply.waited_ms == 80

    run_scenario(scenario)


def test_replies_are_in_the_order_of_offsets() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        offsets: list[int] = []
        for number in range(2_500):
            with harness.node(0).actions:
                harness.node(0).appends.append(
                    ALL,
                    30_000,
                    [(KEY, batch(b"%d" % number))],
                    lambda produced: offsets.append(produced[0].base_offset),
                )
        await asyncio.sleep(2)
        assert offsets == []
        harness.cluster.resume_replication(1)
        await asyncio.sleep(1)
        assert offsets == list(range(2_500))

    run_scenario(scenario)


def test_request_waits_for_all_its_partitions() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("other", partitions=1, replication_factor=1)
        await harness.settle()
        other = TopicPartition("other", 0)
        leader = harness.cluster.describe_topic("other")[0]["leader"]
        harness.cluster.move_leader("orders", 0, leader)
        await asyncio.sleep(2)
        harness.cluster.pause_replication((leader + 1) % 3)
        records = [
            (KEY, batch(b"a")),
            (other, batch(b"b")),
            (OTHER, batch(b"c")),
            (KEY._replace(topic="none"), batch(b"d")),
        ]
        reply = harness.produce_to(leader, records)  # type: ignore[arg-type]
        await asyncio.sleep(2)
        assert not reply.done
        harness.cluster.resume_replication((leader + 1) % 3)
        errors = [each.error for each in await reply.get()]
        assert errors == [
            ErrorCode.NONE,
            ErrorCode.NONE,
            *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2,
        ]

    run_scenario(scenario)


def test_request_times_out() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        reply = harness.produce(0, b"a", timeout_ms=1_500)
        assert error(await reply.get()) is ErrorCode.REQUEST_TIMED_OUT
        assert 1_500 <= reply.waited_ms <= 1_501
        harness.cluster.resume_replication(1)
        await asyncio.sleep(3)
        assert harness.ends() == dict.fromkeys(range(3), (1, 1))
        assert reply.count == 1

    run_scenario(scenario)


def test_too_few_in_sync_replicas_refuse_acks_all() -> None:
    """NOT_ENOUGH_REPLICAS; acks=1 is appended, but the high watermark stays (KIP-966)."""

    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.kill(1)
        harness.cluster.kill(2)
        await harness.settle()
        refused = (await harness.produce(0, b"a").get())[0]
        assert refused.error is ErrorCode.NOT_ENOUGH_REPLICAS
        assert refused.message is not None
        assert "insufficient to satisfy the min.isr requirement of 2" in refused.message
        assert harness.log(0).end_offset == 0
        assert error(await harness.produce(0, b"b", acks=1).get()) is ErrorCode.NONE
        await asyncio.sleep(5)
        assert harness.ends()[0] == (0, 1)
        await harness.cluster.restart(1)
        await harness.until(lambda: harness.isr == {0, 1})
        await asyncio.sleep(1)
        assert harness.ends() == {0: (1, 1), 1: (1, 1)}
        assert error(await harness.produce(0, b"c").get()) is ErrorCode.NONE

    run_scenario(scenario, min_insync_replicas=2)


def test_request_times_out_if_replicas_become_too_few_after_the_append() -> None:
    """The high watermark does not advance, as in Kafka since KIP-966."""

    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a", timeout_ms=40_000)
        await asyncio.sleep(LAG_MS * 1.6 / 1_000)
        assert harness.isr == {0}
        assert error(await reply.get()) is ErrorCode.REQUEST_TIMED_OUT
        assert harness.ends()[0] == (0, 1)

    run_scenario(scenario, min_insync_replicas=2)


def test_too_few_replicas_at_the_high_watermark_is_an_error() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        replies: list[list[ProducedPartition]] = []
        harness.cluster.pause_replication(1)
        harness.produce(0, b"a", acks=1)
        replica = harness.replica(0)
        produced = ProducedPartition(KEY, required_offset=1, pending=True, replica=replica)
        operation = DelayedProduce(5_000, [produced], harness.node(0).replicas.find, replies.append)
        replica.isr = [0]
        replica.high_watermark = 1
        harness.node(0).purgatories["Produce"].try_complete_else_watch(operation, [KEY])
        assert [each[0].error for each in replies] == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]
        replica.isr = [0, 1, 2]
        replica.high_watermark = 0

    run_scenario(scenario, min_insync_replicas=2)


def test_replica_with_a_pending_request_counts_for_waiting_requests() -> None:
    """As in Kafka; for a new request only the granted in-sync replicas count."""

    async def scenario(harness: ClusterHarness) -> None:
        replica = harness.replica(0)
        replica.isr = [0]
        assert (replica.has_enough_replicas, replica.may_have_enough_replicas) == (False, False)
        replica.pending_isr = [0, 1]
        assert (replica.has_enough_replicas, replica.may_have_enough_replicas) == (False, True)
        replica.isr, replica.pending_isr = [0, 1, 2], None

    run_scenario(scenario, min_insync_replicas=2)


def test_moved_leader_answers_waiting_requests() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a")
        await harness.settle()
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        assert reply.done
        assert error(await reply.get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (
            error(await harness.produce(0, b"b", acks=1).get()) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        )

    run_scenario(scenario)


def test_deleted_topic_answers_waiting_requests() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        replies = [harness.produce(0, b"a") for _ in range(3)]
        harness.cluster.controller.topic_changes.delete("orders")
        await harness.create_topic()
        assert [error(await reply.get()) for reply in replies] == [
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ] * 3
        assert harness.ends() == dict.fromkeys(range(3), (0, 0))

    run_scenario(scenario)


def test_killed_node_sends_no_replies() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        reply = harness.produce(0, b"a")
        harness.cluster.kill(0)
        await asyncio.sleep(60)
        assert reply.count == 0

    run_scenario(scenario)


def test_duplicate_batch_waits_for_the_original() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        first = harness.produce(0, b"a", producer=(7, 0, 0), timeout_ms=100)
        await asyncio.sleep(1)
        again = harness.produce(0, b"a", producer=(7, 0, 0))
        assert error(await first.get()) is ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(1)
        assert not again.done
        harness.cluster.resume_replication(1)
        produced = (await again.get())[0]
        assert (produced.error, produced.base_offset, harness.log(0).end_offset) == (
            ErrorCode.NONE,
            0,
            1,
        )

    run_scenario(scenario)


def test_single_replica_advances_its_high_watermark_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        reply = harness.produce(0, b"a")
        assert reply.done
        assert harness.ends() == {0: (1, 1)}

    run_scenario(scenario, nodes=1)


def test_response_names_a_limited_number_of_invalid_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(appends, "MAX_RECORD_ERRORS", 5)

    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.controller.topic_changes.add_partitions("orders", 2, [[0, 1, 2]])
        await harness.settle()
        late = batch(*[b"x"] * 4, timestamps=[NOW + 10**9] * 4)
        keys = [KEY, OTHER]
        produced = await harness.produce_to(0, [(key, late) for key in keys]).get()
        assert [each.error for each in produced] == [ErrorCode.INVALID_TIMESTAMP] * 2
        named = [[index for index, _ in result.record_errors] for result in produced]
        assert named == [[0, 1, 2, 3], [0]]

    run_scenario(scenario)
