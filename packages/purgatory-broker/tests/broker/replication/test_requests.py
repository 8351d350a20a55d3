"""Requests handled as from a connection, and their responses."""

from __future__ import annotations

import asyncio

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker import apis
from tests.broker.log.batches import batch
from tests.broker.replication.cluster_harness import (
    ClusterHarness,
    fetched_values,
    handle_request,
    run_scenario,
)


def topic_data(*values: bytes) -> list[dict[str, object]]:
    """Return the topics of a Produce request with these records."""
    return [{"name": "orders", "partition_data": [{"index": 0, "records": batch(*values)}]}]


def test_produce_with_acks_all_is_answered_when_replicated() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(2)
        fields = {"transactional_id": None, "acks": -1, "topic_data": topic_data(b"a")}
        late, _ = handle_request(harness, 0, apis.PRODUCE, 9, timeout_ms=1_000, **fields)
        reply, _ = handle_request(harness, 0, apis.PRODUCE, 9, timeout_ms=60_000, **fields)
        assert (await late.get()).responses[0].partition_responses[
            0
        ].error_code == ErrorCode.REQUEST_TIMED_OUT
        assert not reply.done
        harness.cluster.resume_replication(2)
        partition = (await reply.get()).responses[0].partition_responses[0]
        assert (partition.error_code, partition.base_offset) == (ErrorCode.NONE, 1)

    run_scenario(scenario)


def test_wrong_node_names_the_leader() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.partition_node(2)
        harness.cluster.move_leader("orders", 0, 1)
        await harness.settle()
        fields = {
            "transactional_id": None,
            "acks": 1,
            "timeout_ms": 1_000,
            "topic_data": topic_data(b"a"),
        }
        for node, leader, epoch in ((0, 1, 1), (2, 0, 0)):
            partition = (
                (await handle_request(harness, node, apis.PRODUCE, 10, **fields)[0].get())
                .responses[0]
                .partition_responses[0]
            )
            assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (
                leader,
                epoch,
            )

    run_scenario(scenario)


def test_closed_connection_cancels_its_request() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.pause_replication(1)
        harness.cluster.pause_replication(2)
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
        fields = {
            "replica_id": -1,
            "max_wait_ms": 60_000,
            "min_bytes": 1,
            "max_bytes": 2**20,
            "isolation_level": 0,
        }
        fetched, context = handle_request(
            harness,
            0,
            apis.FETCH,
            6,
            topics=[{"topic": "orders", "partitions": partitions}],
            **fields,
        )
        await harness.settle()
        assert harness.purgatory("Fetch") == 1
        context.cancel()
        assert harness.purgatory("Fetch") == 0
        harness.cluster.resume_replication(1)
        harness.cluster.resume_replication(2)
        await harness.produce(0, b"a").get()
        assert fetched.count == 0
        assert harness.cluster.metrics()[0]["Fetch"]["Cancellations"] >= 1

    run_scenario(scenario)


def test_consumers_see_only_replicated_records() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a").get()
        harness.cluster.pause_replication(1)
        harness.produce(0, b"b")
        await harness.settle()
        partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**20}]
        fields = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**20, "isolation_level": 0}
        wanted = {"topics": [{"topic": "orders", "partitions": partitions}]}
        partition = (
            (
                await handle_request(harness, 0, apis.FETCH, 6, replica_id=-1, **wanted, **fields)[
                    0
                ].get()
            )
            .responses[0]
            .partitions[0]
        )
        assert (fetched_values(partition.records), partition.high_watermark) == ([b"a"], 1)
        for replica_id, end in ((-1, 1), (2, 2)):
            latest = [
                {
                    "name": "orders",
                    "partitions": [
                        {"partition_index": 0, "timestamp": -1, "current_leader_epoch": -1}
                    ],
                }
            ]
            reply = await handle_request(
                harness,
                0,
                apis.LIST_OFFSETS,
                5,
                replica_id=replica_id,
                isolation_level=0,
                topics=latest,
            )[0].get()
            assert reply.topics[0].partitions[0].offset == end

    run_scenario(scenario)


def test_delete_records_returns_the_low_watermark() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        await harness.produce(0, b"a", b"b").get()
        await asyncio.sleep(1)
        wanted = {
            "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "offset": 1}]}]
        }
        partition = (
            (
                await handle_request(
                    harness, 0, apis.DELETE_RECORDS, 2, timeout_ms=5_000, **wanted
                )[0].get()
            )
            .topics[0]
            .partitions[0]
        )
        assert (partition.error_code, partition.low_watermark) == (ErrorCode.NONE, 1)
        harness.cluster.pause_replication(1)
        wanted["topics"][0]["partitions"][0]["offset"] = -1  # type: ignore[index]
        partition = (
            (
                await handle_request(
                    harness, 0, apis.DELETE_RECORDS, 2, timeout_ms=5_000, **wanted
                )[0].get()
            )
            .topics[0]
            .partitions[0]
        )
        assert (partition.error_code, partition.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, -1)

    run_scenario(scenario)


def test_each_purgatory_has_kafkas_purge_interval() -> None:
    """Those that Kafka's settings name, by these names; the others have Kafka's default."""
    intervals = {
        "fetch_purgatory_purge_interval_requests": 3,
        "producer_purgatory_purge_interval_requests": 4,
        "delete_records_purgatory_purge_interval_requests": 5,
    }

    async def scenario(harness: ClusterHarness) -> dict[str, int]:
        found = harness.node(1).purgatories.items()
        return {name: purgatory._purge_interval for name, purgatory in found}

    others = dict.fromkeys(
        (
            "ElectLeader",
            "Rebalance",
            "Sync",
            "Heartbeat",
            "TransactionTimeout",
            "TransactionalIdExpiration",
            "ShareFetch",
            "AcquisitionLock",
            "Throttle",
        ),
        1_000,
    )
    assert run_scenario(scenario) == others | {"Fetch": 1_000, "Produce": 1_000, "DeleteRecords": 1}
    assert run_scenario(scenario, **intervals) == others | {
        "Fetch": 3,
        "Produce": 4,
        "DeleteRecords": 5,
    }
