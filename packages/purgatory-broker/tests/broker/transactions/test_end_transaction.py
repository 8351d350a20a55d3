"""EndTxn, for clients of the old and of the new version, and the states in between."""

from __future__ import annotations

from dataclasses import replace

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.transactions.transaction import MAX_EPOCH
from purgatory_broker.transactions.transaction_messages import ProducerIdResult
from tests.broker.transactions.harness import (
    A0,
    A1,
    B0,
    ID,
    TransactionsHarness,
    error_of,
    run_scenario,
)


def test_old_client_keeps_its_epoch() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        for commit in (True, False):
            assert harness.add(producer, A0, B0) == [ErrorCode.NONE]
            assert harness.state == "Ongoing"
            assert harness.end(producer, commit=commit, version=0) == [
                ProducerIdResult(ErrorCode.NONE, *producer)
            ]
            assert harness.state == ("CompleteCommit" if commit else "CompleteAbort")
            assert harness.transaction.value.partitions == frozenset()
        assert [(key, marker.is_commit) for key, marker in harness.leaders.written] == [
            (A0, True),
            (B0, True),
            (A0, False),
            (B0, False),
        ]

    run_scenario(scenario)


def test_new_client_gets_an_epoch_for_each_transaction() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer_id, epoch = harness.begin()
        for commit in (True, False):
            assert harness.add((producer_id, epoch), A0, version=2) == [ErrorCode.NONE]
            (result,) = harness.end((producer_id, epoch), commit=commit)
            assert result == ProducerIdResult(ErrorCode.NONE, producer_id, epoch + 1)
            epoch += 1
            (_, marker) = harness.leaders.written[-1]
            assert (marker.producer_epoch, marker.version) == (epoch, 2)

    run_scenario(scenario)


def test_late_partitions_of_the_ended_transaction_are_refused() -> None:
    """KIP-890: what a producer sent before its EndTxn does not become part of the next one."""

    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, version=2)
        harness.end(producer)
        assert error_of(harness.add(producer, A0, version=2)) is ErrorCode.PRODUCER_FENCED
        assert harness.verify(producer, A0) == {A0: ErrorCode.PRODUCER_FENCED}
        assert harness.state == "CompleteCommit"

    run_scenario(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_new_client_repeats_its_request(commit: bool) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, version=2)
        harness.leaders.is_held = True
        (first,) = harness.end(producer, commit=commit)
        assert error_of(harness.end(producer, commit=commit)) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.leaders.release()
        assert harness.end(producer, commit=commit) == [first]
        assert error_of(harness.end(producer, commit=not commit)) is ErrorCode.INVALID_TXN_STATE
        for epoch in (producer[1] + 2, producer[1] - 1):
            fenced = harness.end((producer[0], epoch), commit=commit)
            assert error_of(fenced) is ErrorCode.PRODUCER_FENCED

    run_scenario(scenario)


@pytest.mark.parametrize("commit", [True, False])
def test_old_client_repeats_its_request(commit: bool) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.end(producer, commit=commit, version=0)
        assert harness.end(producer, commit=commit, version=0) == [
            ProducerIdResult(ErrorCode.NONE, *producer)
        ]
        other = harness.end(producer, commit=not commit, version=0)
        assert error_of(other) is ErrorCode.INVALID_TXN_STATE

    run_scenario(scenario)


def test_new_client_aborts_without_a_transaction_for_its_next_epoch() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        for _ in range(2):
            assert error_of(harness.end(producer)) is ErrorCode.INVALID_TXN_STATE
            (result,) = harness.end(producer, commit=False)
            assert (result.error, result.producer_epoch) == (ErrorCode.NONE, producer[1] + 1)
            assert harness.state == "CompleteAbort"
            producer = producer[0], result.producer_epoch
        assert harness.leaders.sent == []

    run_scenario(scenario)


def test_old_client_cannot_end_without_a_transaction() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        for commit in (True, False):
            ended = harness.end(producer, commit=commit, version=0)
            assert error_of(ended) is ErrorCode.INVALID_TXN_STATE

    run_scenario(scenario)


def test_last_epoch_brings_another_producer_id_after_the_end() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer_id, _ = harness.begin()
        transaction = harness.transaction
        transaction.value = replace(transaction.value, producer_epoch=MAX_EPOCH - 1)
        last = (producer_id, MAX_EPOCH - 1)
        harness.add(last, A0, version=2)
        harness.leaders.is_held = True
        (result,) = harness.end(last)
        assert result == ProducerIdResult(ErrorCode.NONE, 1_001, 0)
        ((_, marker, _),) = harness.leaders.sent
        assert (marker.producer_id, marker.producer_epoch) == (producer_id, MAX_EPOCH)
        # The new id is not in force yet.
        assert error_of(harness.add((1_001, 0), A0)) is ErrorCode.CONCURRENT_TRANSACTIONS
        harness.leaders.release()
        assert harness.end(last) == [result]
        assert harness.add((1_001, 0), A0) == [ErrorCode.NONE]

    run_scenario(scenario)


def test_other_producer_id_survives_a_change_of_coordinator() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer_id, _ = harness.begin()
        transaction = harness.transaction
        transaction.value = replace(transaction.value, producer_epoch=MAX_EPOCH - 1)
        harness.add((producer_id, MAX_EPOCH - 1), A0, version=2)
        harness.leaders.is_held = True
        harness.end((producer_id, MAX_EPOCH - 1))
        harness.restart()
        harness.leaders.release()
        assert harness.add((1_001, 0), A0) == [ErrorCode.NONE]

    run_scenario(scenario)


def test_unknown_id_or_producer_is_refused() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        error = ErrorCode.INVALID_PRODUCER_ID_MAPPING
        for version in (0, 2):
            unknown = harness.end(producer, transactional_id="unknown", version=version)
            assert error_of(unknown) is error
            assert error_of(harness.end((7, 0), version=version)) is error
            fenced = harness.end((producer[0], 5), version=version)
            assert error_of(fenced) is ErrorCode.PRODUCER_FENCED
            empty = harness.end(producer, transactional_id="", version=version)
            assert error_of(empty) is ErrorCode.INVALID_REQUEST
        assert error_of(harness.add(producer, A0, transactional_id="unknown")) is error
        assert error_of(harness.add((7, 0), A0)) is error
        empty_id = harness.add(producer, A0, transactional_id="")
        assert error_of(empty_id) is ErrorCode.INVALID_REQUEST

    run_scenario(scenario)


def test_partitions_are_verified() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        assert harness.verify(producer, A0) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
        harness.add(producer, A0)
        assert harness.verify(producer, A0, A1) == {
            A0: ErrorCode.NONE,
            A1: ErrorCode.TRANSACTION_ABORTABLE,
        }
        harness.leaders.is_held = True
        harness.end(producer, version=0)
        assert harness.verify(producer, A0) == {A0: ErrorCode.CONCURRENT_TRANSACTIONS}
        harness.leaders.release()
        assert harness.verify(producer, A0) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
        assert harness.verify((7, 0), A0) == {A0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        unknown = harness.verify(producer, A0, transactional_id="unknown")
        assert unknown == {A0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}

    run_scenario(scenario)


def test_partitions_that_were_added_before_need_no_record() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0, A1)
        before = sum(map(len, harness.log.records.values()))
        assert harness.add(producer, A1) == [ErrorCode.NONE]
        assert sum(map(len, harness.log.records.values())) == before

    run_scenario(scenario)


def test_failed_append_leaves_the_transaction_as_it_was() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        error = ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert error_of(harness.add(producer, A1)) is error
        assert error_of(harness.end(producer, version=0)) is error
        assert (harness.state, harness.transaction.value.partitions) == ("Ongoing", {A0})
        harness.log.error = ErrorCode.NONE
        assert error_of(harness.end(producer, version=0)) is ErrorCode.NONE

    run_scenario(scenario)


def test_other_node_answers_not_coordinator() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        producer = harness.begin()
        harness.add(producer, A0)
        harness.log.is_held = True
        pending = harness.end(producer)
        harness.unload()
        harness.log.release()
        error = ErrorCode.NOT_COORDINATOR
        assert error_of(pending) is error
        assert error_of(harness.init()) is error
        assert error_of(harness.add(producer, A0)) is error
        assert error_of(harness.end(producer)) is error
        assert harness.verify(producer, A0) == {A0: error}
        assert harness.coordinator.describe_transaction(ID).error is error
        assert harness.leaders.sent == []

    run_scenario(scenario)
