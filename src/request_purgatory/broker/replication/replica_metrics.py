"""The metrics of a node's purgatories, by Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from request_purgatory.aio import Purgatory


@dataclass(slots=True)
class FetchExpirations:
    """The number of fetches that timed out, of followers and of consumers."""

    follower: int = 0
    consumer: int = 0

    def count(self, *, follower: bool) -> None:
        """Count one fetch."""
        if follower:
            self.follower += 1
        else:
            self.consumer += 1


@dataclass(frozen=True, slots=True)
class ExpirationCounts:
    """Counts of timeouts at one time, to compute rates between two readings."""

    at_ms: int
    counts: dict[str, int] = field(default_factory=dict)


class NodeMetrics:
    """The metrics of a node's purgatories.

    `ExpiresPerSec` is the rate since the previous reading; 0 at the first.
    """

    def __init__(
        self, purgatories: dict[str, Purgatory], fetch_expirations: FetchExpirations
    ) -> None:
        self._purgatories = purgatories
        self._fetch_expirations = fetch_expirations
        self._previous: ExpirationCounts | None = None

    def read(self, now_ms: int) -> dict[str, dict[str, float]]:
        """Read the metrics of all purgatories.

        Args:
            now_ms: the current time in milliseconds, on any monotonic clock.

        Returns:
            By purgatory and metric: PurgatorySize, NumDelayedOperations, Completions,
            Cancellations, Expires, ExpiresPerSec, Purges and CallbackErrors. `Fetch` also has
            `follower.` and `consumer.` variants of Expires and ExpiresPerSec.
        """
        found: dict[str, dict[str, float]] = {}
        counts: dict[str, int] = {}
        for name, purgatory in self._purgatories.items():
            metrics = purgatory.metrics()
            found[name] = {
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
        previous = self._previous
        for name, count in counts.items():
            purgatory_name, _, fetcher = name.partition(".")
            prefix = f"{fetcher}." if fetcher else ""
            seconds = 0.0 if previous is None else (now_ms - previous.at_ms) / 1_000
            rate = (
                (count - previous.counts[name]) / seconds
                if previous is not None and seconds > 0
                else 0.0
            )
            found[purgatory_name][f"{prefix}Expires"] = count
            found[purgatory_name][f"{prefix}ExpiresPerSec"] = rate
        self._previous = ExpirationCounts(now_ms, counts)
        return found
