"""The list of transactions that a coordinator gives, by the filter of the request."""

from __future__ import annotations

import asyncio

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.transactions.transaction_messages import TransactionFilter, TransactionListing
from tests.broker.transactions.harness import TransactionsHarness, run_scenario


def listed(harness: TransactionsHarness, pattern: str | None = None) -> TransactionListing:
    """Return the list, which must be given at once."""
    answers: list[TransactionListing] = []
    harness.coordinator.list_transactions(TransactionFilter(pattern=pattern), answers.append)
    (answer,) = answers
    return answer


def test_pattern_matches_whole_ids() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        for transactional_id in ("orders-1", "orders-2", "old-orders-1"):
            harness.begin(transactional_id=transactional_id)
        listing = listed(harness, pattern="orders-.")
        assert sorted(each for each, _ in listing.transactions) == ["orders-1", "orders-2"]

    run_scenario(scenario)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 5_000 + ")" * 5_000])
def test_pattern_that_is_none_is_refused(pattern: str) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        assert listed(harness, pattern=pattern).error is ErrorCode.INVALID_REGULAR_EXPRESSION

    run_scenario(scenario)


def test_others_have_their_turn_while_a_long_list_is_made() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        transactional_id = "b" * 300
        harness.begin(transactional_id=transactional_id)
        answers: list[TransactionListing] = []
        # As many ways through the expression as it may have steps.
        given = TransactionFilter(pattern="|".join(["[ab]*b[ab]{240}"] * 8))
        harness.coordinator.list_transactions(given, answers.append)
        assert not answers
        for _ in range(60):
            await asyncio.sleep(0.001)
        (answer,) = answers
        assert [each for each, _ in answer.transactions] == [transactional_id]

    run_scenario(scenario)
