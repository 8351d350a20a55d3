"""Where our broker does not do as Kafka does, on purpose: the case, and why."""

from __future__ import annotations

DIFFERENCES: dict[str, str] = {
    "find_coordinator_of_a_transaction": "there are no transactions, and who asks for their coordinator is told so at once",
}
