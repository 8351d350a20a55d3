"""What purgatories and timers count: one table of names, kinds, units and meanings.

Readings are added up by it, and every export, the table in docs/how_to/metrics.md and the
dashboard for Grafana are made from it or compared with it. A new counter needs a row here, a field
of `PurgatoryMetrics`, and its place in `PurgatoryCounters`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypeVar

from request_purgatory.errors import InvalidArgumentError

Kind: TypeAlias = Literal["counter", "gauge", "maximum", "histogram"]

Reading = TypeVar("Reading")


@dataclass(frozen=True, slots=True)
class Metric:
    """A row of the table.

    Attributes:
        field: The field of a reading, in whole milliseconds if it ends with `_ms`.
        kind: A counter only grows; a gauge may fall; a maximum is the largest since the start.
        meaning: A sentence.
        name: The name in exports, without prefix and unit; empty if it is not exported.
        key: The name in `PurgatoryMetrics.by_kafka_name`; empty if it has none.
        kafka: The name of the metric of Kafka's broker that it is; empty if there is none.
    """

    field: str
    kind: Kind
    meaning: str
    name: str = ""
    key: str = ""
    kafka: str = ""

    @property
    def in_seconds(self) -> bool:
        """True for times, which exports have in seconds."""
        return self.field.endswith("_ms")

    @property
    def help(self) -> str:
        """The meaning, with Kafka's name, for exports."""
        return f"{self.meaning[:-1]} (Kafka: {self.kafka})." if self.kafka else self.meaning

    def exported(self, reading: object) -> float:
        """Return the value of a reading in the unit of exports."""
        value: int = getattr(reading, self.field)
        return value / 1000 if self.in_seconds else value

    def added_up(self, one: Any, other: Any) -> Any:
        """Return the value for two purgatories or timers of one name."""
        if self.kind == "maximum":
            return max(one, other)
        if self.kind == "histogram":
            return tuple(map(sum, zip(one, other, strict=True)))
        return one + other


OF_PURGATORIES = (
    Metric(
        "num_delayed_operations",
        "gauge",
        "Operations that wait; exact.",
        "pending",
        "NumDelayedOperations",
        "NumDelayedOperations",
    ),
    Metric(
        "purgatory_size",
        "gauge",
        "Entries in watcher lists: one for each key, and ended operations until the next purge.",
        "watched",
        "PurgatorySize",
        "PurgatorySize",
    ),
    Metric(
        "estimated_operations",
        "gauge",
        "The estimated number of operations in the watcher lists, ended or not.",
    ),
    Metric("completions", "counter", "Operations that completed.", "completed", "Completions"),
    Metric(
        "expirations",
        "counter",
        "Operations that expired.",
        "expired",
        "Expires",
        "ExpiresPerSec, as a count",
    ),
    Metric(
        "cancellations", "counter", "Operations that were cancelled.", "cancelled", "Cancellations"
    ),
    Metric(
        "wait_histogram_ms", "histogram", "How long operations waited until they ended.", "wait"
    ),
    Metric("total_wait_ms", "counter", "How long all ended operations waited, together.", "wait"),
    Metric(
        "callback_errors",
        "counter",
        "Exceptions of operations' own code that the purgatory logged.",
        "callback_errors",
        "CallbackErrors",
    ),
    Metric(
        "max_callback_ms",
        "maximum",
        "The longest run of one expiration's callbacks since the start.",
        "longest_callback",
        "MaxExpirationCallbackMs",
    ),
    Metric(
        "max_late_ms",
        "maximum",
        "The largest delay of an expiration behind its deadline since the start.",
        "reaper_lateness",
        "MaxExpirationLateMs",
    ),
    Metric("purges", "counter", "Purges of the watcher lists.", "purges", "Purges"),
    Metric("purged_entries", "counter", "Entries that purges removed.", "purged_entries"),
)

#: Those that are counted for each name of holds, too.
OF_HOLDS = tuple(
    replace(
        metric,
        name=f"hold_{metric.name}",
        meaning=f"By the name of a hold: {metric.meaning[0].lower()}{metric.meaning[1:]}",
        kafka="",
    )
    for metric in OF_PURGATORIES
    if metric.name in ("pending", "completed", "expired", "cancelled", "wait")
)

OF_TIMERS = (
    Metric("pending", "gauge", "Tasks that are pending in timers.", "timer_pending"),
    Metric(
        "callback_errors",
        "counter",
        "Exceptions of timers' tasks that the timer logged.",
        "timer_callback_errors",
    ),
)


def add_up(table: Iterable[Metric], one: Reading, other: Reading) -> Reading:
    """Return the sum of two readings, which has the larger one of two maxima."""
    # A field without a row is missing in this call, which raises.
    return type(one)(
        **{
            metric.field: metric.added_up(getattr(one, metric.field), getattr(other, metric.field))
            for metric in table
        }
    )


def bucket_start_ms(index: int) -> int:
    """Return the shortest wait that a bucket of the histogram counts.

    Log-linear, as HdrHistogram: a bucket for each ms below 128, and 64 for each further doubling.
    So a bucket's middle is less than 1 % from each wait in it.
    """
    shift = max(0, index // 64 - 1)
    return (index - 64 * shift) << shift


def bucket_index(waited_ms: int) -> int:
    """Return the bucket of a wait of at least 0 ms, were there no last one."""
    shift = max(0, waited_ms.bit_length() - 7)
    return 64 * shift + (waited_ms >> shift)


@dataclass(frozen=True, slots=True)
class PurgatoryMetrics:
    """One consistent reading of a purgatory's counters.

    Each operation that ended is counted once. `wait_histogram_ms` has 1,664 numbers: number i, up
    to 127, is that of the operations that waited for i whole ms. From there on 64 numbers have the
    waits up to twice as long, in equal steps: 128 and 129 ms, and so on. The last one has all
    longer waits. `wait_percentile_ms` reads it. On a ManualClock, whose time jumps, `max_late_ms`
    is 0.
    """

    purgatory_size: int
    num_delayed_operations: int
    estimated_operations: int
    completions: int
    expirations: int
    cancellations: int
    purges: int
    purged_entries: int
    callback_errors: int
    max_late_ms: int
    max_callback_ms: int
    wait_histogram_ms: tuple[int, ...]
    total_wait_ms: int

    def wait_percentile_ms(self, percent: float) -> float | None:
        """Return the time within which this share of the operations had ended, within 1 %.

        Args:
            percent: From 0 to 100, such as 99.9.

        Returns:
            Milliseconds, below 128 whole ones; None if no operation has ended.

        Raises:
            InvalidArgumentError: `percent` is no number from 0 to 100.
        """
        if (
            isinstance(percent, bool)
            or not isinstance(percent, (int, float))
            or not (0 <= percent <= 100)
        ):
            raise InvalidArgumentError("percent", "a number from 0 to 100", percent)
        left = max(1, math.ceil(sum(self.wait_histogram_ms) * percent / 100))
        for index, count in enumerate(self.wait_histogram_ms):
            left -= count
            if left <= 0:
                return (bucket_start_ms(index) + bucket_start_ms(index + 1) - 1) / 2
        return None

    def by_kafka_name(self) -> dict[str, int]:
        """Return the counters by metric name, in the style of Kafka's broker.

        Returns:
            The first two names are those of Kafka's `DelayedOperationPurgatory` metrics.
        """
        return {metric.key: getattr(self, metric.field) for metric in OF_PURGATORIES if metric.key}


# From 3.13 on, the compiler takes the indentation out.
PurgatoryMetrics.__doc__ = "\n".join(
    [inspect.cleandoc(f"{PurgatoryMetrics.__doc__}"), "", "Attributes:"]
    + [f"    {metric.field}: {metric.meaning}" for metric in OF_PURGATORIES]
)


@dataclass(frozen=True, slots=True)
class TimerMetrics:
    """One reading of the timers of one name; `OF_TIMERS` describes the fields."""

    pending: int
    callback_errors: int
