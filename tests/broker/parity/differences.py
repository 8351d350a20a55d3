"""Deliberate differences from Kafka: the case, and the reason."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "find_coordinator_of_a_transaction": (
        "there are no transactions: the error says so at once, instead of being retriable"
    ),
}
