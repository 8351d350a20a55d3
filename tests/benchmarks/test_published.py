"""One run of the published benchmark: its counts, not its speed."""

from __future__ import annotations

import contextlib
import gc
import itertools
import json
import math
import subprocess
import sys
import threading
import time
from array import array
from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchmarks import published_run as run
from benchmarks.published_run import (
    CASES,
    DESIGNS,
    METRICS,
    BenchmarkRun,
    CompletionThread,
    GcTimer,
    PlainRequest,
    TimedRequest,
    measure,
)
from purgatory_spark._traces import workload
from request_purgatory import (
    DelayedOperationPurgatory,
    InvalidArgumentError,
    ManualClock,
    PurgatoryMetrics,
    SystemTimer,
)


def test_cases_are_the_workloads_of_the_pipeline() -> None:
    assert {name: (case.median_ms, case.p75_ms) for name, case in workload.CASES.items()} == CASES


@pytest.mark.parametrize("design", [*DESIGNS, run.NO_PURGATORY])
@pytest.mark.parametrize("case", CASES)
def test_every_request_ends_once(design: str, case: str) -> None:
    metrics = measure(BenchmarkRun(case=case, design=design, count=3_000, timeout_ms=50))
    assert set(metrics) == set(METRICS)
    assert metrics["completed"] + metrics["expired"] == 3_000
    assert metrics["expired"] > 0
    assert 0 < metrics["peak_pending"] <= 3_000
    assert metrics["enqueue_rate"] == pytest.approx(3_000 / metrics["enqueue_seconds"])
    assert metrics["cpu_seconds_per_million"] == pytest.approx(metrics["cpu_seconds"] / 3_000 * 1e6)


class Count:
    """A count without copies, as from Python 3.14 on."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def __next__(self) -> int:
        return next(self._numbers)

    def __copy__(self) -> Count:
        raise TypeError("cannot copy 'itertools.count' object")


def test_requests_without_a_purgatory_are_counted_without_copies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run, "itertools", SimpleNamespace(count=Count))
    purgatory = run.NoPurgatory()
    requests = [PlainRequest(200) for _ in range(3)]
    for request in requests:
        request.completes_at = math.inf
        purgatory.try_complete_else_watch(request, [])
    # Looking changes nothing.
    assert [purgatory.num_delayed for _ in range(3)] == [3, 3, 3]
    requests[0].force_complete()
    requests[0].force_complete()
    assert [purgatory.num_delayed for _ in range(3)] == [2, 2, 2]


def test_requests_arrive_at_the_target_rate() -> None:
    metrics = measure(BenchmarkRun(rate=5_000, count=2_000))
    assert metrics["enqueue_rate"] < 6_000


def test_more_requests_complete_with_a_longer_timeout() -> None:
    benchmark_run = BenchmarkRun(case="high", rate=20_000, count=2_000)
    short, long = (
        measure(replace(benchmark_run, timeout_ms=timeout_ms)) for timeout_ms in (20, 2_000)
    )
    # By the distribution of the latencies 99 % and 1 % expire. A machine that stands still for a
    # second changes neither much.
    assert short["expired"] > 2 * long["expired"] > 0


class LosingPurgatory(DelayedOperationPurgatory):
    """Omits one completed request from its metrics."""

    def metrics(self) -> PurgatoryMetrics:
        counted = super().metrics()
        return replace(counted, completions=counted.completions - 1)


def test_lost_request_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DESIGNS, "wheel", LosingPurgatory)
    with pytest.raises(RuntimeError, match=r"\d+ completed and \d+ expired of 100 requests"):
        measure(BenchmarkRun(count=100, timeout_ms=50))
    assert benchmark_threads() == []


def test_request_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_DRAIN_TIMEOUT_S", -1.0)
    with pytest.raises(
        RuntimeError, match=r"\d+ requests are still pending -1.0 s after the last one was enqueued"
    ):
        measure(BenchmarkRun(count=100, timeout_ms=60_000))
    assert benchmark_threads() == []


def benchmark_threads() -> list[str]:
    """Return the names of a run's threads that have not ended."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name == "completion" or name.startswith("published-")]


def test_gaps_are_waited_for_in_whole_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
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
    behind = cast("CompletionThread", SimpleNamespace(by_ms=defaultdict(list), finished_ms=0))
    latencies, gaps = array("d", [1.0] * 3), array("d", [0.0035, 0.001, 0.0001])
    run._enqueue(purgatory, behind, 200, ["a"], latencies, gaps, answered_below=math.inf)
    assert arrived == pytest.approx([100.003, 100.004, 100.004])
    assert sum(len(requests) for requests in behind.by_ms.values()) == 3


def test_request_whose_millisecond_has_passed_is_completed_at_once() -> None:
    timer = SystemTimer("test", clock=ManualClock())
    purgatory = DelayedOperationPurgatory("test", timer=timer, reaper=False)
    ahead = cast("CompletionThread", SimpleNamespace(by_ms=defaultdict(list), finished_ms=10**15))
    latencies = array("d", [0.01, 0.02])
    run._enqueue(purgatory, ahead, 200, ["a"], latencies, array("d"), answered_below=0.2)
    metrics = purgatory.metrics()
    assert (metrics.completions, metrics.num_delayed_operations) == (2, 0)
    assert metrics.purgatory_size == 0


@pytest.mark.parametrize(
    ("design", "late_answers", "answered"),
    [("wheel", 0, 1), ("wheel", 1, 3), ("legacy", 0, 1), ("legacy", 1, 3), ("none", 0, 3)],
)
def test_request_that_expires_before_its_answer_is_queued_for_late_answers_only(
    design: str, late_answers: int, answered: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queues = []

    class Recorded(CompletionThread):
        def __init__(self, purgatory: DelayedOperationPurgatory | run.NoPurgatory) -> None:
            super().__init__(purgatory)
            self.by_ms = Kept(list)
            queues.append(self.by_ms)

    class Kept(defaultdict[int, list[TimedRequest | PlainRequest]]):
        def pop(self, key: int, default: object = None) -> Any:
            return self.get(key, default)

    latencies = array("d", [0.019, 0.020, 0.5])
    monkeypatch.setattr(run, "CompletionThread", Recorded)
    monkeypatch.setattr(run, "_draw", lambda _run: (latencies, array("d")))
    metrics = measure(
        BenchmarkRun(design=design, count=3, timeout_ms=20, late_answers=late_answers)
    )
    assert sum(len(requests) for requests in queues[0].values()) == answered
    assert metrics["expired"] >= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"case": "middle"}, "case must be one of low, high, got 'middle'"),
        ({"design": "heap"}, "design must be one of wheel, legacy, none, got 'heap'"),
        ({"rate": -1}, "rate must be at least 0, got -1"),
        ({"count": 0}, "count must be at least 1, got 0"),
        ({"keys": 0}, "keys must be at least 1, got 0"),
        ({"timeout_ms": 0}, "timeout_ms must be at least 1, got 0"),
        (
            {"late_answers": 2},
            "late_answers must be 0 or 1 with the design wheel, got 2",
        ),
        (
            {"design": "none", "late_answers": 1},
            "late_answers must be 0 with the design none, got 1",
        ),
    ],
)
def test_invalid_runs_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        BenchmarkRun(**arguments)  # type: ignore[arg-type]


def test_collections_are_timed() -> None:
    with GcTimer() as gc_timer:
        for _ in range(20):
            gc.collect(generation=0)
    timed = gc_timer.seconds
    gc.collect(generation=0)
    assert timed > 0
    assert gc_timer.seconds == timed


def use_cpu(_phase: str, _info: dict[str, int]) -> None:
    """Use 5 ms of this thread's CPU time, as a function in `gc.callbacks`."""
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_callbacks_of_a_collection_are_timed(before: bool) -> None:
    gc_timer = GcTimer()
    with contextlib.ExitStack() as stack:
        if not before:
            stack.enter_context(gc_timer)
        gc.callbacks.append(use_cpu)
        stack.callback(gc.callbacks.remove, use_cpu)
        if before:
            stack.enter_context(gc_timer)
        gc.collect(generation=0)
    # Once at the start and once at the end.
    assert gc_timer.seconds >= 0.01


def test_timer_leaves_no_callbacks() -> None:
    with GcTimer() as gc_timer:
        assert gc_timer._on_start in gc.callbacks
    assert gc_timer._on_start not in gc.callbacks
    assert gc_timer._on_stop not in gc.callbacks


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["count=500", "case=low"], 0, ""),
        (["count=some"], 2, "count=some: invalid literal"),
        (["colour=red"], 2, "colour=red: "),
        (["count"], 2, "count: "),
        (["case=middle"], 2, "case must be one of low, high, got 'middle'"),
    ],
)
def test_module_runs_as_a_command(arguments: list[str], code: int, message: str) -> None:
    command = [sys.executable, "-m", "benchmarks.published_run", *arguments]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert completed.returncode == code, completed.stderr
    assert message in completed.stderr
    if code == 0:
        assert set(json.loads(completed.stdout)) == set(METRICS)
