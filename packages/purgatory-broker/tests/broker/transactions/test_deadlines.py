"""Timeouts of transactions, and transactional ids that expire."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.transactions.harness import A0, A1, TransactionsHarness, error_of, run_scenario


@pytest.mark.parametrize("version", [0, 2])
def test_transaction_is_aborted_after_its_timeout(version: int) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=5_000)
        await asyncio.sleep(60)
        harness.add(producer, A0, version=version)
        await asyncio.sleep(4)
        # What is added later does not extend it.
        harness.add(producer, A1, version=version)
        await asyncio.sleep(0.9)
        assert harness.state == "Ongoing"
        assert harness.purgatories.timeout.num_delayed == 1
        await asyncio.sleep(0.2)
        assert harness.state == "CompleteAbort"
        assert harness.purgatories.timeout.num_delayed == 0
        # With version 2 the epoch is as after an EndTxn of the producer's own, for an abort.
        error = ErrorCode.INVALID_TXN_STATE if version else ErrorCode.PRODUCER_FENCED
        assert error_of(harness.end(producer, version=version)) is error
        assert harness.begin() == (producer[0], 2)

    run_scenario(scenario, transaction_version=version)


def test_transaction_that_ends_in_time_is_not_aborted() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=5_000)
        for _ in range(3):
            harness.add(producer, A0)
            await asyncio.sleep(4)
            assert error_of(harness.end(producer, version=0)) is ErrorCode.NONE
        await asyncio.sleep(60)
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)


def test_timeout_waits_for_a_pending_transition() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=5_000)
        harness.add(producer, A0)
        await asyncio.sleep(4)
        harness.log.is_held = True
        pending = harness.add(producer, A1)
        await asyncio.sleep(4)
        assert pending == []
        harness.log.is_held = False
        harness.log.release()
        assert pending == [ErrorCode.NONE]
        await asyncio.sleep(1)
        assert harness.state == "CompleteAbort"

    run_scenario(scenario)


def test_timeout_is_tried_again_until_it_is_stored() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=5_000)
        harness.add(producer, A0)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(10)
        assert harness.state == "Ongoing"
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(1)
        assert harness.state == "CompleteAbort"

    run_scenario(scenario)


def test_timeout_counts_from_the_start_after_a_change_of_coordinator() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=5_000)
        harness.add(producer, A0)
        await asyncio.sleep(3)
        harness.restart()
        await asyncio.sleep(1.5)
        assert harness.state == "Ongoing"
        await asyncio.sleep(1)
        assert harness.state == "CompleteAbort"

    run_scenario(scenario)


def test_advanced_time_ends_transactions_and_ids() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=60_000)
        harness.begin(transactional_id="idle")
        harness.add(producer, A0)
        harness.advance(60_001)
        await asyncio.sleep(0.01)
        assert harness.state == "CompleteAbort"
        harness.advance(1_000_000)
        await asyncio.sleep(1)
        assert harness.coordinator.transactions == []

    run_scenario(scenario, transactional_id_expiration_ms=1_000_000)


def test_id_that_is_not_used_expires() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        await asyncio.sleep(900)
        harness.add(producer, A0)
        harness.end(producer, version=0)
        await asyncio.sleep(900)
        assert harness.state == "CompleteCommit"
        assert harness.purgatories.expiration.num_delayed == 1
        await asyncio.sleep(101)
        assert harness.find() is None
        assert harness.purgatories.expiration.num_delayed == 0
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert error_of(harness.add(producer, A0)) is error
        harness.restart()
        assert harness.find() is None
        assert harness.begin()[0] != producer[0]

    run_scenario(scenario, transactional_id_expiration_ms=1_000_000)


def test_id_with_a_transaction_does_not_expire() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin(timeout_ms=900_000)
        harness.add(producer, A0)
        await asyncio.sleep(500)
        assert harness.state == "Ongoing"
        harness.end(producer)
        await asyncio.sleep(99)
        assert harness.state == "CompleteCommit"
        await asyncio.sleep(2)
        assert harness.find() is None

    run_scenario(scenario, transactional_id_expiration_ms=100_000)


def test_expiration_is_tried_again_until_it_is_stored() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        harness.begin()
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(110)
        assert harness.state == "Empty"
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(1)
        assert harness.find() is None

    run_scenario(scenario, transactional_id_expiration_ms=100_000)
