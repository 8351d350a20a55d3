"""The end of a transaction, as the coordinator tells it to the leaders of its partitions."""

from __future__ import annotations

from typing import NamedTuple


class TransactionMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    is_commit: bool
    #: The leader epoch of the coordinator's partition: a marker of an earlier one is refused.
    coordinator_epoch: int
    #: The transaction's version, of the feature `transaction.version`: 2 since KIP-890's second part.
    version: int = 0
