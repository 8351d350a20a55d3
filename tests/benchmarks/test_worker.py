"""Every question answers for every side that can be had here, each in a process of its own."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from benchmarks import peers, question
from benchmarks.question import Case
from benchmarks.worker import EXIT_BAD_ARGUMENT, EXIT_NOT_APPLICABLE, parameter

_ROOT = Path(__file__).resolve().parents[2]

# All are started by the first test, and those on Spark take their time.
pytestmark = pytest.mark.timeout(600)

#: As small as they get.
_TINY = {
    "timer_cycle": [{"pending": 10, "operations": 1}],
    "timer_add": [{"count": 100}],
    "timer_cancel_random": [{"count": 100}],
    "timer_expire": [{"count": 1_000, "span_ms": 60_000}],
    "purgatory_cycle": [{"keys": 3, "watchers": 1, "operations": 2_000}, {"keys": 1, "watchers": 10, "operations": 2_000}],
    "purgatory_expire": [{"count": 1_000}],
    "lateness": [{"load": "idle", "count": 20}],
    "memory": [{"kind": "handle", "count": 1_000}, {"kind": "operation", "count": 1_000, "keys": 10}],
    "contention": [{"threads": 2, "keys": 1, "shards": 1, "operations": 2_000}],
    "published": [{"case": "low", "rate": 0, "count": 2_000}, {"case": "high", "rate": 20_000, "count": 2_000}],
    "aio_hold": [{"what": what, "count": 200} for what in ("complete", "expire", "cancel")],
    "aio_timers": [{"pending": 10, "batches": 1}],
    "aio_echo": [{"clients": 2, "requests": 40}],
    "stream": [{"requests": 4_000, "pending": 100, "per_file": 2_000}],
    "batch": [{"requests": 20_000, "keys": 0}],
    "replay": [{"source": "files", "requests": 3_200, "pending": 100}],
    "broker_start": [{"nodes": 1}],
    "broker_produce": [{"nodes": 1, "connections": 2, "bytes": 100, "ms": 100}],
    "broker_parked": [{"fetches": 10}],
    "growth": [{"structure": "timer", "pending": 10}, {"structure": "purgatory", "pending": 10}],
}


def _tiny_cases() -> list[tuple[str, str, Case]]:
    """Each with the Python sides that are run there. What memory has too few of to measure is still enough to run."""
    cases = [(name, Case(params, 2_000 if name == "memory" else 10)) for name in question.NAMES for params in _TINY[name]]
    return [
        (name, side, case)
        for name, case in cases
        for side in question.load(name).SIDES
        if side not in (*peers.JVM, peers.KAFKA_BROKER) and question.load(name).left_out(side, case) is None
    ]


_CASES = _tiny_cases()


def work(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A worker that has ended."""
    command = [sys.executable, "-m", "benchmarks.worker", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, timeout=240, check=False)


@pytest.fixture(scope="module")
def answers() -> dict[tuple[str, str, str], subprocess.CompletedProcess[str]]:
    """What every worker said. All are started here, some at a time, because most of them wait for something."""
    wanted = [(name, side, case) for name, side, case in _CASES if peers.unavailable(side) is None]
    with ThreadPoolExecutor(4) as pool:
        ended = pool.map(lambda one: work(one[0], one[1], *one[2].label.split()), wanted)
        return {(name, side, case.label): result for (name, side, case), result in zip(wanted, ended, strict=True)}


@pytest.mark.parametrize(("name", "side", "case"), _CASES, ids=[f"{name}-{case.label}-{side}" for name, side, case in _CASES])
def test_a_worker_prints_the_metrics_of_its_question(
    answers: dict[tuple[str, str, str], subprocess.CompletedProcess[str]], name: str, side: str, case: Case
):
    """One JSON object, with finite numbers under known names."""
    reason = peers.unavailable(side)
    if reason is not None:
        pytest.skip(reason)
    answer = answers[name, side, case.label]
    assert answer.returncode == 0, answer.stderr
    metrics = json.loads(answer.stdout)
    known = question.load(name).METRICS
    assert next(iter(known)) in metrics
    assert set(metrics) <= set(known)
    assert all(math.isfinite(value) for value in metrics.values())


def test_a_side_that_does_not_apply_is_told_by_the_exit_code():
    """With the reason on stderr."""
    answer = work("timer_expire", peers.TRIO, "count=10", "span_ms=10")
    assert answer.returncode == EXIT_NOT_APPLICABLE
    assert "calls nothing" in answer.stderr


@pytest.mark.parametrize("arguments", [(), ("no_such_question", "heapq"), ("timer_add", "no_such_side")])
def test_wrong_arguments_are_refused(arguments: tuple[str, ...]):
    """Before anything is measured."""
    answer = work(*arguments)
    assert answer.returncode == EXIT_BAD_ARGUMENT
    assert answer.stdout == ""
    assert answer.stderr


def test_parameters_are_whole_numbers_or_words():
    """And have a name."""
    assert parameter("count=1000") == ("count", 1000)
    assert parameter("load=idle") == ("load", "idle")
    with pytest.raises(ValueError, match="key=value"):
        parameter("count")
