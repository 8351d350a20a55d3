"""Sessions whose Python workers run another interpreter than the driver's."""

from __future__ import annotations

import sys
import venv
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from purgatory_spark import Trace, batch_outcomes, replay
from purgatory_spark._rows.schema import EVENTS, REQUESTS
from purgatory_spark._spark import workers
from purgatory_spark._spark.workers import WorkersError
from purgatory_spark.stream import delayed_operations


@pytest.fixture(scope="module")
def other_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the `python3` of an environment without packages."""
    folder = tmp_path_factory.mktemp("other")
    venv.create(folder / "env", with_pip=False)
    return folder / "env" / "bin" / "python3"


@pytest.fixture
def jobs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list of the plans that are computed."""
    found: list[Any] = []

    def collect(table: DataFrame) -> list[Any]:
        found.append(table)
        return []

    monkeypatch.setattr(type(spark.range(1)), "collect", collect)
    return found


@pytest.mark.parametrize(
    "result",
    [
        Trace.outcomes,
        Trace.rejects,
        Trace.replay,
        Trace.what_if,
        Trace.cache,
        lambda trace: trace.report("folder"),
        lambda trace: batch_outcomes(trace.requests, trace.events),
        lambda trace: replay(trace.requests, trace.events),
        lambda trace: delayed_operations(trace.requests, trace.events),
        lambda trace: workers.require_workers(trace.requests.sparkSession, Path("folder")),
    ],
)
def test_other_interpreter_is_refused_before_a_job(
    spark: SparkSession,
    other_python: Path,
    jobs: list[Any],
    result: Callable[[Trace], object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trace = Trace(spark.createDataFrame([], REQUESTS), spark.createDataFrame([], EVENTS))
    monkeypatch.setenv("PATH", str(other_python.parent), prepend=":")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    with pytest.raises(WorkersError) as failure:
        result(trace)
    assert str(failure.value).startswith(
        f"Spark's Python workers run {other_python}, which has no purgatory-spark; the driver runs "
        f"{sys.executable}, which has "
    )
    assert "set the environment variable PYSPARK_PYTHON" in str(failure.value)
    assert not jobs


def test_interpreter_that_has_the_package_is_accepted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workers.require_local_python(spark)
    link = tmp_path / "python3"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(link))
    assert workers.require_local_python(spark)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "no-such-python")
    with pytest.raises(WorkersError, match="run no-such-python, which has no purgatory-spark"):
        workers.require_local_python(spark)


def test_cluster_is_asked_once_for_each_session(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "on_one_machine", lambda spark: False)
    monkeypatch.setattr(workers, "_checked", type(workers._checked)())
    asked = []

    def probe(session: SparkSession, file: str) -> list[tuple[str, str | None, bool]]:
        asked.append(session)
        return [("there", version("purgatory-spark") if len(asked) > 1 else None, False)]

    monkeypatch.setattr(workers, "_probe_workers", probe)
    with pytest.raises(WorkersError, match="workers on there have no purgatory-spark, but the"):
        workers.require_package(spark)
    for _ in range(2):
        workers.require_package(spark)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Traceback\nModuleNotFoundError: No module named 'pyarrow'\n", "(ModuleNotFoundError: No"),
        ("x\n[PYTHON_VERSION_MISMATCH] Python 3.9 and 3.11", "([PYTHON_VERSION_MISMATCH] Python"),
        ("Traceback\nZeroDivisionError", None),
    ],
)
def test_worker_that_cannot_run_the_probe_is_reported(
    spark: SparkSession, message: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = PythonException(message)

    def fail(table: DataFrame) -> list[Any]:
        raise error

    monkeypatch.setattr(type(spark.range(1)), "collect", fail)
    with pytest.raises(WorkersError if expected else PythonException) as failure:
        workers._probe_workers(spark, "")
    assert expected is None or expected in str(failure.value)
