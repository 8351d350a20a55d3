"""InitProducerId: epochs, fencing, and other producer ids when the epochs are used up."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.transactions.transaction import MAX_EPOCH
from purgatory_broker.transactions.transaction_messages import ProducerIdResult
from tests.broker.transactions.harness import A0, ID, TransactionsHarness, error_of, run_scenario


def test_first_producer_gets_an_id_and_epoch_0() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        assert harness.begin() == (1_000, 0)
        assert harness.state == "Empty"
        assert harness.begin(transactional_id="other") == (1_001, 0)

    run_scenario(scenario)


def test_next_producer_fences_the_one_before() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        old = harness.begin()
        assert harness.begin() == (old[0], 1)
        assert error_of(harness.add(old, A0)) is ErrorCode.PRODUCER_FENCED
        assert error_of(harness.end(old)) is ErrorCode.PRODUCER_FENCED
        assert harness.verify(old, A0) == {A0: ErrorCode.PRODUCER_FENCED}

    run_scenario(scenario)


@pytest.mark.parametrize("version", [0, 2])
def test_running_transaction_is_aborted_before_the_next_producer_begins(version: int) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        old = harness.begin()
        harness.add(old, A0, version=version)
        harness.leaders.is_held = True
        assert harness.init() == [ProducerIdResult(ErrorCode.CONCURRENT_TRANSACTIONS)]
        assert harness.state == "PrepareAbort"
        assert harness.transaction.value.producer_epoch == 1
        assert error_of(harness.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.leaders.release()
        assert harness.state == "CompleteAbort"
        ((key, marker),) = harness.leaders.written
        assert (key, marker.producer_epoch, marker.is_commit) == (A0, 1, False)
        assert harness.begin() == (old[0], 2)

    run_scenario(scenario, transaction_version=version)


def test_fence_that_was_not_stored_does_not_raise_the_epoch_again() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        old = harness.begin()
        harness.add(old, A0)
        for _ in range(3):
            harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
            assert error_of(harness.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert harness.state == "Ongoing"
        harness.log.error = ErrorCode.NONE
        assert error_of(harness.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.transaction.value.producer_epoch == 1
        assert not harness.transaction.has_failed_fence
        assert harness.begin()[1] == 2

    run_scenario(scenario, transaction_version=0)


def test_producer_that_lost_the_response_gets_the_same_epoch_again() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        first = harness.begin()
        assert harness.begin(expected=first) == (first[0], 1)
        assert harness.begin(expected=first) == (first[0], 1)
        assert harness.begin() == (first[0], 2)
        for stale in (first, (first[0], 1)):
            assert error_of(harness.init(expected=stale)) is ErrorCode.PRODUCER_FENCED
        assert error_of(harness.init(expected=(7, 0))) is ErrorCode.PRODUCER_FENCED

    run_scenario(scenario)


def test_unknown_id_takes_any_producer_that_expects_one() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        assert harness.begin(expected=(7, 3)) == (1_000, 0)

    run_scenario(scenario)


def exhaust(harness: TransactionsHarness) -> tuple[int, int]:
    """Give the producer its last epoch."""
    producer = harness.begin()
    transaction = harness.transaction
    transaction.value = replace(transaction.value, producer_epoch=MAX_EPOCH - 1)
    return producer[0], MAX_EPOCH - 1


def test_exhausted_epochs_bring_another_producer_id() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        exhaust(harness)
        assert harness.begin() == (1_001, 0)

    run_scenario(scenario)


def test_producer_that_lost_its_other_id_gets_it_again() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        last = exhaust(harness)
        assert harness.begin(expected=last) == (1_001, 0)
        assert harness.begin(expected=last) == (1_001, 0)
        other = (last[0], MAX_EPOCH - 2)
        assert error_of(harness.init(expected=other)) is ErrorCode.PRODUCER_FENCED

    run_scenario(scenario)


def test_fence_in_the_last_epoch_brings_another_producer_id() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        last = exhaust(harness)
        harness.add(last, A0)
        assert error_of(harness.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.transaction.value.producer_epoch == MAX_EPOCH
        assert harness.begin() == (1_001, 0)

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 1, ErrorCode.INVALID_REQUEST),
        (ID, 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, -1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_000, ErrorCode.NONE),
    ],
)
def test_invalid_request_is_refused(
    transactional_id: str, timeout_ms: int, error: ErrorCode
) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        assert error_of(harness.init(transactional_id, timeout_ms=timeout_ms)) is error

    run_scenario(scenario)


def test_pending_transition_refuses_the_next() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        harness.log.is_held = True
        pending = harness.init()
        assert pending == []
        assert error_of(harness.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.log.release()
        assert pending == [ProducerIdResult(ErrorCode.NONE, 1_000, 0)]

    run_scenario(scenario)


def test_id_whose_first_record_was_not_stored_is_forgotten() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        assert error_of(harness.init()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert harness.find() is None
        harness.log.error = ErrorCode.NONE
        assert error_of(harness.init(transactional_id="x" * 40_000)) is (
            ErrorCode.UNKNOWN_SERVER_ERROR
        )
        assert harness.coordinator.transactions == []
        assert harness.begin()[1] == 0

    run_scenario(scenario)
