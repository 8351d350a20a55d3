"""The transactions of a coordinator that a client asks for."""

from __future__ import annotations

from collections.abc import Generator, Iterable

from purgatory_broker._wire.error_code import ErrorCode
from purgatory_broker.patterns.cursor import PatternError
from purgatory_broker.patterns.pattern import Pattern
from purgatory_broker.transactions.transaction import Transaction, TransactionState
from purgatory_broker.transactions.transaction_messages import (
    TransactionFilter,
    TransactionListing,
)

#: The transactions between two turns of others on the event loop: some 2 ms.
_PER_SLICE = 2_000


def list_transactions(
    transactions: Iterable[Transaction], given: TransactionFilter, now_ms: int
) -> Generator[None, None, TransactionListing]:
    """Look for the transactions in slices; return those that the filter lets through."""
    try:
        pattern = None if given.pattern is None else Pattern(given.pattern)
    except PatternError:
        return TransactionListing(ErrorCode.INVALID_REGULAR_EXPRESSION)
    found = []
    for number, transaction in enumerate(transactions, 1):
        value = transaction.value
        if (
            (not given.producer_ids or value.producer_id in given.producer_ids)
            and (not given.states or transaction.state.value in given.states)
            and (given.duration_ms < 0 or now_ms - value.start_ms > given.duration_ms)
            and (pattern is None or (yield from pattern.match(transaction.transactional_id)))
        ):
            found.append((transaction.transactional_id, value))
        if number % _PER_SLICE == 0:
            yield
    unknown = given.states - {state.value for state in TransactionState}
    return TransactionListing(unknown_states=tuple(sorted(unknown)), transactions=tuple(found))
