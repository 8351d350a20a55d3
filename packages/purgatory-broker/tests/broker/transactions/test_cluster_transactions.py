"""Transactions on a whole cluster: what is lost on the way, and who takes over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from purgatory_broker import ClusterTimeoutError
from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.api.registry import find_api
from purgatory_broker.log.control_batch import read_end_marker
from purgatory_broker.metadata.topics import TRANSACTIONS_TOPIC, TopicPartition
from tests.broker.log.transactions import read_committed, stable_offset, transactional
from tests.broker.replication.cluster_harness import (
    KEY,
    ClusterHarness,
    handle_request,
    run_scenario,
)
from tests.broker.transactions.model_producer import ModelProducer, Transaction

COORDINATOR = TopicPartition(TRANSACTIONS_TOPIC, 0)


async def producer_of(
    harness: ClusterHarness, version: int = 2, transactional_id: str = "id"
) -> ModelProducer:
    """Return a producer that has begun; node 2 coordinates it, and node 0 leads the partition."""
    if TRANSACTIONS_TOPIC not in harness.cluster.controller.topics:
        harness.cluster.controller.topic_changes.create_transactions_topic()
        await harness.settle()
        if harness.state(COORDINATOR)["leader"] != 2:
            harness.cluster.move_leader(*COORDINATOR, 2)
        await harness.settle()
    producer = ModelProducer(harness, transactional_id, version)
    await producer.init()
    assert not producer.needs_init
    return producer


def committed(harness: ClusterHarness, key: TopicPartition = KEY) -> list[bytes | None]:
    replica = harness.replica(harness.state(key)["leader"], key)
    return [value for _, value in read_committed(replica.log, replica.high_watermark)]


def run(scenario: Any, **settings: Any) -> None:
    run_scenario(scenario, transaction_state_log_num_partitions=1, **settings)


def state(harness: ClusterHarness, transactional_id: str = "id") -> str:
    """Return the state at the present coordinator, which may not have loaded it yet."""
    snapshot = harness.cluster.transactions().get(transactional_id)
    return "" if snapshot is None else snapshot.state


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("how", ["kill", "stop", "partition_node", "move"])
def test_open_transaction_is_committed_by_the_next_coordinator(how: str, version: int) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        producer = await producer_of(harness, version)
        await producer.write([KEY])
        if how == "move":
            harness.cluster.move_leader(*COORDINATOR, 1)
        else:
            getattr(harness.cluster, how)(2)
        await producer.end(True)
        assert producer.transactions[0].is_committed
        await harness.until(lambda: state(harness) == "CompleteCommit")
        assert committed(harness) == [b"id-0"]
        markers = [
            read_end_marker(header, batch)
            for header, batch in harness.log(0).batches()
            if header.is_control
        ]
        epoch = harness.state(COORDINATOR)["leader_epoch"]
        assert epoch > 0
        assert [marker and marker.coordinator_epoch for marker in markers] == [epoch]

    run(scenario, broker_session_timeout_ms=2_000)


def test_restarted_coordinator_does_not_block_open_transactions() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        producer = await producer_of(harness)
        await producer.write([KEY])
        for node in range(3):
            harness.cluster.kill(node)
        for node in range(3):
            await harness.cluster.restart(node)
        await producer.write([KEY])
        await producer.end(True)
        await harness.until(lambda: committed(harness) == [b"id-0", b"id-1"])

    run(scenario)


@pytest.mark.parametrize("has_arrived", [False, True])
def test_marker_reaches_the_next_leader_of_a_partition(has_arrived: bool) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        producer = await producer_of(harness)
        await producer.write([KEY])
        if has_arrived:
            # It waits for the other replicas.
            for replica in (1, 2):
                harness.node(replica).fetchers.remove(KEY)
        else:
            harness.cluster.set_latency(0, 200)
        await producer.end(True)
        await harness.settle()
        assert state(harness) == "PrepareCommit"
        harness.cluster.kill(0)
        await harness.until(lambda: state(harness) == "CompleteCommit")
        assert committed(harness) == [b"id-0"]

    run(scenario)


def test_batch_that_cannot_be_verified_is_refused_at_once() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        producer = await producer_of(harness)
        harness.cluster.set_latency(2, 500)
        data = transactional(b"x", producer_id=producer.producer_id, epoch=producer.epoch)
        reply, _ = handle_request(
            harness,
            0,
            find_api("Produce"),
            12,
            transactional_id="id",
            acks=-1,
            timeout_ms=60_000,
            topic_data=[{"name": KEY.topic, "partition_data": [{"index": 0, "records": data}]}],
        )
        await asyncio.sleep(0.1)
        assert not reply.done
        harness.cluster.kill(2)
        await asyncio.sleep(0.1)
        assert reply.done
        answer = await reply.get()
        result = answer.responses[0].partition_responses[0]
        assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS

    run(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_markers_reach_a_leader_that_was_away(commit: bool) -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.set_latency(0, 200)
        producer = await producer_of(harness)
        await producer.write([KEY])
        await producer.end(commit)
        # The request with the marker is on its way.
        harness.cluster.partition_node(0)
        await asyncio.sleep(1)
        assert state(harness) == ("PrepareCommit" if commit else "PrepareAbort")
        harness.cluster.heal_node(0)
        await harness.until(lambda: state(harness).startswith("Complete"))
        assert committed(harness) == ([b"id-0"] if commit else [])

    run(scenario, broker_session_timeout_ms=60_000)


def test_marker_whose_response_was_lost_is_written_again() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        producer = await producer_of(harness)
        await producer.write([KEY])
        harness.cluster.set_latency(0, 200)
        await producer.end(True)
        await harness.until(lambda: harness.values(0) != [b"id-0"] or stable(harness) > 1)
        harness.cluster.kill(2)
        await harness.until(lambda: state(harness) == "CompleteCommit")
        assert committed(harness) == [b"id-0"]

    def stable(harness: ClusterHarness) -> int:
        return stable_offset(harness.log(0), harness.replica(0).high_watermark)

    run(scenario)


def test_transaction_of_a_deleted_topic_is_completed() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("gone", partitions=1, replication_factor=3)
        await harness.settle()
        producer = await producer_of(harness)
        await producer.write([KEY, TopicPartition("gone", 0)])
        harness.cluster.set_latency(2, 50)
        await producer.end(True)
        harness.cluster.delete_topic("gone")
        await harness.until(lambda: state(harness) == "CompleteCommit")
        assert committed(harness) == [b"id-0"]

    run(scenario)


def test_stable_offset_does_not_go_back_during_an_abort() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        producer = await producer_of(harness)
        for _ in range(3):
            await producer.write([KEY])
            await producer.end(True)
        await harness.until(lambda: len(committed(harness)) == 3)
        await producer.write([KEY])
        harness.cluster.set_latency(1, 300)
        before = 0
        await producer.end(False)
        for step in range(40):
            if step == 10:
                harness.cluster.move_leader(*KEY, 1)
            await asyncio.sleep(0.1)
            assert len(committed(harness)) == 3
            replica = harness.replica(0)
            offset = stable_offset(replica.log, replica.high_watermark)
            assert offset >= before
            before = offset
        await harness.until(lambda: state(harness) == "CompleteAbort")
        assert len(committed(harness)) == 3

    run(scenario)


def test_partitions_of_one_transaction_are_added_at_the_same_time() -> None:
    """Many batches of a producer that begins: each is verified, and none is there twice."""

    async def scenario(harness: ClusterHarness) -> None:
        count = 20
        harness.cluster.create_topic("many", partitions=count, replication_factor=1)
        await harness.settle()
        producer = await producer_of(harness)
        harness.cluster.set_latency(2, 30)
        pending = set(range(count))

        async def produce(number: int) -> None:
            data = transactional(
                b"%d" % number, producer_id=producer.producer_id, epoch=producer.epoch
            )
            key = TopicPartition("many", number)
            while number in pending:
                reply, _ = handle_request(
                    harness,
                    harness.state(key)["leader"],
                    find_api("Produce"),
                    12,
                    transactional_id="id",
                    acks=-1,
                    timeout_ms=5_000,
                    topic_data=[
                        {
                            "name": "many",
                            "partition_data": [{"index": number, "records": data}],
                        }
                    ],
                )
                answer = await reply.get()
                code = answer.responses[0].partition_responses[0].error_code
                if code == ErrorCode.NONE:
                    pending.discard(number)
                else:
                    # The client tries again what the coordinator has no time for.
                    assert code in (
                        ErrorCode.CONCURRENT_TRANSACTIONS,
                        ErrorCode.NOT_ENOUGH_REPLICAS,
                    ), ErrorCode(code)
                    await asyncio.sleep(0.02)

        await asyncio.gather(*(produce(number) for number in range(count)))
        snapshot = harness.cluster.transactions()["id"]
        assert snapshot.partitions == {"many": list(range(count))}
        reply, _ = handle_request(
            harness,
            2,
            find_api("EndTxn"),
            5,
            transactional_id="id",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            committed=True,
        )
        assert (await reply.get()).error_code == ErrorCode.NONE
        await harness.until(lambda: state(harness) == "CompleteCommit")
        for number in range(count):
            assert committed(harness, TopicPartition("many", number)) == [b"%d" % number]

    run(scenario)


def test_node_without_the_controller_has_its_own_producer_ids() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        ids = [harness.node(node).producer_ids.next_id() for node in (0, 1, 0, 1)]
        assert ids == [0, 1_000, 1, 1_001]
        harness.cluster.partition_node(0)
        assert harness.node(0).producer_ids.next_id() == 2
        harness.cluster.partition_node(2)
        reply, _ = handle_request(
            harness,
            2,
            find_api("InitProducerId"),
            4,
            transactional_id=None,
            transaction_timeout_ms=1_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = await reply.get()
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    run(scenario)


def test_producer_is_fenced_once_its_transaction_has_ended() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        alone = TopicPartition("alone", 0)
        harness.cluster.create_topic("alone", partitions=1, replication_factor=1)
        await harness.settle()
        producer = await producer_of(harness)
        await producer.write([alone])
        leader = harness.state(alone)["leader"]
        assert leader != 2
        harness.cluster.kill(leader)
        with pytest.raises(ClusterTimeoutError, match="transaction of 'id' is PrepareAbort"):
            await harness.cluster.fence_producer("id", timeout=2)
        await harness.cluster.restart(leader)
        await harness.cluster.fence_producer("id")
        assert state(harness) == "Empty"
        await producer.end(True)
        assert producer.transactions[0].is_committed is False

    run(scenario)


async def ask(
    harness: ClusterHarness, key: TopicPartition, api: str, version: int, **fields: Any
) -> Any:
    """Return the response of a partition's leader."""
    leader = harness.state(key)["leader"]
    reply, _ = handle_request(harness, leader, find_api(api), version, **fields)
    return await reply.get()


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("moves", ["while pending", "after the end"])
def test_next_group_coordinator_knows_transactional_offsets(moves: str, commit: bool) -> None:
    offsets = TopicPartition("__consumer_offsets", 0)

    async def fetched(harness: ClusterHarness) -> tuple[int, int]:
        topics = [{"name": KEY.topic, "partition_indexes": [0]}]
        answer = await ask(
            harness, offsets, "OffsetFetch", 7, group_id="g", topics=topics, require_stable=True
        )
        ((partition,),) = [topic.partitions for topic in answer.topics]
        return partition.error_code, partition.committed_offset

    async def move(harness: ClusterHarness) -> None:
        leader = harness.state(offsets)["leader"]
        harness.cluster.move_leader(*offsets, (leader + 1) % 3)
        await harness.settle()

    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_offsets_topic()
        producer = await producer_of(harness)
        partition = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        answer = await ask(
            harness,
            offsets,
            "TxnOffsetCommit",
            5,
            transactional_id="id",
            group_id="g",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": KEY.topic, "partitions": [partition]}],
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert harness.cluster.transactions()["id"].partitions == {"__consumer_offsets": [0]}
        if moves == "while pending":
            await move(harness)
        assert await fetched(harness) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        producer.transaction = Transaction("id")
        await producer.end(commit)
        await harness.until(lambda: state(harness).startswith("Complete"))
        if moves == "after the end":
            await move(harness)
        assert await fetched(harness) == (ErrorCode.NONE, 5 if commit else -1)

    run(scenario, offsets_topic_num_partitions=1)
