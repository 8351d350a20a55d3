"""Every purgatory of the process, as observable instruments of OpenTelemetry."""

from __future__ import annotations

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the package opentelemetry-sdk is not installed")

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    Gauge,
    InMemoryMetricReader,
    Metric,
    NumberDataPoint,
    Sum,
)

from request_purgatory import ManualClock
from request_purgatory.metrics._process_metrics import build_labels
from request_purgatory.metrics.opentelemetry import observe_purgatories
from tests.conftest import MakePurgatory
from tests.support.requests import Request


def read(reader: InMemoryMetricReader) -> dict[str, Metric]:
    """Return one reading of all instruments, by name."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def value(metric: Metric, attribute: str) -> float:
    """Return the value for the purgatory or timer `observed`."""
    assert isinstance(metric.data, (Gauge, Sum))
    (found,) = (
        point.value
        for point in metric.data.data_points
        if isinstance(point, NumberDataPoint)
        and point.attributes is not None
        and point.attributes[attribute] == "observed"
    )
    return found


def test_instruments_are_those_of_prometheus(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock
) -> None:
    readers = [InMemoryMetricReader(), InMemoryMetricReader()]
    provider = MeterProvider(readers)
    observe_purgatories(provider.get_meter("test"))
    purgatory = make_wheel_purgatory("observed")
    purgatory._counters.record_callback_times(1_500, 20)
    completed, cancelled = Request(), Request()
    for request in (completed, cancelled, Request(60_000)):
        purgatory.try_complete_else_watch(request, ["a", "b"])
    clock.advance(250)
    completed.force_complete()
    expected = {
        "purgatory.pending": 2,
        "purgatory.watched": 6,
        "purgatory.longest_callback": 0.02,
        "purgatory.reaper_lateness": 1.5,
        "purgatory.completed": 1,
        "purgatory.expired": 0,
        "purgatory.cancelled": 0,
        "purgatory.purges": 0,
        "purgatory.purged_entries": 0,
        "purgatory.callback_errors": 0,
        "purgatory.wait": 0.25,
    }
    held = purgatory.hold(["a"], until=lambda: 1, name="look")
    assert held.result(0) == 1
    expected["purgatory.completed"] = 2
    for reader in readers:
        found = read(reader)
        holds = {name: found.pop(name) for name in list(found) if "hold" in name}
        (looks,) = holds["purgatory.hold.completed"].data.data_points
        assert (dict(looks.attributes or {})["hold"], looks.value) == ("look", 1)
        assert set(holds) == {
            f"purgatory.hold.{name}"
            for name in ("pending", "completed", "expired", "cancelled", "wait")
        }
        (build,) = found.pop("purgatory.build").data.data_points
        assert build.attributes == build_labels()
        timers = {name: value(found.pop(name), "timer") for name in list(found) if "timer" in name}
        assert timers == {"purgatory.timer.pending": 2, "purgatory.timer.callback_errors": 0}
        assert {name: value(metric, "purgatory") for name, metric in found.items()} == expected
        assert {name for name in found if found[name].unit == "s"} == {
            *("purgatory.longest_callback", "purgatory.reaper_lateness", "purgatory.wait")
        }
        assert {name for name in found if isinstance(found[name].data, Gauge)} == {
            *("purgatory.pending", "purgatory.watched"),
            *("purgatory.longest_callback", "purgatory.reaper_lateness"),
        }
    cancelled.cancel()
    assert value(read(readers[0])["purgatory.cancelled"], "purgatory") == 1
    provider.shutdown()
