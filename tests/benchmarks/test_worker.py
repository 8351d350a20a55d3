"""The worker process: one JSON object, or an exit code and a reason."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import aio_echo, peers, timer_add, worker
from benchmarks.worker import EXIT_BAD_ARGUMENT, EXIT_NOT_APPLICABLE, parse_parameter

_ROOT = Path(__file__).resolve().parents[2]
#: Enough for a process that starts a JVM on a busy machine.
_TIMEOUT_S = 540.0


def run_worker(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a worker process until it ends."""
    return run_python("-m", "benchmarks.worker", *arguments)


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with the arguments until it ends."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=_ROOT, timeout=_TIMEOUT_S)


def test_worker_prints_one_json_object():
    result = run_worker("aio_echo", peers.ASYNCIO, "clients=2", "requests=40")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    assert list(json.loads(result.stdout)) == list(aio_echo.METRICS)


@pytest.mark.jvm
@pytest.mark.timeout(600)
@pytest.mark.parametrize("side", [peers.SPARK_SQL, peers.POLARS])
def test_worker_creates_its_own_spark_session(side: str):
    result = run_worker("batch", side, "requests=2000", "keys=0", "passes=2")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["rows_per_second"] > 0


def test_worker_ends_while_its_threads_wait():
    code = (
        "import runpy, sys, threading\n"
        "threading.Thread(target=threading.Event().wait).start()\n"
        "sys.argv[1:] = ['timer_add', 'heapq', 'count=10']\n"
        "runpy.run_module('benchmarks.worker', run_name='__main__')\n"
    )
    result = run_python("-c", code)
    assert result.returncode == 0, result.stderr
    assert list(json.loads(result.stdout)) == ["ns_per_operation"]


def test_side_that_does_not_apply_has_its_own_exit_code():
    result = run_worker("timer_expire", peers.TRIO, "count=10", "span_ms=10")
    assert result.returncode == EXIT_NOT_APPLICABLE
    assert result.stdout == ""
    assert "calls nothing" in result.stderr


def test_invalid_arguments_have_their_own_exit_code():
    result = run_worker("timer_add", "no_such_side")
    assert result.returncode == EXIT_BAD_ARGUMENT
    assert result.stdout == ""
    assert result.stderr


@pytest.mark.parametrize(
    "arguments",
    [(), ("timer_add",), ("no_such_question", "heapq"), ("timer_add", "no_such_side")],
)
def test_invalid_arguments_are_rejected(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    measured: list[object] = []
    monkeypatch.setattr(timer_add, "measure", lambda *wanted: measured.append(wanted))
    assert worker.main(list(arguments)) == EXIT_BAD_ARGUMENT
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err
    assert measured == []


def test_process_is_prepared_before_the_measurement(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    done: list[str] = []

    def measure(side: str, clients: int) -> dict[str, float]:
        done.append(f"measured {clients}")
        return {"per_second": 1.0}

    monkeypatch.setattr(aio_echo, "prepare_process", lambda: done.append("prepared"))
    monkeypatch.setattr(aio_echo, "measure", measure)
    assert worker.main(["aio_echo", peers.ASYNCIO, "clients=2"]) == 0
    assert done == ["prepared", "measured 2"]
    assert json.loads(capsys.readouterr().out) == {"per_second": 1.0}


def test_parameters_are_whole_numbers_or_strings():
    assert parse_parameter("count=1000") == ("count", 1000)
    assert parse_parameter("load=idle") == ("load", "idle")
    with pytest.raises(ValueError, match="key=value"):
        parse_parameter("count")
