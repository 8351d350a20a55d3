"""What a node counts, under Kafka's names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from request_purgatory.aio import Purgatory


@dataclass(slots=True)
class FetchExpirations:
    """How many fetches ran out of time, by who sent them."""

    follower: int = 0
    consumer: int = 0

    def count(self, *, follower: bool) -> None:
        """One more."""
        if follower:
            self.follower += 1
        else:
            self.consumer += 1


@dataclass(frozen=True, slots=True)
class ExpirationRates:
    """Ends by timeout and the moment at which they were counted, for rates between two readings."""

    at_ms: int
    counts: dict[str, int] = field(default_factory=dict)


class NodeMetrics:
    """The metrics of a node's purgatories.

    `ExpiresPerSec` is over the time since the reading before, as whoever polls a meter expects; 0
    at the first.
    """

    def __init__(
        self, purgatories: dict[str, Purgatory], fetch_expirations: FetchExpirations
    ) -> None:
        self._purgatories = purgatories
        self._fetch_expirations = fetch_expirations
        self._before: ExpirationRates | None = None

    def read(self, now_ms: int) -> dict[str, dict[str, float]]:
        """PurgatorySize, NumDelayedOperations, Expires and ExpiresPerSec by purgatory.

        Fetch by follower and consumer too.
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
        before = self._before
        for name, count in counts.items():
            purgatory_name, _, whose = name.partition(".")
            prefix = f"{whose}." if whose else ""
            seconds = 0.0 if before is None else (now_ms - before.at_ms) / 1_000
            rate = (
                (count - before.counts[name]) / seconds
                if before is not None and seconds > 0
                else 0.0
            )
            found[purgatory_name][f"{prefix}Expires"] = count
            found[purgatory_name][f"{prefix}ExpiresPerSec"] = rate
        self._before = ExpirationRates(now_ms, counts)
        return found
