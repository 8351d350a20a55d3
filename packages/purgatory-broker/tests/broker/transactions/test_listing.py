"""The list of transactions that a coordinator gives, by the filter of the request."""

from __future__ import annotations

import pytest

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.transactions.transaction_messages import TransactionFilter
from tests.broker.transactions.harness import TransactionsHarness, run_scenario


def test_pattern_matches_whole_ids() -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        for transactional_id in ("orders-1", "orders-2", "old-orders-1"):
            harness.begin(transactional_id=transactional_id)
        listing = harness.coordinator.list_transactions(TransactionFilter(pattern="orders-."))
        assert sorted(listed for listed, _ in listing.transactions) == ["orders-1", "orders-2"]

    run_scenario(scenario)


@pytest.mark.parametrize("pattern", ["(", "a{99999999999999999999}", "(" * 5_000 + ")" * 5_000])
def test_pattern_that_is_none_is_refused(pattern: str) -> None:
    async def scenario(harness: TransactionsHarness) -> None:
        listing = harness.coordinator.list_transactions(TransactionFilter(pattern=pattern))
        assert listing.error is ErrorCode.INVALID_REGULAR_EXPRESSION

    run_scenario(scenario)
