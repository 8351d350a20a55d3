"""Check that the Python workers of a cluster have this package and see the driver's folders."""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from purgatory_spark._spark.session import on_one_machine, parallelism

_PACKAGE = "purgatory-spark"
_PROBE_SCHEMA = "machine string, version string, sees boolean"


class WorkersError(RuntimeError):
    """A worker lacks the package or a folder; the message names the machine and the remedy."""


def require_workers(spark: SparkSession, folder: Path) -> None:
    """Check that workers have the driver's version of the package and see the driver's `folder`.

    The check is one short job; local mode needs none. Workers that join the cluster later are not
    checked.
    """
    # With Spark Connect, "local" is the server's machine, which may be another one.
    is_remote = getattr(spark, "sparkContext", None) is None
    if on_one_machine(spark) and not is_remote:
        return
    with tempfile.NamedTemporaryFile(prefix=".purgatory-seen-", dir=folder) as probe:
        answers = _probe_workers(spark, probe.name)
    driver_version = version(_PACKAGE)
    for machine, worker_version, sees_folder in answers:
        if worker_version != driver_version:
            found = f"{_PACKAGE} {worker_version}" if worker_version else f"no {_PACKAGE}"
            raise WorkersError(
                f"Spark's Python workers on {machine} have {found}, but the driver has "
                f"{driver_version}: make an archive with `purgatory archive env.tar.gz`, and "
                "submit with --archives env.tar.gz#env "
                "--conf spark.pyspark.python=./env/bin/python"
            )
        if not sees_folder:
            raise WorkersError(
                f"{folder}: Spark's workers on {machine} do not see this folder of "
                f"{socket.gethostname()}; put outputs and checkpoints on storage that is mounted "
                "at the same path on all machines"
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
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(probe, _PROBE_SCHEMA).distinct().collect()
    return [(row["machine"], row["version"], row["sees"]) for row in rows]
