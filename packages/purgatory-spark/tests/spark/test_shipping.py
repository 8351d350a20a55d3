"""The file that is sent to workers without the package. `test_connect.py` sends it to a server."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from purgatory_spark import ship_package
from purgatory_spark._spark import shipping

#: What a worker without the package does with the file: import its functions, and say its version.
WORKER = """
import importlib.metadata, sys
sys.path.insert(1, sys.argv[1])
import purgatory_spark._outcomes.batch, purgatory_spark._outcomes.replay, request_purgatory
print(request_purgatory.__compiled__, importlib.metadata.version("purgatory-spark"))
print(all(".zip/" in module.__file__ for module in (purgatory_spark, request_purgatory)))
"""


class RecordingContext:
    """A cluster's context, which does to the driver's path what Spark's own does."""

    def __init__(self) -> None:
        self.files: list[str] = []
        self.said: list[str] = []

    def addPyFile(self, path: str) -> None:  # noqa: N802
        sys.path.insert(1, path)
        self.files.append(path)
        if not self.said:
            command = [sys.executable, "-c", WORKER, path]
            self.said = subprocess.check_output(command, text=True).split()


def test_workers_of_a_cluster_import_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipping, "require_local_python", lambda spark: False)
    context, path = RecordingContext(), list(sys.path)
    cluster: Any = SimpleNamespace(sparkContext=context)
    ship_package(cluster)
    ship_package(cluster)
    assert context.said == ["False", version("purgatory-spark"), "True"]
    assert sys.path == path
    first, second = context.files
    # A session refuses the name from another path, and reads the file when an executor asks for it.
    assert first == second
    assert Path(first).exists()


def test_nothing_is_sent_in_local_mode(spark: SparkSession) -> None:
    sent = list(spark.sparkContext._python_includes)
    ship_package(spark)
    assert spark.sparkContext._python_includes == sent
