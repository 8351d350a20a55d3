"""Metrics for Prometheus, by the library prometheus-client: the extra `[metrics]`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from request_purgatory.metrics._process_metrics import BUILD_HELP, ProcessMetrics, build_labels
from request_purgatory.purgatory._metric_table import (
    OF_HOLDS,
    OF_PURGATORIES,
    OF_TIMERS,
    Metric,
    PurgatoryMetrics,
    bucket_index,
)

#: The limits of Prometheus' buckets, which are limits of the histogram's, too: each ms up to 8,
#: four for each doubling up to 65 s, and one from there on.
LIMITS_MS = (
    *range(1, 9),
    *(2**power * quarters for power in range(1, 14) for quarters in (5, 6, 7, 8)),
    *(2**power for power in range(17, 31)),
)


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

    def collect(self) -> Iterable[Family]:
        """Return all metrics as of now."""
        return list(_families(self._process))

    def describe(self) -> Iterable[Family]:
        """Return all metrics without values: a registry asks for their names."""
        return list(_families(None))


def _families(process: ProcessMetrics | None) -> Iterator[Family]:
    purgatories = {} if process is None else process.purgatories()
    holds = {} if process is None else process.holds()
    timers = {} if process is None else process.timers()
    by_purgatory: dict[tuple[str, ...], PurgatoryMetrics] = {
        (name,): reading for name, reading in purgatories.items()
    }
    yield from _of_purgatories(OF_PURGATORIES, ["purgatory"], by_purgatory)
    yield from _of_purgatories(OF_HOLDS, ["purgatory", "hold"], holds)
    by_timer: dict[tuple[str, ...], object] = {(name,): reading for name, reading in timers.items()}
    for metric in OF_TIMERS:
        yield _family(metric, ["timer"], by_timer)
    yield InfoMetricFamily("purgatory_build", BUILD_HELP, value=build_labels())


def _of_purgatories(
    table: Sequence[Metric],
    labels: Sequence[str],
    readings: Mapping[tuple[str, ...], PurgatoryMetrics],
) -> Iterator[Family]:
    histograms = {metric.name for metric in table if metric.kind == "histogram"}
    for metric in table:
        if metric.kind == "histogram":
            yield _histogram(metric, labels, readings)
        elif metric.name and metric.name not in histograms:  # A histogram has its own sum.
            yield _family(metric, labels, readings)


def _family(
    metric: Metric, labels: Sequence[str], readings: Mapping[tuple[str, ...], object]
) -> Family:
    kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
    family = kind(_name(metric), metric.help, labels=labels)
    for names, reading in readings.items():
        family.add_metric([_label(name) for name in names], metric.exported(reading))
    return family


def _histogram(
    metric: Metric, labels: Sequence[str], readings: Mapping[tuple[str, ...], PurgatoryMetrics]
) -> Family:
    family = HistogramMetricFamily(_name(metric), metric.help, labels=labels)
    for names, reading in readings.items():
        buckets = _buckets(getattr(reading, metric.field))
        family.add_metric([_label(name) for name in names], buckets, reading.total_wait_ms / 1000)
    return family


def _name(metric: Metric) -> str:
    return f"purgatory_{metric.name}{'_seconds' if metric.in_seconds else ''}"


def _label(name: str) -> str:
    """Return a name as UTF-8 can have it: one lone surrogate would end the whole reading."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def _buckets(counts: Sequence[int]) -> list[tuple[str, float]]:
    """Return the waiting-time histogram as cumulated counts, by the limits in seconds."""
    cumulated = [0, *accumulate(counts)]
    limits = [(str(ms / 1000), float(cumulated[bucket_index(ms)])) for ms in LIMITS_MS]
    return [*limits, ("+Inf", cumulated[-1])]
