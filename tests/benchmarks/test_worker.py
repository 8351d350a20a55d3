"""The worker's protocol: one JSON object, or an exit code and a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import aio_echo, peers, timer_add, worker
from benchmarks.worker import EXIT_BAD_ARGUMENT, EXIT_NOT_APPLICABLE, parameter

_ROOT = Path(__file__).resolve().parents[2]
#: Seconds, for a process that starts a JVM on a machine that is busy.
_TIME_LIMIT = 540.0


def work(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a worker until it ends."""
    return run_python("-m", "benchmarks.worker", *arguments)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the arguments until it ends."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, timeout=_TIME_LIMIT)


def test_a_worker_prints_one_json_object():
    """And nothing else; its exit code is 0."""
    answer = work("aio_echo", peers.ASYNCIO, "clients=2", "requests=40")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert list(json.loads(answer.stdout)) == list(aio_echo.METRICS)


@pytest.mark.jvm
@pytest.mark.timeout(600)
def test_a_worker_makes_a_session_of_its_own():
    """With a JVM that ends with it."""
    answer = work("batch", peers.SPARK_SQL, "requests=2000", "keys=0", "passes=1")
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["rows_per_second"] > 0


def test_a_worker_ends_while_its_threads_wait():
    """Joining threads that wait for a timer is no part of the answer."""
    code = (
        "import runpy, sys, threading\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "sys.argv[1:] = ['timer_add', 'heapq', 'count=10']\n"
        "runpy.run_module('benchmarks.worker', run_name='__main__')\n"
    )
    answer = run_python("-c", code)
    assert answer.returncode == 0, answer.stderr
    assert list(json.loads(answer.stdout)) == ["ns_per_operation"]


def test_a_side_that_does_not_apply_is_told_by_the_exit_code():
    """With the reason on stderr."""
    answer = work("timer_expire", peers.TRIO, "count=10", "span_ms=10")
    assert answer.returncode == EXIT_NOT_APPLICABLE
    assert answer.stdout == ""
    assert "calls nothing" in answer.stderr


def test_wrong_arguments_are_told_by_the_exit_code():
    """With what is wrong on stderr."""
    answer = work("timer_add", "no_such_side")
    assert answer.returncode == EXIT_BAD_ARGUMENT
    assert answer.stdout == ""
    assert answer.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("timer_add",), ("no_such_question", "heapq"), ("timer_add", "no_such_side")],
)
def test_wrong_arguments_are_refused(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Before anything is measured."""
    measured: list[object] = []
    monkeypatch.setattr(timer_add, "measure", lambda *wanted: measured.append(wanted))
    assert worker.main(list(arguments)) == EXIT_BAD_ARGUMENT
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err
    assert measured == []


def test_a_process_is_prepared_before_its_question_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Only by the worker: `measure` leaves its process as it was."""
    done: list[str] = []

    def measure(side: str, clients: int) -> dict[str, float]:
        done.append(f"measured {clients}")
        return {"per_second": 1.0}

    monkeypatch.setattr(aio_echo, "prepare_process", lambda: done.append("prepared"))
    monkeypatch.setattr(aio_echo, "measure", measure)
    assert worker.main(["aio_echo", peers.ASYNCIO, "clients=2"]) == 0
    assert done == ["prepared", "measured 2"]
    assert json.loads(capsys.readouterr().out) == {"per_second": 1.0}


def test_parameters_are_whole_numbers_or_words():
    """And have a name."""
    assert parameter("count=1000") == ("count", 1000)
    assert parameter("load=idle") == ("load", "idle")
    with pytest.raises(ValueError, match="key=value"):
        parameter("count")
