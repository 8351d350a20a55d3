"""Waits for what a group has committed, how far it is behind, and what its members have."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from purgatory_broker import ClusterTimeoutError
from purgatory_broker.cluster.cluster_client import ClusterClient
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, TopicPartition
from request_purgatory.errors import InvalidArgumentError
from tests.broker.parity.members import join_fields
from tests.broker.replication.cluster_harness import KEY, ClusterHarness, run_scenario
from tests.broker.transactions.model_producer import ModelProducer, Transaction
from tests.broker.transactions.test_cluster_transactions import ask

OFFSETS = TopicPartition(OFFSETS_TOPIC, 0)
#: Seconds of virtual time.
LONG = 60.0


def run(scenario: Any, **settings: Any) -> None:
    run_scenario(
        scenario,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        **settings,
    )


async def ask_coordinator(harness: ClusterHarness, api: str, version: int, **fields: Any) -> Any:
    if OFFSETS_TOPIC not in harness.cluster.controller.topics:
        harness.cluster.create_offsets_topic()
        await harness.settle()
    return await ask(harness, OFFSETS, api, version, **fields)


async def commit(harness: ClusterHarness, offset: int, group_id: str = "readers") -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": None,
    }
    answer = await ask_coordinator(
        harness,
        "OffsetCommit",
        8,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": KEY.topic, "partitions": [partition]}],
    )
    assert answer.topics[0].partitions[0].error_code == 0


def waiting(harness: ClusterHarness, **conditions: Any) -> asyncio.Future[None]:
    return asyncio.ensure_future(harness.cluster.wait_for(**conditions, timeout=LONG))


async def fails(harness: ClusterHarness, **conditions: Any) -> str:
    with pytest.raises(ClusterTimeoutError) as caught:
        await harness.cluster.wait_for(**conditions, timeout=0)
    return str(caught.value).removeprefix("not within 0 s: ")


def test_wait_for_a_committed_offset_ends_with_the_commit() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        wanted = {"committed": ("readers", KEY.topic, 0, 2)}
        assert await fails(harness, **wanted) == (
            "expected group 'readers' to have committed offset 2 of orders-0, got None"
        )
        wait = waiting(harness, **wanted)
        await commit(harness, 1)
        await commit(harness, 2, "others")
        assert not wait.done()
        assert (await fails(harness, **wanted)).endswith("of orders-0, got 1")
        # Without any other change after it.
        await commit(harness, 2)
        await asyncio.wait_for(wait, 0.01)
        await commit(harness, 3)
        await harness.cluster.wait_for(**wanted, timeout=0)

    run(scenario)


def test_wait_for_a_committed_offset_ends_with_the_transaction() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.controller.topic_changes.create_transactions_topic()
        await harness.settle()
        producer = ModelProducer(harness, "id", 2)
        await producer.init()
        partition = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        await ask_coordinator(
            harness,
            "TxnOffsetCommit",
            5,
            transactional_id="id",
            group_id="readers",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            generation_id=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": KEY.topic, "partitions": [partition]}],
        )
        wait = waiting(harness, committed=("readers", KEY.topic, 0, 5))
        await harness.settle()
        assert not wait.done()
        producer.transaction = Transaction("id")
        await producer.end(True)
        await asyncio.wait_for(wait, 1)

    # Without followers, whose high watermarks would be notified later.
    run(scenario, nodes=1, transaction_state_log_min_isr=1)


def test_wait_for_lag_follows_the_records_and_the_commits() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        def wanted(most: int) -> dict[str, Any]:
            return {"lag": ("readers", KEY.topic, most)}

        assert (await fails(harness, **wanted(0))).endswith(" there is no such group")
        await harness.produce(0, b"one", b"two", b"three").get()
        await commit(harness, 1)
        assert await fails(harness, **wanted(1)) == (
            "expected group 'readers' to be at most 1 records behind in orders, "
            "got 2 (by partition: {0: 2})"
        )
        await harness.cluster.wait_for(**wanted(2), timeout=0)
        wait = waiting(harness, **wanted(0))
        await commit(harness, 2)
        assert not wait.done()
        await commit(harness, 3)
        await asyncio.wait_for(wait, 0.01)
        await harness.produce(0, b"four").get()
        await harness.settle()
        assert (await fails(harness, **wanted(0))).endswith("got 1 (by partition: {0: 1})")
        # Deleted records are no lag. By now the followers know the last commit.
        await asyncio.sleep(1)
        wait = waiting(harness, **wanted(0))
        await harness.settle()
        assert not wait.done()
        await harness.delete(0, 4).get()
        await asyncio.wait_for(wait, 1)
        missing = await fails(harness, lag=("readers", "returns", 0))
        assert missing.endswith("in returns, there is no such topic")

    run(scenario)


def test_partition_without_a_committed_offset_is_behind_by_all_its_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_topic("wide", partitions=2, replication_factor=1)
        await harness.settle()
        for number in range(2):
            key = TopicPartition("wide", number)
            await harness.produce(harness.state(key)["leader"], b"x", key=key).get()
        await commit(harness, 0)
        assert (await fails(harness, lag=("readers", "wide", 1))).endswith("{0: 1, 1: 1})")

    run(scenario)


def assigned(topic: str, *partitions: int) -> bytes:
    name = topic.encode()
    numbers = struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return struct.pack(">hih", 0, 1, len(name)) + name + numbers + struct.pack(">i", -1)


def test_wait_for_an_assignment_ends_when_the_member_has_its_partitions() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        wanted = {"assignment": ("readers", "test", "orders", [1, 0])}
        assert (await fails(harness, **wanted)).endswith("orders, there is no such group")
        wait = waiting(harness, **wanted)
        joined = await ask_coordinator(harness, "JoinGroup", 2, **join_fields("readers"))

        async def sync(*partitions: int) -> None:
            member = joined.member_id
            await ask_coordinator(
                harness,
                "SyncGroup",
                2,
                group_id="readers",
                generation_id=joined.generation_id,
                member_id=member,
                assignments=[{"member_id": member, "assignment": assigned("orders", *partitions)}],
            )

        await harness.settle()
        assert not wait.done()
        await sync(0)
        assert await fails(harness, **wanted) == (
            "expected client 'test' of group 'readers' to have the partitions [0, 1] of orders, "
            "the group is Stable, and has test: {'orders': [0]}"
        )
        again = join_fields("readers", joined.member_id)
        joined = await ask_coordinator(harness, "JoinGroup", 2, **again)
        # Until the members have the new assignment, the old one does not count.
        assert "the group is CompletingRebalance" in await fails(
            harness, assignment=("readers", "test", "orders", [0])
        )
        await sync(0, 1)
        await asyncio.wait_for(wait, 0.01)
        assert "has test: " in await fails(
            harness, assignment=("readers", "other", "orders", [0, 1])
        )

    run(scenario)


def test_wait_for_an_assignment_of_the_consumer_protocol() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        wait = waiting(harness, assignment=("readers", "test", "orders", [0]))
        await harness.settle()
        assert not wait.done()
        fields = {"group_id": "readers", "member_id": "AAAAAAAAAAAAAAAAAAAAAA"}
        joined = await ask_coordinator(
            harness,
            "ConsumerGroupHeartbeat",
            1,
            **fields,
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=["orders"],
            topic_partitions=[],
        )
        assert joined.error_code == 0
        await asyncio.wait_for(wait, 1)
        await harness.produce(0, b"one").get()
        lag = waiting(harness, lag=("readers", "orders", 0))
        await harness.settle()
        assert not lag.done()
        partition = {
            "partition_index": 0,
            "committed_offset": 1,
            "committed_leader_epoch": -1,
            "committed_metadata": None,
        }
        committed = await ask_coordinator(
            harness,
            "OffsetCommit",
            9,
            group_id="readers",
            member_id=joined.member_id,
            generation_id_or_member_epoch=joined.member_epoch,
            group_instance_id=None,
            topics=[{"name": KEY.topic, "partitions": [partition]}],
        )
        assert committed.topics[0].partitions[0].error_code == 0
        await asyncio.wait_for(lag, 1)

    run(scenario)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"committed": ["g", "t", 0]}, "committed must be "),
        ({"committed": ["g", "t", 0, -1]}, "committed must be of a number from 0 on, got "),
        ({"lag": ["g", "t"]}, "lag must be "),
        ({"lag": ["g", "t", -1]}, "lag must be of a number from 0 on, got "),
        ({"assignment": ["g", "c", "t", 0]}, "assignment must be "),
    ],
)
def test_invalid_conditions_are_refused(
    running: ClusterClient, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        running.call("wait_for", **arguments)
