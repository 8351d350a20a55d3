"""Markers reach each partition once it has a leader, whatever happens in between."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.metadata.topics import NO_LEADER
from tests.broker.transactions.harness import (
    A0,
    A1,
    B0,
    ID,
    TransactionsHarness,
    error_of,
    run_scenario,
)

RETRIED = [
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
]


def test_leaders_get_one_request_each() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        harness.leaders.nodes[B0] = 2
        producer = harness.begin()
        harness.add(producer, A0, A1, B0)
        harness.end(producer)
        assert [(node, keys) for node, _, keys in harness.leaders.sent] == [
            (1, (A0, A1)),
            (2, (B0,)),
        ]
        assert {marker.coordinator_epoch for _, marker, _ in harness.leaders.sent} == {1}

    run_scenario(scenario)


@pytest.mark.parametrize("error", RETRIED)
def test_partition_that_failed_is_tried_again_alone(error: ErrorCode) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, A1)
        harness.leaders.errors[A1] = error
        harness.end(producer)
        assert (harness.state, harness.transaction.value.partitions) == ("PrepareCommit", {A1})
        harness.leaders.errors.clear()
        harness.leaders.nodes[A1] = 3
        await asyncio.sleep(1)
        assert harness.state == "CompleteCommit"
        assert [(node, keys) for node, _, keys in harness.leaders.sent][-1] == (3, (A1,))
        assert sorted(key for key, _ in harness.leaders.written) == [A0, A1]

    run_scenario(scenario)


def test_lost_request_is_sent_again() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.is_lost = True
        harness.end(producer)
        await asyncio.sleep(10)
        assert harness.state == "PrepareCommit"
        harness.leaders.is_lost = False
        await asyncio.sleep(1.1)
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)


@pytest.mark.parametrize("why", ["lost", "leaderless", "refused"])
def test_markers_are_sent_again_after_longer_and_longer_times(why: str) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        if why == "lost":
            harness.leaders.is_lost = True
        elif why == "leaderless":
            harness.leaders.nodes[A0] = NO_LEADER
        else:
            harness.leaders.errors[A0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        waits = harness.leaders.delays_ms
        harness.end(producer)
        await asyncio.sleep(10)
        assert waits[:6] == [50, 100, 200, 400, 800, 1_000]
        assert set(waits[6:]) == {1_000}
        harness.leaders.is_lost = False
        harness.leaders.nodes[A0] = 1
        harness.leaders.errors.clear()
        await asyncio.sleep(1.1)
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)


def test_next_transaction_is_tried_again_soon() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        harness.leaders.is_lost = True
        producer = harness.begin()
        for _ in range(2):
            harness.add(producer, A0)
            harness.leaders.is_lost = True
            harness.leaders.delays_ms.clear()
            harness.end(producer, version=0)
            await asyncio.sleep(1)
            assert harness.leaders.delays_ms[:2] == [50, 100]
            harness.leaders.is_lost = False
            await asyncio.sleep(2)
            assert harness.state == "CompleteCommit"

    run_scenario(scenario)


def test_partition_without_a_leader_is_waited_for() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, B0)
        harness.leaders.nodes[B0] = NO_LEADER
        harness.end(producer)
        await asyncio.sleep(10)
        assert (harness.state, harness.transaction.value.partitions) == ("PrepareCommit", {B0})
        harness.leaders.nodes[B0] = 0
        await asyncio.sleep(1.1)
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)


def test_deleted_partition_needs_no_marker() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, B0)
        harness.leaders.nodes[A0] = None
        harness.leaders.errors[B0] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        harness.end(producer)
        assert harness.transaction.value.partitions == {B0}
        harness.leaders.nodes[B0] = None
        await asyncio.sleep(1)
        assert harness.state == "CompleteCommit"
        assert harness.leaders.written == []

    run_scenario(scenario)


@pytest.mark.parametrize(
    "error", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED]
)
def test_fenced_coordinator_sends_nothing_more(error: ErrorCode) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, A1)
        harness.leaders.errors = {A0: error, A1: ErrorCode.NOT_LEADER_OR_FOLLOWER}
        harness.end(producer)
        sent = len(harness.leaders.sent)
        await asyncio.sleep(10)
        assert len(harness.leaders.sent) == sent
        # Another coordinator has the partition, and its shard here goes.
        harness.unload()

    run_scenario(scenario)


def test_client_does_not_wait_for_the_markers() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.is_held = True
        (result,) = harness.end(producer)
        assert result.error is ErrorCode.NONE
        next_producer = (result.producer_id, result.producer_epoch)
        refused = harness.add(next_producer, A1, version=2)
        assert error_of(refused) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.leaders.release()
        assert harness.add(next_producer, A1, version=2) == [ErrorCode.NONE]

    run_scenario(scenario)


def test_complete_state_is_appended_until_it_is_stored() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.is_held = True
        harness.end(producer)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.leaders.release()
        await asyncio.sleep(1)
        assert harness.state == "PrepareCommit"
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(1.1)
        assert harness.state == "CompleteCommit"
        assert len(harness.leaders.written) == 1

    run_scenario(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_next_coordinator_writes_the_markers_in_its_epoch(commit: bool) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.is_held = True
        harness.end(producer, commit=commit)
        harness.restart()
        harness.leaders.release()
        assert harness.state == ("CompleteCommit" if commit else "CompleteAbort")
        _, marker, _ = harness.leaders.sent[-1]
        assert (marker.coordinator_epoch, marker.is_commit) == (2, commit)

    run_scenario(scenario)


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.TRANSACTION_COORDINATOR_FENCED])
def test_answer_to_the_last_coordinator_is_ignored(error: ErrorCode) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.is_held = True
        harness.leaders.errors[A0] = error
        harness.end(producer)
        late = harness.leaders.held.popleft()
        harness.leaders.errors.clear()
        partition = harness.coordinator.partition_for("orders")
        harness.coordinator.load(partition, 9, list(harness.log.records[partition]))
        late()
        assert harness.state == "PrepareCommit"
        harness.leaders.release()
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)


def test_former_coordinator_sends_nothing_more() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.errors[A0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
        harness.end(producer)
        await asyncio.sleep(1)
        harness.unload()
        sent = len(harness.leaders.sent)
        await asyncio.sleep(10)
        assert len(harness.leaders.sent) == sent

    run_scenario(scenario)


@pytest.mark.parametrize(
    "error",
    [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.UNKNOWN_SERVER_ERROR],
)
def test_completion_that_was_not_stored_is_tried_again(
    error: ErrorCode, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.leaders.is_held = True
        harness.end(producer)
        harness.log.error = error
        harness.leaders.is_held = False
        harness.leaders.release()
        await asyncio.sleep(10)
        assert harness.state == "PrepareCommit"
        # Of some 15 attempts, the first and the tenth.
        assert caplog.text.count(f"{ID} cannot be completed yet") == 2
        assert error_of(harness.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(1.1)
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)
