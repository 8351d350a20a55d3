"""Producers whose epochs are used up: each goes on with another id, and none waits for ever."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.transactions.transaction import MAX_EPOCH, TransactionState
from purgatory_broker.transactions.transaction_messages import ProducerIdResult
from tests.broker.transactions.harness import A0, TransactionsHarness, error_of, run_scenario


def begin_with(harness: TransactionsHarness, epoch: int) -> tuple[int, int]:
    producer_id, _ = harness.begin()
    harness.transaction.value = replace(harness.transaction.value, producer_epoch=epoch)
    return producer_id, epoch


@pytest.mark.parametrize("repeats_end", [False, True])
def test_producer_that_has_timed_out_goes_on_with_another_id(repeats_end: bool) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = begin_with(harness, MAX_EPOCH - 1)
        other_id = producer[0] + 1
        harness.add(producer, A0, version=2)
        harness.advance(60_001)
        await asyncio.sleep(0.1)
        assert harness.state == "CompleteAbort"
        if repeats_end:
            # As a repeated end, it is answered with the epoch of the abort.
            (result,) = harness.end(producer, commit=False)
            assert result == ProducerIdResult(ErrorCode.NONE, producer[0], MAX_EPOCH)
            producer = (producer[0], MAX_EPOCH)
            harness.add(producer, A0, version=2)
            (result,) = harness.end(producer)
        else:
            (result,) = harness.init(expected=producer)
        assert result == ProducerIdResult(ErrorCode.NONE, other_id, 0)
        producer = (result.producer_id, result.producer_epoch)
        assert error_of(harness.add(producer, A0, version=2)) is ErrorCode.NONE
        assert harness.end(producer) == [ProducerIdResult(ErrorCode.NONE, other_id, 1)]

    run_scenario(scenario)


def test_transaction_in_the_largest_epoch_is_fenced_too() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = begin_with(harness, MAX_EPOCH)
        harness.add(producer, A0, version=2)
        assert error_of(harness.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert harness.state == "CompleteAbort"
        assert harness.begin() == (producer[0] + 1, 0)

    run_scenario(scenario)


def test_fence_at_the_largest_epoch_is_tried_again_after_a_failure() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        old = begin_with(harness, MAX_EPOCH - 1)
        harness.add(old, A0)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        harness.advance(60_001)
        await asyncio.sleep(1)
        assert (harness.state, harness.transaction.value.producer_epoch) == ("Ongoing", MAX_EPOCH)
        harness.log.error = ErrorCode.NONE
        await asyncio.sleep(1)
        assert harness.state == "CompleteAbort"
        assert harness.begin() == (old[0] + 1, 0)

    run_scenario(scenario, transaction_version=1)


@pytest.mark.parametrize("partitions", [(), (A0,)])
def test_abort_at_the_largest_epoch_gives_another_id(partitions: tuple[object, ...]) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = begin_with(harness, MAX_EPOCH)
        harness.transaction.value = replace(
            harness.transaction.value, state=TransactionState.COMPLETE_ABORT, start_ms=0
        )
        if partitions:
            harness.add(producer, *partitions, version=2)  # type: ignore[arg-type]
        next_one = ProducerIdResult(ErrorCode.NONE, producer[0] + 1, 0)
        assert harness.end(producer, commit=False) == [next_one]
        assert harness.state == "CompleteAbort"

    run_scenario(scenario)
