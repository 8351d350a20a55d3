"""Deliberate differences from Kafka: the case, and the reason."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "replace_a_reassignment": (
        "a replica that the later reassignment wants stays: Kafka goes on removing it"
    ),
}
