"""Estimates for a target load, from what a simulation has measured."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from purgatory_spark._outcomes.replay import ReplaySettings
from purgatory_spark._simulation.cluster_simulation import (
    SimulationPlan,
)
from purgatory_spark._simulation.extrapolation import (
    CHECKPOINT_FACTOR,
    DAY_S,
    STREAM_ROWS_PER_CORE,
    Estimate,
    Measurement,
    TargetLoad,
    extrapolate,
)
from purgatory_spark._simulation.sizes import (
    Sizes,
    StoredBytes,
    StreamSizes,
    measure_sizes,
    require_simulated_host_fits,
)
from purgatory_spark._stream.job import StreamSettings
from purgatory_spark._traces.workload import LOW_TIMEOUT
from request_purgatory import InvalidArgumentError
from tests.spark.small_cluster import CLUSTER

SIZES = Sizes(
    pending_request=1000.0,
    future_event=80.0,
    packed_request=40.0,
    packed_event=10.0,
    stream=StreamSizes(
        request=StoredBytes(50.0, 90.0),
        event=StoredBytes(10.0, 20.0),
        waiting=StoredBytes(30.0, 80.0),
        request_id=StoredBytes(15.0, 16.0),
        key=StoredBytes(16.0, 40.0),
    ),
)


def estimates(target: TargetLoad, **measured: Any) -> dict[str, Estimate]:
    """Extrapolate from round numbers, some of which may be replaced."""
    values = {
        "requests": 2_000_000,
        "cpu_seconds": 20.0,
        "mean_wait_ms": 50.0,
        "worker_bytes": 200 * 2**20,
        "sizes": SIZES,
    }
    found = extrapolate(
        CLUSTER,
        ReplaySettings(),
        Measurement(**values | measured),
        target,
        StreamSettings(watermark_delay_ms=10_000, key_retention_ms=60_000),
    )
    return {estimate.name: estimate for estimate in found}


def test_estimates_are_the_products_in_their_formulas() -> None:
    target = TargetLoad(1e6 * DAY_S, 0.5, 8)
    found = {name: estimate.value for name, estimate in estimates(target).items()}
    assert found["requests a second"] == pytest.approx(1e6)
    assert found["hosts"] == pytest.approx(400)
    assert found["busy cores of the purgatories"] == pytest.approx(10)
    assert found["busy cores of the stream"] == pytest.approx(2e6 / STREAM_ROWS_PER_CORE)
    assert found["cores"] == math.ceil((10 + 2e6 / STREAM_ROWS_PER_CORE) / 0.5)
    assert found["executors"] == math.ceil(found["cores"] / 8)
    assert found["memory of all workers"] == found["executors"] * 8 * 200 * 2**20
    assert found["pending requests"] == pytest.approx(50_000)
    assert found["memory of pending requests"] == pytest.approx(50e6)
    assert found["memory of ended requests before a purge"] == pytest.approx(400 * 1000 * 1000)
    assert found["shuffle of a stream"] == pytest.approx(50e6)
    # A watermark delay of 10 s, 50 ms mean wait, timeouts of 100 ms, keys retained for 60 s.
    parts = {
        "rows newer than the watermark": (10e6 * 60, 10e6 * 110),
        "waiting requests": (50e3 * 30, 50e3 * 80),
        "ids in use": (100e3 * 15, 100e3 * 16),
        "retained keys": (60e6 * 16, 60e6 * 40),
    }
    for name, (stored, _) in parts.items():
        assert found[f"stream: state stores: {name}"] == pytest.approx(stored)
    stored, copied = (sum(column) for column in zip(*parts.values(), strict=True))
    assert found["stream: state stores"] == pytest.approx(stored)
    assert found["stream: executors' disks"] == pytest.approx(copied)
    assert found["stream: checkpoint"] == pytest.approx(stored * CHECKPOINT_FACTOR)


def test_largest_part_is_first() -> None:
    found = list(estimates(TargetLoad()).values())
    for prefix in ("busy cores", "memory", "stream: "):
        values = [estimate.value for estimate in found if estimate.name.startswith(prefix)]
        assert values == sorted(values, reverse=True)
        assert len(values) > 1


def test_estimates_are_proportional_to_measurements() -> None:
    once = estimates(TargetLoad())
    twice = estimates(TargetLoad(), cpu_seconds=40.0, mean_wait_ms=100.0)
    busy = "busy cores of the purgatories"
    assert twice[busy].value == pytest.approx(2 * once[busy].value)
    assert twice["memory of pending requests"].value == pytest.approx(
        2 * once["memory of pending requests"].value
    )
    assert twice["shuffle of a stream"].value == once["shuffle of a stream"].value


@pytest.mark.slow
def test_sizes_are_measured_on_the_workload() -> None:
    few, many = (
        measure_sizes(replace(CLUSTER, shared_keys=keys), ReplaySettings()) for keys in (0, 4)
    )
    assert 4 * 50 < many.pending_request - few.pending_request < 4 * 500
    assert 200 < few.pending_request < 3000
    assert few.packed_request < many.packed_request
    assert few.packed_event == many.packed_event
    assert few.stream.key == many.stream.key
    # A hash, a count, two doubles and a time, of which the hash and the time do not compress.
    assert 12 < few.stream.key.state_store < 20
    assert few.stream.key.local_disk == 40
    assert 20 < few.stream.waiting.state_store < many.stream.waiting.state_store < 100
    # A random id and a deadline.
    assert few.stream.request_id.local_disk == 16


def test_host_that_does_not_fit_is_refused_with_a_rate_that_does() -> None:
    huge = replace(CLUSTER, requests=3 * 10**9, rate=3 * 5e7)
    with pytest.raises(
        InvalidArgumentError,
        match=r"rate_per_host must be at most [\d,]+ for .*pending requests.*got 5",
    ) as refused:
        require_simulated_host_fits(huge, ReplaySettings(), SIZES, 512)
    fits = int(refused.value.requirement.removeprefix("at most ").split()[0].replace(",", ""))
    assert 1000 < fits < 5e7
    require_simulated_host_fits(replace(huge, rate=3.0 * fits), ReplaySettings(), SIZES, 512)
    with pytest.raises(InvalidArgumentError, match="rate_per_host"):
        require_simulated_host_fits(replace(huge, rate=3.06 * fits), ReplaySettings(), SIZES, 512)
    with pytest.raises(InvalidArgumentError, match=r"max_worker_mb must be more than .*got 1"):
        require_simulated_host_fits(huge, ReplaySettings(), SIZES, 1)
    # Ended requests of a long trace do not stay in memory.
    require_simulated_host_fits(replace(CLUSTER, requests=3 * 10**8), ReplaySettings(), SIZES, 512)


@pytest.mark.parametrize(
    ("field", "value", "name"),
    [
        ("per_day", 0.0, "target_per_day"),
        ("per_day", float("inf"), "target_per_day"),
        ("utilization", 0.0, "utilization"),
        ("utilization", 1.5, "utilization"),
        ("executor_cores", 0, "executor_cores"),
    ],
)
def test_impossible_target_is_refused(field: str, value: float, name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"{name} must be .*got {value}"):
        TargetLoad(**{field: value})  # type: ignore[arg-type]


def test_impossible_plan_is_refused() -> None:
    with pytest.raises(
        InvalidArgumentError, match="workload must be drawn host_by_host to be simulated"
    ):
        SimulationPlan(LOW_TIMEOUT)
    with pytest.raises(InvalidArgumentError, match="partitions must be at least 1, got 0"):
        SimulationPlan(CLUSTER, partitions=0)
    with pytest.raises(
        InvalidArgumentError, match=r"requests must be a multiple of the hosts \(3\), got 10"
    ):
        replace(CLUSTER, requests=10)
