"""Metrics for OpenTelemetry, by its package `opentelemetry-api`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.metrics._process_metrics import BUILD_HELP, ProcessMetrics, build_labels
from request_purgatory.purgatory._metric_table import OF_HOLDS, OF_PURGATORIES, OF_TIMERS, Metric


def observe_purgatories(meter: Meter) -> None:
    """Create observable instruments for every purgatory of the process, and its timers.

    Call it once: `observe_purgatories(opentelemetry.metrics.get_meter("my-service"))`. The
    instruments are those of `metrics.prometheus`, with dots in their names: `purgatory.pending`,
    with the purgatory's name as the attribute `purgatory`. OpenTelemetry has no observable
    histogram: `purgatory.wait` is the seconds that all ended operations waited.

    Args:
        meter: What the instruments belong to. It reads them as often as its provider exports, each
            in O(watched keys) for each purgatory.

    Raises:
        InvalidArgumentError: `meter` is none.
    """
    if not isinstance(meter, Meter):
        raise InvalidArgumentError("meter", "a Meter of OpenTelemetry", meter)
    process = ProcessMetrics()
    for metric in OF_PURGATORIES:
        if metric.name and metric.kind != "histogram":
            _observe(meter, metric, ("purgatory",), lambda: _keyed(process.purgatories()))
    for metric in OF_HOLDS:
        if metric.kind != "histogram":
            _observe(meter, metric, ("purgatory", "hold"), process.holds)
    for metric in OF_TIMERS:
        _observe(meter, metric, ("timer",), lambda: _keyed(process.timers()))
    meter.create_observable_gauge(
        "purgatory.build",
        [lambda _: [Observation(1, build_labels())]],
        unit="1",
        description=BUILD_HELP,
    )


def _keyed(readings: Mapping[str, object]) -> dict[tuple[str, ...], object]:
    return {(name,): reading for name, reading in readings.items()}


def _observe(
    meter: Meter,
    metric: Metric,
    attributes: tuple[str, ...],
    read: Callable[[], Mapping[tuple[str, ...], object]],
) -> None:
    def values(options: CallbackOptions) -> Iterable[Observation]:  # noqa: ARG001 - its interface
        for names, reading in read().items():
            yield Observation(metric.exported(reading), dict(zip(attributes, names, strict=True)))

    # Their signatures differ in what they return.
    create: Callable[..., object] = meter.create_observable_gauge
    if metric.kind == "counter":
        create = meter.create_observable_counter
    create(
        f"purgatory.{metric.name.replace('timer_', 'timer.').replace('hold_', 'hold.')}",
        [values],
        unit="s" if metric.in_seconds else "1",
        description=metric.help,
    )
