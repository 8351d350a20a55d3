"""Ship this package to a session's Python workers, where it is not installed.

What is shipped is Python's source alone, so one file suits every system and processor. The workers
run the core interpreted; the rows are the same.
"""

from __future__ import annotations

import sys
import tempfile
import zipfile
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from pyspark.sql import SparkSession

import request_purgatory
from purgatory_spark._spark.workers import require_local_python

#: The distributions that workers import, with the folder of each. The command is the driver's.
_SHIPPED = {
    "request-purgatory": Path(request_purgatory.__file__).parent,
    "purgatory-spark": Path(__file__).parents[1],
}
#: The earliest time that a zip file can have. With the present one, a session of Spark Connect
#: would refuse the same package from another client's process.
_TIME = (1980, 1, 1, 0, 0, 0)


def ship_package(spark: SparkSession) -> None:
    """Send this package to the Python workers of a session that do not have it.

    For a Spark Connect server, or a cluster, on which request-purgatory is not installed. Call it
    once for each session. It sends one file of half a megabyte, changes no setting, and starts no
    job. The workers need the driver's minor version of Python, and what PySpark's own Arrow
    functions need: PyArrow, pandas and NumPy. They use the package that was sent even where they
    have one. Its core is interpreted, so `replay` and `simulate` take some twenty times as long.

    Streams need the package installed: Spark starts a helper process of each stateful query without
    what a session has sent.

    Args:
        spark: The session. In local mode, where the workers have the driver's package, nothing is
            sent.

    Raises:
        WorkersError: In local mode, the workers run another Python than the driver.
    """
    if require_local_python(spark):
        return
    file = str(_packed_file()[1])
    # Spark puts the file first on the driver's path, too, where it is not needed.
    before = list(sys.path)
    try:
        context = getattr(spark, "sparkContext", None)
        if context is None:
            spark.addArtifacts(file, pyfile=True)
        else:
            context.addPyFile(file)
    finally:
        sys.path[:] = before


@cache
def _packed_file() -> tuple[tempfile.TemporaryDirectory[str], Path]:
    """Return the file to send, with the folder that is removed at this process's end.

    A classic session refuses it from a second path, and reads it anew for each executor.
    """
    folder = tempfile.TemporaryDirectory(prefix="purgatory-shipped-")
    file = Path(folder.name) / f"purgatory_spark-{distribution('purgatory-spark').version}.zip"
    _pack(file)
    return folder, file


def _pack(target: Path) -> None:
    """Write a zip file from which Python imports the packages and finds their versions."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, folder in _SHIPPED.items():
            for file in sorted(folder.rglob("*.py")):
                _add(packed, str(file.relative_to(folder.parent)), file.read_text(encoding="utf-8"))
            found = distribution(name)
            _add(
                packed,
                f"{folder.name}-{found.version}.dist-info/METADATA",
                found.read_text("METADATA") or "",
            )


def _add(packed: zipfile.ZipFile, name: str, text: str) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    packed.writestr(entry, text)
