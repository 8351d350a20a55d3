"""Offsets that producers commit in transactions: pending until the marker of their transaction."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from tests.broker.groups.captured_response import CapturedResponse
from tests.broker.groups.classic_requests import GROUP
from tests.broker.groups.harness import CoordinatorHarness, run_scenario

OFFSET = {("t", 0): 5}


def error_of(captured: CapturedResponse) -> ErrorCode:
    """Return the error of the response's only partition."""
    ((partition,),) = [topic.partitions for topic in captured.response.topics]
    return ErrorCode(partition.error_code)


def stable(harness: CoordinatorHarness, version: int = 9) -> tuple[ErrorCode, int]:
    """Return what a consumer gets that waits for stable offsets."""
    fetched = harness.fetch({"t": [0]}, stable=True, version=version)
    ((partition,),) = [topic.partitions for topic in fetched.topics]
    return ErrorCode(partition.error_code), partition.committed_offset


UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT, -1


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_marker_commits_or_drops_pending_offsets(restart: bool, commit: bool) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({("t", 0): 2})
        assert error_of(harness.commit_in_transaction(OFFSET)) is ErrorCode.NONE
        if restart:
            harness.restart()
        assert harness.committed() == {("t", 0): 2}
        assert stable(harness) == UNSTABLE
        assert stable(harness, version=7) == UNSTABLE
        harness.end_transaction(commit=commit)
        for _ in range(2):
            expected = 5 if commit else 2
            assert stable(harness) == (ErrorCode.NONE, expected)
            assert harness.committed() == {("t", 0): expected}
            harness.restart()

    run_scenario(scenario)


def test_offsets_are_unstable_before_their_records_are_replicated() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.is_held = True
        pending = harness.commit_in_transaction(OFFSET)
        assert stable(harness) == UNSTABLE
        harness.log.release()
        assert error_of(pending) is ErrorCode.NONE
        assert stable(harness) == UNSTABLE

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("error", "is_stable"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, True),
        (ErrorCode.REQUEST_TIMED_OUT, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, False),
    ],
)
def test_failed_commit_is_pending_if_it_may_be_in_the_log(
    error: ErrorCode, is_stable: bool
) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.error = error
        failed = harness.commit_in_transaction(OFFSET)
        assert error_of(failed) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert (stable(harness) != UNSTABLE) is is_stable

    run_scenario(scenario)


def test_transactions_of_other_producers_go_on() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({("t", 0): 5}, producer=(7, 0))
        harness.commit_in_transaction({("t", 0): 6}, producer=(8, 0))
        harness.end_transaction(8)
        assert stable(harness) == UNSTABLE
        assert harness.committed() == {("t", 0): 6}
        # The later record counts, although its transaction has ended earlier.
        harness.end_transaction(7)
        assert stable(harness) == (ErrorCode.NONE, 6)
        harness.restart()
        assert stable(harness) == (ErrorCode.NONE, 6)

    run_scenario(scenario)


def test_later_commit_without_a_transaction_counts() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({("t", 0): 5})
        harness.commit({("t", 0): 9})
        assert harness.committed() == {("t", 0): 9}
        harness.end_transaction()
        assert stable(harness) == (ErrorCode.NONE, 9)
        harness.restart()
        assert stable(harness) == (ErrorCode.NONE, 9)

    run_scenario(scenario)


def test_offset_counts_where_a_later_one_was_not_written() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit({("t", 0): 2})
        harness.commit_in_transaction(OFFSET)
        harness.log.error = ErrorCode.NOT_ENOUGH_REPLICAS
        failed = harness.commit_in_transaction({("t", 0): 6})
        assert error_of(failed) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.log.error = ErrorCode.NONE
        assert stable(harness) == UNSTABLE
        harness.end_transaction()
        for _ in range(2):
            assert harness.committed() == OFFSET
            harness.restart()

    run_scenario(scenario)


def test_last_offset_of_a_transaction_counts() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({("t", 0): 5, ("t", 1): 1})
        harness.commit_in_transaction({("t", 0): 6})
        harness.end_transaction()
        assert harness.committed() == {("t", 0): 6, ("t", 1): 1}
        harness.commit_in_transaction({("t", 0): 7})
        harness.end_transaction(commit=False)
        assert harness.committed() == {("t", 0): 6, ("t", 1): 1}

    run_scenario(scenario)


@pytest.mark.parametrize("version", range(6))
def test_transaction_is_verified_before_the_commit(version: int) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction(OFFSET, version=version)
        ((partition, commit),) = harness.log.verified
        assert partition == harness.coordinator.partition_for(GROUP)
        assert (commit.transactional_id, commit.producer[:2]) == ("producer", (7, 0))
        assert commit.adds_partition is (version == 5)
        harness.log.verification = ErrorCode.TRANSACTION_ABORTABLE
        refused = harness.commit_in_transaction({("t", 0): 6}, version=version)
        known = version >= 4
        assert error_of(refused) is (
            ErrorCode.TRANSACTION_ABORTABLE if known else ErrorCode.INVALID_TXN_STATE
        )
        harness.end_transaction()
        assert harness.committed() == OFFSET

    run_scenario(scenario)


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (ErrorCode.NETWORK_EXCEPTION, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.CONCURRENT_TRANSACTIONS),
    ],
)
def test_error_of_the_verification_is_answered(error: ErrorCode, answer: ErrorCode) -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.verification = error
        assert error_of(harness.commit_in_transaction(OFFSET)) is answer
        assert stable(harness) == (ErrorCode.NONE, -1)

    run_scenario(scenario)


def test_old_client_gets_an_error_that_it_knows() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.log.verification = ErrorCode.NETWORK_EXCEPTION
        for version in (0, 1):
            refused = harness.commit_in_transaction(OFFSET, version=version)
            assert error_of(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE

    run_scenario(scenario)


def test_consumer_of_another_generation_cannot_commit() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        (leader,) = harness.stable_group(1)
        commit = harness.commit_in_transaction
        for options, error in (
            ({"member_id": leader, "generation": 1}, ErrorCode.NONE),
            # Old producers do not name their consumer.
            ({}, ErrorCode.NONE),
            ({"member_id": leader, "generation": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": leader, "generation": 2}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "other", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"member_id": "other"}, ErrorCode.UNKNOWN_MEMBER_ID),
            ({"instance_id": "other", "generation": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            assert error_of(commit(OFFSET, **options)) is error, options  # type: ignore[arg-type]
        unknown = commit(OFFSET, group_id="unknown", generation=1)
        assert error_of(unknown) is ErrorCode.ILLEGAL_GENERATION
        assert error_of(commit(OFFSET, group_id="")) is ErrorCode.INVALID_GROUP_ID
        too_large = commit(OFFSET, metadata="x" * 4_097)
        assert error_of(too_large) is ErrorCode.OFFSET_METADATA_TOO_LARGE
        harness.unload()
        assert error_of(commit(OFFSET)) is ErrorCode.NOT_COORDINATOR

    run_scenario(scenario)


def test_commit_during_a_rebalance_is_allowed() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        first = harness.join_with_id()
        member_id = first.response.member_id
        committed = harness.commit_in_transaction(OFFSET, member_id=member_id, generation=1)
        assert error_of(committed) is ErrorCode.NONE

    run_scenario(scenario)


def test_deleted_group_has_no_pending_offsets() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction(OFFSET)
        (result,) = harness.delete_groups(GROUP).response.results
        assert result.error_code == ErrorCode.NONE
        assert stable(harness) == (ErrorCode.NONE, -1)
        harness.end_transaction()
        assert harness.committed() == {}
        harness.restart()
        assert harness.committed() == {}
        assert harness.coordinator.groups == []

    run_scenario(scenario)


def test_deleted_offsets_and_topics_take_pending_offsets_along() -> None:
    async def scenario(harness: CoordinatorHarness) -> None:
        harness.commit_in_transaction({("t", 0): 5, ("u", 0): 6, ("v", 0): 7})
        harness.delete_offsets("t", 0)
        harness.coordinator.forget_topic("u")
        harness.end_transaction()
        for _ in range(2):
            assert harness.committed() == {("v", 0): 7}
            harness.restart()

    run_scenario(scenario)
