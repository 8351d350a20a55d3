"""Metrics for Prometheus, by the library prometheus-client: the extra `[metrics]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from request_purgatory.extras import install_command

try:
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        Metric,
    )
    from prometheus_client.registry import Collector
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"the Python package {error.name!r} is not installed: {install_command('metrics')}",
        name=error.name,
    ) from error

from request_purgatory.metrics.process_metrics import ProcessMetrics, TimerMetrics
from request_purgatory.purgatory.counters import PurgatoryMetrics

#: Metrics of a purgatory with one value, by name: the field of PurgatoryMetrics, what one unit of
#: the field is in the metric's unit, and the help text.
_GAUGES = {
    "purgatory_pending": (
        "num_delayed_operations",
        1,
        "Operations that wait (Kafka: NumDelayedOperations).",
    ),
    "purgatory_watched": (
        "purgatory_size",
        1,
        "Entries in watcher lists, ended operations until the next purge included "
        "(Kafka: PurgatorySize).",
    ),
    "purgatory_longest_callback_seconds": (
        "max_callback_ms",
        0.001,
        "Longest run of one expiration's callbacks since the start.",
    ),
    "purgatory_reaper_lateness_seconds": (
        "max_late_ms",
        0.001,
        "Largest delay of an expiration behind its deadline since the start.",
    ),
}
_COUNTERS = {
    "purgatory_completed": ("completions", "Operations that completed."),
    "purgatory_expired": ("expirations", "Operations that expired (Kafka: ExpiresPerSec)."),
    "purgatory_cancelled": ("cancellations", "Operations that were cancelled."),
    "purgatory_purges": ("purges", "Purges of the watcher lists."),
    "purgatory_purged_entries": ("purged_entries", "Entries that purges removed."),
    "purgatory_callback_errors": (
        "callback_errors",
        "Exceptions that operations' code raised and the purgatory logged.",
    ),
}
_LABELS = ["purgatory"]
_TIMER_LABELS = ["timer"]


class PurgatoryCollector(Collector):
    """Exports every purgatory of the process, by its name as the label `purgatory`, and its timers.

    Those of threads and of asyncio, and those of a broker in this process, whenever they are made.
    Purgatories of one name are added up; `ProcessMetrics` says how. Register it once:

    >>> from prometheus_client import CollectorRegistry, generate_latest
    >>> from request_purgatory import DelayedOperationPurgatory
    >>> registry = CollectorRegistry()
    >>> registry.register(PurgatoryCollector())
    >>> with DelayedOperationPurgatory("orders") as purgatory:
    ...     held = purgatory.hold(["orders-0"], until=lambda: False, timeout=60)
    ...     registry.get_sample_value("purgatory_pending", {"purgatory": "orders"})
    1

    A reading takes O(watched keys) for each purgatory, and resets nothing.
    """

    def __init__(self) -> None:
        self._process = ProcessMetrics()

    def collect(self) -> Iterable[Metric]:
        """Return all metrics as of now."""
        return list(_families(self._process.purgatories(), self._process.timers()))

    def describe(self) -> Iterable[Metric]:
        """Return all metrics without values: a registry asks for their names."""
        return list(_families({}, {}))


def _families(
    purgatories: Mapping[str, PurgatoryMetrics], timers: Mapping[str, TimerMetrics]
) -> Iterator[Metric]:
    for name, (field, unit, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(name, text, labels=_LABELS)
        for purgatory, metrics in purgatories.items():
            gauge.add_metric([purgatory], getattr(metrics, field) * unit)
        yield gauge
    for name, (field, text) in _COUNTERS.items():
        counter = CounterMetricFamily(name, text, labels=_LABELS)
        for purgatory, metrics in purgatories.items():
            counter.add_metric([purgatory], getattr(metrics, field))
        yield counter
    waits = HistogramMetricFamily(
        "purgatory_wait_seconds",
        "How long operations waited until they ended in any way.",
        labels=_LABELS,
    )
    for purgatory, metrics in purgatories.items():
        waits.add_metric([purgatory], _buckets(metrics), metrics.total_wait_ms / 1000)
    yield waits
    pending = GaugeMetricFamily(
        "purgatory_timer_pending", "Tasks that are pending in timers.", labels=_TIMER_LABELS
    )
    errors = CounterMetricFamily(
        "purgatory_timer_callback_errors",
        "Exceptions that timers' tasks raised and the timer logged.",
        labels=_TIMER_LABELS,
    )
    for timer, reading in timers.items():
        pending.add_metric([timer], reading.pending)
        errors.add_metric([timer], reading.callback_errors)
    yield pending
    yield errors


def _buckets(metrics: PurgatoryMetrics) -> list[tuple[str, float]]:
    """Return the waiting-time histogram as cumulated counts, by the limits in seconds."""
    counts = metrics.wait_histogram_ms
    limits = [*(str(2**index / 1000) for index in range(len(counts) - 1)), "+Inf"]
    cumulated = 0
    found: list[tuple[str, float]] = []
    for limit, count in zip(limits, counts, strict=True):
        cumulated += count
        found.append((limit, cumulated))
    return found
