"""The end of a transaction, as the coordinator tells it to the leaders of its partitions."""

from __future__ import annotations

from typing import NamedTuple


class TransactionMarker(NamedTuple):
    producer_id: int
    producer_epoch: int
    is_commit: bool
    #: The leader epoch of the coordinator's partition: a marker of an earlier one is refused.
    coordinator_epoch: int
    #: By the feature `transaction.version`: 2 since the second part of KIP-890.
    version: int = 0
