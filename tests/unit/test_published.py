"""The published benchmark: that it counts right. How fast it is, no test asks."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import threading
from array import array
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    PurgatoryMetrics,
    SystemTimer,
)
from request_purgatory.published_benchmark import run
from request_purgatory.published_benchmark.run import (
    CASES,
    DESIGNS,
    METRICS,
    CollectorTime,
    Completer,
    Load,
    measure,
)


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


class Losing(DelayedOperationPurgatory):
    """Counts one completed request too few."""

    def metrics(self) -> PurgatoryMetrics:
        counted = super().metrics()
        return replace(counted, completions=counted.completions - 1)


def test_lost_request_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The benchmark gives no figures then, and leaves no thread."""
    monkeypatch.setitem(DESIGNS, "wheel", Losing)
    with pytest.raises(RuntimeError, match=r"\d+ completed and \d+ expired of 100 requests"):
        measure(Load(count=100, timeout_ms=50))
    assert threads_of_the_benchmark() == []


def test_request_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a time limit, which is over at once here. The threads end with it."""
    monkeypatch.setattr(run, "_SETTLE_S", -1.0)
    with pytest.raises(
        RuntimeError, match=r"\d+ requests are pending -1.0 s after the last one came"
    ):
        measure(Load(count=100, timeout_ms=60_000))
    assert threads_of_the_benchmark() == []


def threads_of_the_benchmark() -> list[str]:
    """Return the names of the threads that a run starts and that have not ended."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name == "completer" or name.startswith("published-")]


def test_arrivals_are_waited_for_by_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request comes up to a millisecond before its time, and the next one's gap counts from that time."""
    now, arrived = [100.0], []

    def sleep(seconds: float) -> None:
        now[0] += seconds

    class Arrivals(DelayedOperationPurgatory):
        def try_complete_else_watch(self, operation: object, watch_keys: object) -> bool:
            arrived.append(now[0])
            return False

    monkeypatch.setattr(run, "monotonic", lambda: now[0])
    monkeypatch.setattr(run, "time", SimpleNamespace(sleep=sleep))
    purgatory = Arrivals("test", timer=SystemTimer("test", clock=ManualClock()), reaper=False)
    behind = cast("Completer", SimpleNamespace(by_ms=defaultdict(list), done_ms=0))
    run._enqueue(
        purgatory, behind, 200, ["a"], array("d", [1.0] * 3), array("d", [0.0035, 0.001, 0.0001])
    )
    assert arrived == pytest.approx([100.003, 100.004, 100.004])
    assert sum(len(requests) for requests in behind.by_ms.values()) == 3


def test_request_whose_millisecond_has_been_dealt_with_is_completed_at_once() -> None:
    """The second thread was quicker, and does not look at that millisecond again."""
    timer = SystemTimer("test", clock=ManualClock())
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    ahead = cast("Completer", SimpleNamespace(by_ms=defaultdict(list), done_ms=10**15))
    run._enqueue(purgatory, ahead, 200, ["a"], array("d", [0.01, 0.02]), array("d"))
    metrics = purgatory.metrics()
    assert (metrics.completions, metrics.num_delayed_operations) == (2, 0)
    assert metrics.purgatory_size == 0


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
    command = [sys.executable, "-m", "request_purgatory.published_benchmark.run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    if code == 0:
        assert set(json.loads(done.stdout)) == set(METRICS)
