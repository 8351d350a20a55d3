"""The published benchmark: that it counts right. How fast it is, no test asks."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
from dataclasses import replace

import pytest

from request_purgatory import InvalidArgumentError
from request_purgatory.published import CASES, DESIGNS, METRICS, CollectorTime, Load, measure


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("case", CASES)
def test_every_request_ends_once(design: str, case: str) -> None:
    """As fast as can be, on either design; there is a value for each metric."""
    metrics = measure(Load(case=case, design=design, count=3_000, timeout_ms=50))
    assert set(metrics) == set(METRICS)
    assert metrics["completed"] + metrics["expired"] == 3_000
    assert metrics["expired"] > 0
    assert 0 < metrics["peak_pending"] <= 3_000
    assert metrics["enqueue_rate"] == pytest.approx(3_000 / metrics["enqueue_seconds"])
    assert metrics["cpu_seconds_per_million"] == pytest.approx(metrics["cpu_seconds"] / 3_000 * 1e6)


def test_requests_come_at_the_rate_that_was_asked_for() -> None:
    """Never faster, apart from a millisecond's waiting and what chance does to the gaps."""
    metrics = measure(Load(rate=5_000, count=2_000))
    assert metrics["enqueue_rate"] < 6_000


def test_a_longer_timeout_lets_more_complete() -> None:
    """The requests are the same ones."""
    load = Load(case="high", rate=20_000, count=2_000)
    short, long = (measure(replace(load, timeout_ms=timeout_ms)) for timeout_ms in (20, 600))
    # By the latencies' distribution 99 % and 14 %, give or take what the machine is late by.
    assert short["expired"] > 1_900
    assert long["expired"] < 600


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"case": "middle"}, "case must be one of low, high, got 'middle'"),
        ({"design": "heap"}, "design must be one of wheel, legacy, got 'heap'"),
        ({"rate": -1}, "rate must be at least 0, got -1"),
        ({"count": 0}, "count must be at least 1, got 0"),
        ({"keys": 0}, "keys must be at least 1, got 0"),
        ({"timeout_ms": 0}, "timeout_ms must be at least 1, got 0"),
    ],
)
def test_odd_loads_are_refused(arguments: dict[str, object], message: str) -> None:
    """By name and value."""
    with pytest.raises(InvalidArgumentError, match=message):
        Load(**arguments)  # type: ignore[arg-type]


def test_collections_are_timed() -> None:
    """While in use, and no longer."""
    with CollectorTime() as collector:
        for _ in range(20):
            gc.collect(generation=0)
    timed = collector.seconds
    gc.collect(generation=0)
    assert timed > 0
    assert collector.seconds == timed


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["count=500", "case=low"], 0, ""),
        (["count=some"], 2, "count=some: invalid literal"),
        (["colour=red"], 2, "colour=red: "),
        (["count"], 2, "count: "),
        (["case=middle"], 2, "case must be one of low, high, got 'middle'"),
    ],
)
def test_as_a_command(arguments: list[str], code: int, said: str) -> None:
    """One line of JSON, or what is wrong."""
    command = [sys.executable, "-m", "request_purgatory.published", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    if code == 0:
        assert set(json.loads(done.stdout)) == set(METRICS)
