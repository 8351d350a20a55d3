"""Check that Spark's Python workers have this package and see the driver's folders."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from weakref import WeakSet

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from purgatory_spark._spark.job_names import named_jobs
from purgatory_spark._spark.session import on_one_machine, parallelism

_PACKAGE = "purgatory-spark"
_PROBE_SCHEMA = "machine string, version string, sees boolean"
_PRINT_VERSION = f"from importlib.metadata import version; print(version({_PACKAGE!r}))"
_REMEDY = (
    "call ship_package(spark) of purgatory_spark, or make an archive with `purgatory archive "
    "dist/purgatory.tar.gz`, and submit with --archives dist/purgatory.tar.gz#env "
    "--conf spark.pyspark.python=./env/bin/python"
)
#: The sessions whose workers had the package.
_checked: WeakSet[SparkSession] = WeakSet()


class WorkersError(RuntimeError):
    """A worker lacks the package or a folder; the message names the machine and the remedy."""


def require_workers(spark: SparkSession, folder: Path) -> None:
    """Check that workers have the driver's version of the package and see the driver's `folder`.

    The check is one short job; local mode needs none. Workers that join the cluster later are not
    checked.
    """
    if require_local_python(spark):
        return
    with tempfile.NamedTemporaryFile(prefix=".purgatory-seen-", dir=folder) as probe:
        answers = _probe_workers(spark, probe.name)
    for machine, worker_version, sees_folder in answers:
        _require_version(machine, worker_version)
        if not sees_folder:
            raise WorkersError(
                f"{folder}: Spark's workers on {machine} do not see this folder of "
                f"{socket.gethostname()}; put outputs and checkpoints on storage that is mounted "
                "at the same path on all machines"
            )


def require_package(spark: SparkSession) -> None:
    """Check that workers have the driver's version of the package, by one job for each session.

    Local mode needs no job.
    """
    if require_local_python(spark) or spark in _checked:
        return
    for machine, worker_version, _ in _probe_workers(spark, ""):
        _require_version(machine, worker_version)
    _checked.add(spark)


def require_local_python(spark: SparkSession) -> bool:
    """Check the interpreter of the workers if they run on this machine; return whether they do.

    A session that `create_session` has not made starts the first `python3` of PATH, which may not
    be that of the driver's environment. No job is started.
    """
    context = getattr(spark, "sparkContext", None)
    # With Spark Connect, "local" is the server's machine, which may be another one.
    if context is None or not on_one_machine(spark):
        return False
    python = context.pythonExec
    path = shutil.which(python)
    if path is not None and _is_driver_python(path):
        return True
    found = None if path is None else _installed_version(path)
    if found != version(_PACKAGE):
        raise WorkersError(
            f"Spark's Python workers run {path or python}, which has "
            f"{f'{_PACKAGE} {found}' if found else f'no {_PACKAGE}'}; the driver runs "
            f"{sys.executable}, which has {version(_PACKAGE)}. Start Spark with create_session() "
            "of purgatory_spark, or set the environment variable PYSPARK_PYTHON to the driver's "
            "Python before Spark starts"
        )
    return True


def _is_driver_python(path: str) -> bool:
    """Return whether a path is the driver's interpreter in its environment."""
    mine = Path(sys.executable)
    # The interpreter of an environment is a link, which several environments have in common.
    return Path(path).parent == mine.parent and Path(path).resolve() == mine.resolve()


@lru_cache
def _installed_version(python: str) -> str | None:
    """Return the version of this package that an interpreter of this machine imports, or None."""
    ran = subprocess.run(
        [python, "-c", _PRINT_VERSION], capture_output=True, text=True, check=False
    )
    return ran.stdout.strip() or None if ran.returncode == 0 else None


def _require_version(machine: str, worker_version: str | None) -> None:
    if worker_version != version(_PACKAGE):
        found = f"{_PACKAGE} {worker_version}" if worker_version else f"no {_PACKAGE}"
        raise WorkersError(
            f"Spark's Python workers on {machine} have {found}, but the driver has "
            f"{version(_PACKAGE)}: {_REMEDY}"
        )


def require_driver_python(spark: SparkSession) -> None:
    """Check that the workers' path of their interpreter also exists on the driver.

    Spark starts a helper process of each stateful query on the driver, by the same path. A path
    such as `./env/bin/python` may exist beside the executors only. A Spark Connect server is not
    checked, as the client can't know its files.
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return
    python = Path(context.pythonExec)
    if len(python.parts) > 2 and not python.exists():
        raise WorkersError(
            f"{context.pythonExec}: no such file in {Path.cwd()}; Spark also starts the helper "
            "process of a stateful query on the driver by this path. Link it to the driver's "
            f"environment: ln -s {sys.prefix} {python.parents[1]}"
        )


def _probe_workers(spark: SparkSession, file: str) -> list[tuple[str, str | None, bool]]:
    """Return the workers' machines and versions, None without the package, and if they see it."""
    package = _PACKAGE

    # A nested function is pickled by value. A module's function is pickled by name, which a worker
    # without the package could not import.
    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.metadata
        import os
        import socket

        import pyarrow

        for _ in batches:
            continue
        try:
            installed = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            installed = None
        # Network file systems cache entries for some seconds; a new name is always looked up.
        row = {
            "machine": [socket.gethostname()],
            "version": [installed],
            "sees": [os.path.exists(file)],
        }
        yield pyarrow.RecordBatch.from_pydict(row)

    tasks = 2 * parallelism(spark)
    probed = spark.range(0, tasks, 1, tasks).mapInArrow(probe, _PROBE_SCHEMA).distinct()
    try:
        with named_jobs(spark, "check the workers"):
            rows = probed.collect()
    except PySparkException as error:
        # Without PyArrow, or with another Python, a worker fails before it calls the probe.
        lines = [line.strip() for line in str(error).splitlines()]
        signs = ("ModuleNotFoundError", "ImportError", "[PYTHON_VERSION_MISMATCH]")
        reason = next((line for line in lines if line.startswith(signs)), None)
        if reason is None:
            raise
        raise WorkersError(
            f"Spark's Python workers can't run {_PACKAGE} ({reason}): {_REMEDY}"
        ) from error
    return [(row["machine"], row["version"], row["sees"]) for row in rows]
