"""The metrics of a node's purgatories, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass

from purgatory_broker.replication.delayed_fetch import FetchExpirations
from request_purgatory.aio import Purgatory


@dataclass(slots=True)
class NodeMetrics:
    """`ExpiresPerSec` is the mean rate since the start, as `MeanRate` of Kafka's meter."""

    purgatories: dict[str, Purgatory]
    fetch_expirations: FetchExpirations
    #: The time of the node's start, on the clock of `read`.
    started_ms: int = 0

    def read(self, now_ms: int) -> dict[str, dict[str, float]]:
        seconds = (now_ms - self.started_ms) / 1_000

        def expirations(prefix: str, count: int) -> dict[str, float]:
            rate = count / seconds if seconds > 0 else 0.0
            return {f"{prefix}Expires": count, f"{prefix}ExpiresPerSec": rate}

        values: dict[str, dict[str, float]] = {}
        for name, purgatory in self.purgatories.items():
            metrics = purgatory.metrics()
            values[name] = {
                "PurgatorySize": metrics.purgatory_size,
                "NumDelayedOperations": metrics.num_delayed_operations,
                "Completions": metrics.completions,
                "Cancellations": metrics.cancellations,
                "Purges": metrics.purges,
                "CallbackErrors": metrics.callback_errors,
                **expirations("", metrics.expirations),
            }
        values["Fetch"] |= expirations("follower.", self.fetch_expirations.follower)
        values["Fetch"] |= expirations("consumer.", self.fetch_expirations.consumer)
        return values
