"""Whether a cluster's Python workers can do their part.

They need this package, and the folders that the driver names.
"""

from __future__ import annotations

import socket
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from request_purgatory.pipeline.spark.session import on_one_machine, parallelism

_PACKAGE = "request-purgatory"
_LOOKED = "machine string, version string, sees boolean"


class WorkersError(RuntimeError):
    """A worker lacks what it needs; the message names its machine and says what to do."""


def require_workers(spark: SparkSession, folder: Path) -> None:
    """See that workers have this version of the package and see the driver's `folder`, which exists.

    It takes one short job, and none where all is on one machine. On a cluster that is still
    growing, later workers are not asked.

    Raises:
        WorkersError: one of them does not.
    """
    remote = (
        getattr(spark, "sparkContext", None) is None
    )  # The machine is Connect's server's, which may be another one.
    if on_one_machine(spark) and not remote:
        return
    with tempfile.NamedTemporaryFile(prefix=".purgatory-seen-", dir=folder) as mark:
        looked = _look_from(spark, mark.name)
    ours = version(_PACKAGE)
    for machine, theirs, sees in looked:
        if theirs != ours:
            found = f"request-purgatory {theirs}" if theirs else "no request_purgatory"
            raise WorkersError(
                f"Spark's Python workers on {machine} have {found}, and the driver has {ours}: make an archive with "
                "`purgatory archive env.tar.gz`, and submit with --archives env.tar.gz#env "
                "--conf spark.pyspark.python=./env/bin/python"
            )
        if not sees:
            raise WorkersError(
                f"{folder}: Spark's workers on {machine} do not see this folder of {socket.gethostname()}; outputs and "
                "checkpoints have to be on storage that is mounted at the same place on all machines"
            )


def require_stream_helper(spark: SparkSession) -> None:
    """See that the driver can start a stateful query's helper process, by the workers' path of their interpreter.

    Raises:
        WorkersError: that is a path beside the executors, and not beside the driver. (Of a Connect
            server this is not known.)
    """
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return
    python = Path(context.pythonExec)
    if len(python.parts) > 2 and not python.exists():
        raise WorkersError(
            f"{context.pythonExec}: no such file in {Path.cwd()}; Spark starts a stateful stream's helper by it on the driver "
            f"as well. Lead it to the driver's own environment: ln -s {sys.prefix} {python.parents[1]}"
        )


def _look_from(spark: SparkSession, mark: str) -> list[tuple[str, str | None, bool]]:
    package = _PACKAGE

    # Nested, so that it is sent whole: a worker without the package could not look it up there.
    def look(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import importlib.metadata
        import os
        import socket

        import pyarrow

        for _ in batches:
            continue
        try:
            found = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found = None
        # Other machines' caches of a shared folder may be a few seconds old, but what is not known
        # yet is looked up.
        row = {
            "machine": [socket.gethostname()],
            "version": [found],
            "sees": [os.path.exists(mark)],
        }
        yield pyarrow.RecordBatch.from_pydict(row)

    tasks = 2 * parallelism(spark)
    rows = spark.range(0, tasks, 1, tasks).mapInArrow(look, _LOOKED).distinct().collect()
    return [(row["machine"], row["version"], row["sees"]) for row in rows]
