"""Deliberate differences from Kafka: the case, and the reason."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "replace_a_reassignment": (
        "a replica that the later reassignment wants stays: Kafka goes on removing it"
    ),
    "find_coordinator_of_a_transaction": (
        "there are no transactions: the error says so at once, instead of being retriable"
    ),
}
