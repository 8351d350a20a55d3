"""The coordinator's store on a cluster's replicas."""

from __future__ import annotations

import asyncio

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.cluster.replicated_records import ReplicatedOffsets
from purgatory_broker.metadata.topics import OFFSETS_TOPIC, TopicPartition
from tests.broker.replication.cluster_harness import ClusterHarness, run_scenario


def test_append_outside_of_a_request_is_replicated_immediately() -> None:
    async def scenario(harness: ClusterHarness) -> None:
        harness.cluster.create_offsets_topic()
        await harness.settle()
        leader, _ = harness.node(0).metadata.leader_of(TopicPartition(OFFSETS_TOPIC, 0))
        node = harness.node(leader)
        store = ReplicatedOffsets(
            node.appends,
            node.actions,
            harness.cluster.wall_ms,
            node.verifications,
            5_000,
            lambda: None,
        )
        errors: list[ErrorCode] = []
        store.append(0, [(b"key", b"value")], errors.append, None)
        # Virtual time, less than the maximum wait of a parked fetch.
        await asyncio.sleep(0.1)
        assert errors == [ErrorCode.NONE]

    run_scenario(scenario)
