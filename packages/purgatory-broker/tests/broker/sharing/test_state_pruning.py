"""Tests that the log of share groups' states does not grow for ever."""

from __future__ import annotations

import asyncio

from purgatory_broker.metadata.topics import SHARE_STATE_TOPIC, TopicPartition
from tests.broker.sharing.share_harness import ShareHarness, run_shares


def test_redundant_records_are_deleted_on_all_replicas() -> None:
    async def scenario(harness: ShareHarness) -> None:
        number = harness.node(0).share_coordinator.partition_for(harness.share_key.text)
        key = TopicPartition(SHARE_STATE_TOPIC, number)
        await harness.initialize(5, state_epoch=1)
        await harness.initialize(7, state_epoch=2)
        before = harness.stored()

        def starts() -> list[int]:
            return [harness.replica(node, key).log.log_start_offset for node in range(2)]

        assert starts() == [0, 0]
        await asyncio.sleep(301)
        assert starts() == [2, 2]
        assert harness.stored() == before

    run_shares(scenario, nodes=2, share_coordinator_state_topic_num_partitions=1)
