"""The metrics of a node's purgatories, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from request_purgatory.aio import Purgatory


@dataclass(slots=True)
class FetchExpirations:
    follower: int = 0
    consumer: int = 0

    def count(self, *, follower: bool) -> None:
        if follower:
            self.follower += 1
        else:
            self.consumer += 1


class NodeMetrics:
    """`ExpiresPerSec` is the mean rate since the start, as `MeanRate` of Kafka's meter."""

    def __init__(
        self, purgatories: dict[str, Purgatory], fetch_expirations: FetchExpirations
    ) -> None:
        self._purgatories = purgatories
        self._fetch_expirations = fetch_expirations
        #: The time of the node's start, on the clock of `read`.
        self.started_ms = 0

    def read(self, now_ms: int) -> dict[str, dict[str, float]]:
        values: dict[str, dict[str, float]] = {}
        counts: dict[str, int] = {}
        for name, purgatory in self._purgatories.items():
            metrics = purgatory.metrics()
            values[name] = {
                "PurgatorySize": metrics.purgatory_size,
                "NumDelayedOperations": metrics.num_delayed_operations,
                "Completions": metrics.completions,
                "Cancellations": metrics.cancellations,
                "Purges": metrics.purges,
                "CallbackErrors": metrics.callback_errors,
            }
            counts[name] = metrics.expirations
        counts["Fetch.follower"] = self._fetch_expirations.follower
        counts["Fetch.consumer"] = self._fetch_expirations.consumer
        seconds = (now_ms - self.started_ms) / 1_000
        for name, count in counts.items():
            purgatory_name, _, fetcher = name.partition(".")
            prefix = f"{fetcher}." if fetcher else ""
            values[purgatory_name][f"{prefix}Expires"] = count
            values[purgatory_name][f"{prefix}ExpiresPerSec"] = (
                count / seconds if seconds > 0 else 0.0
            )
        return values
