"""Metrics for Prometheus, by the library prometheus-client: the extra `[metrics]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from request_purgatory.metrics.instruments import (
    BUILD,
    OF_PURGATORIES,
    OF_TIMERS,
    WAIT,
    Instrument,
    build_labels,
)
from request_purgatory.metrics.process_metrics import ProcessMetrics, TimerMetrics
from request_purgatory.purgatory.counters import PurgatoryMetrics


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
    for instrument in OF_PURGATORIES:
        yield _family(instrument, "purgatory", purgatories)
    waits = HistogramMetricFamily("purgatory_wait_seconds", WAIT.text, labels=["purgatory"])
    for purgatory, metrics in purgatories.items():
        waits.add_metric([_label(purgatory)], _buckets(metrics), WAIT.value(metrics))
    yield waits
    for instrument in OF_TIMERS:
        yield _family(instrument, "timer", timers)
    yield InfoMetricFamily(f"purgatory_{BUILD.name}", BUILD.text, value=build_labels())


def _family(instrument: Instrument, label: str, readings: Mapping[str, object]) -> Metric:
    """Return one metric of all purgatories, or of all timers."""
    name = f"purgatory_{instrument.name}{'_seconds' if instrument.in_seconds else ''}"
    kind = CounterMetricFamily if instrument.is_counter else GaugeMetricFamily
    family = kind(name, instrument.text, labels=[label])
    for labelled, metrics in readings.items():
        family.add_metric([_label(labelled)], instrument.value(metrics))
    return family


def _label(name: str) -> str:
    """Return a name as UTF-8 can have it: one lone surrogate would end the whole reading."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


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
