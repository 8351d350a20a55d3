"""Metrics for OpenTelemetry, by its package `opentelemetry-api`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from request_purgatory.errors import InvalidArgumentError
from request_purgatory.metrics.instruments import (
    BUILD,
    OF_PURGATORIES,
    OF_TIMERS,
    WAIT,
    Instrument,
    build_labels,
)
from request_purgatory.metrics.process_metrics import ProcessMetrics


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
    for instrument in (*OF_PURGATORIES, WAIT):
        _observe(meter, instrument, "purgatory", process.purgatories)
    for instrument in OF_TIMERS:
        _observe(meter, instrument, "timer", process.timers)
    meter.create_observable_gauge(
        f"purgatory.{BUILD.name}",
        [lambda _: [Observation(1, build_labels())]],
        unit="1",
        description=BUILD.text,
    )


def _observe(
    meter: Meter, instrument: Instrument, attribute: str, read: Callable[[], Mapping[str, object]]
) -> None:
    def values(options: CallbackOptions) -> Iterable[Observation]:  # noqa: ARG001 - its interface
        return _observations(instrument, attribute, read())

    # Their signatures differ in what they return.
    create: Callable[..., object] = meter.create_observable_gauge
    if instrument.is_counter:
        create = meter.create_observable_counter
    create(
        f"purgatory.{instrument.name.replace('timer_', 'timer.')}",
        [values],
        unit="s" if instrument.in_seconds else "1",
        description=instrument.text,
    )


def _observations(
    instrument: Instrument, attribute: str, readings: Mapping[str, object]
) -> Iterator[Observation]:
    for name, metrics in readings.items():
        yield Observation(instrument.value(metrics), {attribute: name})
