"""Every purgatory of the process, as metrics for Prometheus."""

from __future__ import annotations

import asyncio
import gc
import math
import os
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="the extra [metrics] is not installed")

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from request_purgatory import (
    DelayedOperationPurgatory,
    ManualClock,
    SystemTimer,
    __compiled__,
    __version__,
    aio,
)
from request_purgatory.metrics._process_metrics import ProcessMetrics
from request_purgatory.metrics.prometheus import LIMITS_MS, PurgatoryCollector
from request_purgatory.testing import ManualPurgatory
from tests.conftest import MakePurgatory
from tests.support.children import in_child
from tests.support.requests import Request, fail

NAMES = {
    "purgatory_pending": "gauge",
    "purgatory_watched": "gauge",
    "purgatory_longest_callback_seconds": "gauge",
    "purgatory_reaper_lateness_seconds": "gauge",
    "purgatory_completed": "counter",
    "purgatory_expired": "counter",
    "purgatory_cancelled": "counter",
    "purgatory_purges": "counter",
    "purgatory_purged_entries": "counter",
    "purgatory_callback_errors": "counter",
    "purgatory_wait_seconds": "histogram",
    "purgatory_hold_pending": "gauge",
    "purgatory_hold_completed": "counter",
    "purgatory_hold_expired": "counter",
    "purgatory_hold_cancelled": "counter",
    "purgatory_hold_wait_seconds": "histogram",
    "purgatory_timer_pending": "gauge",
    "purgatory_timer_callback_errors": "counter",
    "purgatory_build": "info",
}

Value = Callable[..., float | None]


def parsed(text: str) -> list[Metric]:
    """Return the metrics of a page in OpenMetrics, which has to be valid."""
    parse: Any = text_string_to_metric_families  # The library has no types for it.
    return list(parse(text))


@pytest.fixture
def registry() -> CollectorRegistry:
    """Return a registry of its own with the collector."""
    registry = CollectorRegistry(auto_describe=True)
    registry.register(PurgatoryCollector())
    return registry


@pytest.fixture
def value(registry: CollectorRegistry) -> Value:
    """Return a function that reads a sample of one purgatory."""

    def read(name: str, purgatory: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"purgatory": purgatory, **labels})

    return read


def test_counters_are_exported_with_units(
    make_wheel_purgatory: MakePurgatory, clock: ManualClock, value: Value
) -> None:
    # Other tests may have left purgatories of the usual name, which would be added up.
    purgatory = make_wheel_purgatory("exported", purge_interval=0)
    requests = [Request(delay_ms) for delay_ms in (1_000, 1_000, 1_000, 10, 10, 500, 500)]
    requests[3].during["complete"] = fail
    for request in requests:
        purgatory.try_complete_else_watch(request, ["a", "b"])
    clock.advance(3)
    requests[0].ready = True
    purgatory.check_and_complete("a")
    purgatory.try_complete_else_watch(Request(ready=True), ["a"])
    requests[2].cancel()
    clock.advance(7)
    purgatory.advance_clock(0)
    assert {
        name: value(name, "exported")
        for name in (
            "purgatory_pending",
            "purgatory_watched",
            "purgatory_completed_total",
            "purgatory_expired_total",
            "purgatory_cancelled_total",
            "purgatory_purges_total",
            "purgatory_purged_entries_total",
            "purgatory_callback_errors_total",
            "purgatory_longest_callback_seconds",
            "purgatory_reaper_lateness_seconds",
        )
    } == {
        "purgatory_pending": 3,
        "purgatory_watched": 6,
        "purgatory_completed_total": 2,
        "purgatory_expired_total": 2,
        "purgatory_cancelled_total": 1,
        "purgatory_purges_total": 1,
        "purgatory_purged_entries_total": 7,
        "purgatory_callback_errors_total": 1,
        "purgatory_longest_callback_seconds": 0,
        "purgatory_reaper_lateness_seconds": 0,
    }
    # One at once, two after 3 ms and two after 10 ms.
    limits = ("0.001", "0.002", "0.004", "0.008", "0.016", "+Inf")
    waits = [value("purgatory_wait_seconds_bucket", "exported", le=limit) for limit in limits]
    assert waits == [1, 1, 3, 3, 5, 5]
    assert value("purgatory_wait_seconds_count", "exported") == 5
    assert value("purgatory_wait_seconds_sum", "exported") == pytest.approx(0.026)


def test_reaper_s_lateness_and_callbacks_are_in_seconds(value: Value) -> None:
    purgatory = DelayedOperationPurgatory("late", reaper=False)
    purgatory._counters.record_callback_times(1_500, 20)
    assert value("purgatory_reaper_lateness_seconds", "late") == 1.5
    assert value("purgatory_longest_callback_seconds", "late") == 0.02
    purgatory.close()


def test_formats_are_valid(
    purgatory: DelayedOperationPurgatory, registry: CollectorRegistry
) -> None:
    purgatory.try_complete_else_watch(Request(), ["a"])
    text = generate_latest(registry).decode()
    for name, kind in NAMES.items():
        # Its own format has no infos: they are gauges there.
        suffix = {"counter": "_total", "info": "_info"}.get(kind, "")
        kind = kind.replace("info", "gauge")
        assert f"# TYPE {name}{suffix} {kind}" in text
    generate: Any = exposition.generate_latest  # The library has no types for it.
    families = parsed(generate(registry).decode())
    assert {family.name: family.type for family in families} == NAMES
    assert all(family.documentation.endswith(".") for family in families)


def test_purgatory_of_an_event_loop_is_exported(value: Value) -> None:
    async def main() -> None:
        purgatory = aio.Purgatory("on-a-loop")
        assert value("purgatory_pending", "on-a-loop") is None
        async with purgatory:
            purgatory.hold(["a"], until=lambda: False, timeout=60)
            assert value("purgatory_pending", "on-a-loop") == 1
        assert value("purgatory_pending", "on-a-loop") == 0
        assert value("purgatory_cancelled_total", "on-a-loop") == 1

    asyncio.run(main())


def test_timers_are_exported(registry: CollectorRegistry, clock: ManualClock) -> None:
    timers = [SystemTimer("timers", clock=clock) for _ in range(2)]
    for timer in timers:
        timer.call_later_ms(10, fail)
        timer.call_later_ms(10_000, fail)
    clock.advance(10)
    timers[0].advance_clock(0)
    labels = {"timer": "timers"}
    assert registry.get_sample_value("purgatory_timer_pending", labels) == 3
    assert registry.get_sample_value("purgatory_timer_callback_errors_total", labels) == 1


def used(name: str, late_ms: int, *, completed: int = 1) -> DelayedOperationPurgatory:
    """Return a purgatory that has completed some operations, and has another pending."""
    purgatory = DelayedOperationPurgatory(name, reaper=False)
    for _ in range(completed):
        purgatory.try_complete_else_watch(Request(ready=True), ["a"])
    purgatory.try_complete_else_watch(Request(), ["a"])
    purgatory._counters.record_callback_times(late_ms, late_ms)
    return purgatory


def test_holds_are_exported_by_their_names(value: Value) -> None:
    purgatories = [ManualPurgatory("named"), ManualPurgatory("named")]
    for purgatory in purgatories:
        purgatory.hold(["a"], until=lambda: 0, name="poll")
        purgatory.hold(["a"], until=lambda: 0, timeout=0.25, name="poll")
        purgatory.hold(["a"], until=lambda: 1, name="look")
        purgatory.hold(["a"], until=lambda: 0)
        purgatory.advance(1)
    assert value("purgatory_hold_pending", "named", hold="poll") == 2
    assert value("purgatory_hold_expired_total", "named", hold="poll") == 2
    assert value("purgatory_hold_completed_total", "named", hold="look") == 2
    buckets = [
        value("purgatory_hold_wait_seconds_bucket", "named", hold="poll", le=limit)
        for limit in ("0.224", "0.256", "+Inf")
    ]
    assert buckets == [0, 2, 2]
    assert value("purgatory_hold_wait_seconds_sum", "named", hold="poll") == 0.5


def test_purgatories_of_one_name_are_added_up(value: Value) -> None:
    purgatories = [used("shared", 30), used("shared", 20, completed=2)]
    assert value("purgatory_pending", "shared") == 2
    assert value("purgatory_completed_total", "shared") == 3
    assert value("purgatory_wait_seconds_bucket", "shared", le="0.001") == 3
    assert value("purgatory_reaper_lateness_seconds", "shared") == 0.03
    for purgatory in purgatories:
        purgatory.close()


def test_counters_do_not_fall_when_one_of_several_purgatories_is_freed(value: Value) -> None:
    kept = used("freed", 20)
    freed: list[DelayedOperationPurgatory] = [used("freed", 30)]
    assert value("purgatory_completed_total", "freed") == 2
    freed[0].try_complete_else_watch(Request(ready=True), ["a"])
    freed.clear()
    gc.collect()  # What is pending refers to its purgatory.
    for _ in range(2):
        assert value("purgatory_completed_total", "freed") == 3
        assert value("purgatory_pending", "freed") == 1
        assert value("purgatory_watched", "freed") == 1
        assert value("purgatory_reaper_lateness_seconds", "freed") == 0.03
    kept.close()
    del kept
    assert value("purgatory_completed_total", "freed") is None
    again = used("freed", 1)
    assert value("purgatory_completed_total", "freed") == 1
    again.close()


def test_readers_do_not_disturb_one_another(make_wheel_purgatory: MakePurgatory) -> None:
    purgatory = make_wheel_purgatory("read")
    purgatory.try_complete_else_watch(Request(ready=True), ["a"])
    purgatory.try_complete_else_watch(Request(), ["a"])
    readings: list[list[Sample]] = []
    registries = [CollectorRegistry(), CollectorRegistry()]
    for registry in registries:
        registry.register(PurgatoryCollector())
    for registry in registries * 2:
        families = list(registry.collect())
        readings.append(
            [
                sample
                for family in families
                for sample in family.samples
                if sample.labels.get("purgatory") == "read"
            ]
        )
    assert readings[0]
    assert all(reading == readings[0] for reading in readings)
    assert purgatory.metrics().completions == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_begins_at_0() -> None:
    process = ProcessMetrics()
    kept, freed = used("forked", 1), [used("forked", 1)]
    process.purgatories()
    freed.clear()
    gc.collect()
    assert process.purgatories()["forked"].completions == 2

    def child() -> None:
        assert process.purgatories()["forked"].completions == 0

    with process._lock:
        in_child(child)
    assert process.purgatories()["forked"].completions == 2
    kept.close()


def test_metrics_are_served_by_the_library(
    make_wheel_purgatory: MakePurgatory, registry: CollectorRegistry
) -> None:
    make_wheel_purgatory("served").try_complete_else_watch(Request(), ["a"])
    server, thread = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.server_port}/metrics",
            headers={"Accept": "application/openmetrics-text; version=1.0.0"},
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            found = {family.name: family for family in parsed(response.read().decode())}
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
    samples = {sample.labels["purgatory"]: sample for sample in found["purgatory_pending"].samples}
    assert samples["served"].value == 1
    limits = [
        float(sample.labels["le"])
        for sample in found["purgatory_wait_seconds"].samples
        if sample.name.endswith("_bucket") and sample.labels["purgatory"] == "served"
    ]
    assert limits == [*(ms / 1000 for ms in LIMITS_MS), math.inf]


def test_name_that_no_encoding_has_is_escaped(registry: CollectorRegistry) -> None:
    with DelayedOperationPurgatory("half \ud800", reaper=False):
        page = generate_latest(registry).decode()
    assert r'purgatory_pending{purgatory="half \\ud800"} 0.0' in page


def test_build_is_exported(registry: CollectorRegistry) -> None:
    build = "compiled" if __compiled__ else "interpreted"
    labels = {"version": __version__, "build": build}
    assert registry.get_sample_value("purgatory_build_info", labels) == 1
